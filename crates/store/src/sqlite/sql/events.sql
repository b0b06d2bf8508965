-- The outbox. A row is a page of events, under the number of its first event.

-- name: OUTBOX_PAGES
-- The pages from the one that holds event ?1.
select first_event, page from outbox
 where first_event >= coalesce((select max(first_event) from outbox where first_event <= ?1), 0)
   and first_event <= ?2
 order by first_event;

-- name: OUTBOX_PAGE_OF
-- The page that holds an event.
select first_event, page from outbox where first_event <= ?1 order by first_event desc limit 1;

-- name: OUTBOX_PAGE_PUT
-- A page whose events no longer contain the data of an erased job.
update outbox set page = ?2 where first_event = ?1;

-- name: OUTBOX_PAGE_DELETE
-- A page that is old and published.
delete from outbox where first_event = ?1;

-- name: FIRST_EVENT
-- The oldest event that can still be read.
select min(first_event) from outbox;
