-- How many jobs each queue has in each status. Transactions write small deltas, so that none waits
-- for a counter; one node adds them up now and then.

-- name: COUNTS
-- The sums of queues as of the last roll-up, and what has changed since.
select queue, counts from consign.counter where queue = any($1)
union all select queue, counts from consign.delta where queue = any($1);

-- name: QUEUED
-- How many jobs wait in each queue, for the limit on them.
select q.no,
       coalesce((select c.counts[2] from consign.counter c where c.queue = q.no), 0)
       + coalesce((select pg_catalog.sum(d.counts[2])
                     from consign.delta d where d.queue = q.no), 0)::int8
  from pg_catalog.unnest($1::int4[]) q(no);

-- name: ROLL_UP
-- Adds deltas up, and leaves those that another transaction has locked to the next roll-up.
with removed as (
  delete from consign.delta where ctid = any(array(
    select ctid from consign.delta limit $1 for update skip locked))
  returning queue, counts),
sums as (
  select queue, pg_catalog.sum(counts[1])::int8 a, pg_catalog.sum(counts[2])::int8 b,
         pg_catalog.sum(counts[3])::int8 c, pg_catalog.sum(counts[4])::int8 d,
         pg_catalog.sum(counts[5])::int8 e, pg_catalog.sum(counts[6])::int8 f,
         pg_catalog.sum(counts[7])::int8 g, pg_catalog.sum(counts[8])::int8 h,
         pg_catalog.sum(counts[9])::int8 i
    from removed group by queue order by queue)
insert into consign.counter as k (queue, counts)
select queue, array[a, b, c, d, e, f, g, h, i] from sums
on conflict (queue) do update set counts = array[
  k.counts[1] + excluded.counts[1], k.counts[2] + excluded.counts[2],
  k.counts[3] + excluded.counts[3], k.counts[4] + excluded.counts[4],
  k.counts[5] + excluded.counts[5], k.counts[6] + excluded.counts[6],
  k.counts[7] + excluded.counts[7], k.counts[8] + excluded.counts[8],
  k.counts[9] + excluded.counts[9]];
