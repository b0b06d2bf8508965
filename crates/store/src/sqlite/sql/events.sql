-- The outbox. A row is a page (`sheet`) of events, under the number of its first event.

-- name: SHEETS
-- The pages from the one that holds event ?1.
select event, sheet from outbox
 where event >= coalesce((select max(event) from outbox where event <= ?1), 0) and event <= ?2
 order by event;

-- name: SHEET_OF
-- The page that holds an event.
select event, sheet from outbox where event <= ?1 order by event desc limit 1;

-- name: SHEET_PUT
-- A page from which an erased job's words were removed.
update outbox set sheet = ?2 where event = ?1;

-- name: SHEET_DELETE
-- A page that is old and published.
delete from outbox where event = ?1;

-- name: FIRST_EVENT
-- The oldest event that can still be read.
select min(event) from outbox;
