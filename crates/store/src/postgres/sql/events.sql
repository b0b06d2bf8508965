-- The outbox. A row is a page of events, under the position (`event_seq`) of its first event. A
-- transaction takes positions before its commit; the leader numbers events after it, in the order
-- of writing.

-- name: NUMBERING_LOCK
-- The last number. The lock keeps another node from numbering at the same time.
select last_number from consign.numbering for update;

-- name: UNNUMBERED
-- Pages without numbers, in the order in which they were written.
select write_order, event_seq, event_count from consign.outbox_new order by write_order limit $1;

-- name: NUMBERING_PUT
-- The new last number.
update consign.numbering set last_number = $1;

-- name: NUMBERS_INSERT
-- Numbers for runs of events.
insert into consign.outbox_number (first_number, event_seq, event_count)
select * from unnest($1::int8[], $2::int8[], $3::int4[]);

-- name: UNNUMBERED_DROP
-- Pages that have numbers now.
delete from consign.outbox_new where write_order = any($1);

-- name: UNNUMBERED_PUT
-- A page of which only the beginning got numbers.
update consign.outbox_new set event_seq = $2, event_count = $3 where write_order = $1;

-- name: EVENTS
-- The pages from the one that holds event $1.
select n.first_number, n.event_seq, n.event_count, o.event_seq, o.page
  from consign.outbox_number n
 cross join lateral (
   select event_seq, page from consign.outbox
    where event_seq <= n.event_seq order by event_seq desc limit 1) o
 where n.first_number >= coalesce((select first_number from consign.outbox_number
                             where first_number <= $1 order by first_number desc limit 1), 0)
 order by n.first_number limit $2;

-- name: EVENT_ENVELOPES
-- What events say of their jobs. An erased job's envelope stays as long as its events.
select no, envelope from consign.submission where no = any($1)
union all select no, envelope from consign.erased where no = any($1);

-- name: OUTBOX_PAGES_LOCK
-- The pages that contain these positions, locked in their order.
select event_seq, page from consign.outbox
 where event_seq = any(array(
   select (select event_seq from consign.outbox
            where event_seq <= p order by event_seq desc limit 1)
     from pg_catalog.unnest($1::int8[]) p))
 order by event_seq for update;

-- name: OUTBOX_PAGES_OF
-- The same without locks.
select event_seq, page from consign.outbox
 where event_seq = any(array(
   select (select event_seq from consign.outbox
            where event_seq <= p order by event_seq desc limit 1)
     from pg_catalog.unnest($1::int8[]) p))
 order by event_seq;

-- name: OUTBOX_PAGE_FIRST
-- The oldest page that has numbers, for the pruning.
select n.first_number, n.event_seq, n.event_count, o.event_seq, o.page
  from consign.outbox_number n
 cross join lateral (
   select event_seq, page from consign.outbox
    where event_seq <= n.event_seq order by event_seq desc limit 1) o
 order by n.first_number limit 1 for update of n;

-- name: NUMBER_PUT
-- The rest of a run of numbers whose first events were pruned.
update consign.outbox_number set first_number = $2, event_seq = $3, event_count = $4
 where first_number = $1;

-- name: NUMBER_DELETE
-- A run of numbers of which all events are pruned.
delete from consign.outbox_number where first_number = $1;

-- name: OUTBOX_PAGE_INSERT
-- The rest of a page whose first events were pruned.
insert into consign.outbox (event_seq, page) select * from unnest($1::int8[], $2::bytea[]);

-- name: OUTBOX_PAGE_PUT
-- A page from which an erased job's data were removed.
update consign.outbox set page = $2 where event_seq = $1;

-- name: OUTBOX_PAGE_DELETE
-- A page of which all events are pruned.
delete from consign.outbox where event_seq = $1;
