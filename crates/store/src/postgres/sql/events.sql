-- The outbox. A row is a page (`sheet`) of events, under the position (`place`) of its first event.
-- Positions are taken before the commit; numbers are given after it, in the order of writing.

-- name: NUMBERING_LOCK
-- The last number. The lock keeps another node from numbering at the same time.
select last from consign.numbering for update;

-- name: NUMBERING_NEW
-- Pages without numbers, in the order in which they were written.
select turn, place, lines from consign.outbox_new order by turn limit $1;

-- name: NUMBERING_PUT
-- The new last number.
update consign.numbering set last = $1;

-- name: NUMBERS_INSERT
-- Numbers for runs of events.
insert into consign.outbox_number (first, place, lines)
select * from unnest($1::int8[], $2::int8[], $3::int4[]);

-- name: NUMBERED_DROP
-- Pages that have numbers now.
delete from consign.outbox_new where turn = any($1);

-- name: OUTBOX_REST
-- A page of which only the beginning got numbers.
update consign.outbox_new set place = $2, lines = $3 where turn = $1;

-- name: EVENTS
-- The pages from the one that holds event $1.
select n.first, n.place, n.lines, o.place, o.sheet
  from consign.outbox_number n
 cross join lateral (
   select place, sheet from consign.outbox
    where place <= n.place order by place desc limit 1) o
 where n.first >= coalesce((select first from consign.outbox_number
                             where first <= $1 order by first desc limit 1), 0)
 order by n.first limit $2;

-- name: EVENT_ENVELOPES
-- What events say of their jobs. An erased job's envelope stays as long as its events.
select no, envelope from consign.submission where no = any($1)
union all select no, envelope from consign.erased where no = any($1);

-- name: SHEETS_OF
-- The pages that contain these positions, locked in their order.
select place, sheet from consign.outbox
 where place = any(array(
   select (select place from consign.outbox where place <= p order by place desc limit 1)
     from pg_catalog.unnest($1::int8[]) p))
 order by place for update;

-- name: SHEETS_OF_READ
-- The same without locks.
select place, sheet from consign.outbox
 where place = any(array(
   select (select place from consign.outbox where place <= p order by place desc limit 1)
     from pg_catalog.unnest($1::int8[]) p))
 order by place;

-- name: SHEETS_FIRST
-- The oldest page that has numbers, for the pruning.
select n.first, n.place, n.lines, o.place, o.sheet
  from consign.outbox_number n
 cross join lateral (
   select place, sheet from consign.outbox
    where place <= n.place order by place desc limit 1) o
 order by n.first limit 1 for update of n;

-- name: NUMBER_PUT
-- A run of numbers whose beginning is old.
update consign.outbox_number set first = $2, place = $3, lines = $4 where first = $1;

-- name: NUMBER_DELETE
-- A run of numbers that is old as a whole.
delete from consign.outbox_number where first = $1;

-- name: OUTBOX_INSERT
-- What is left of a page whose beginning is old.
insert into consign.outbox (place, sheet) select * from unnest($1::int8[], $2::bytea[]);

-- name: SHEET_PUT
-- A page from which an erased job's words were removed.
update consign.outbox set sheet = $2 where place = $1;

-- name: SHEET_DELETE
-- A page that is old.
delete from consign.outbox where place = $1;
