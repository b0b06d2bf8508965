-- The outbox. A row is a page (`sheet`) of events, under the number of its first event.

-- name: OUTBOX_PAGES
-- The pages from the one that holds event ?1.
select event, sheet from outbox
 where event >= coalesce((select max(event) from outbox where event <= ?1), 0) and event <= ?2
 order by event;

-- name: OUTBOX_PAGE_OF
-- The page that holds an event.
select event, sheet from outbox where event <= ?1 order by event desc limit 1;

-- name: OUTBOX_PAGE_PUT
-- A page whose events no longer contain the data of an erased job.
update outbox set sheet = ?2 where event = ?1;

-- name: OUTBOX_PAGE_DELETE
-- A page that is old and published.
delete from outbox where event = ?1;

-- name: FIRST_EVENT
-- The oldest event that can still be read.
select min(event) from outbox;
