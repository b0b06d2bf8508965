-- Listings: numbers of jobs, newest first. $1 is the number below which the page begins, $2 the
-- limit, $3 the least number. Where a column and the number are conditions, they are compared as a
-- pair: with two conditions, PostgreSQL may walk all numbers until it meets the column's value.

-- name: LIST_ALL
-- Every job.
select no from consign.submission where no < $1 and no >= $3 order by no desc limit $2;

-- name: LIST_QUEUE
-- Jobs of a queue.
select no from consign.submission
 where (queue, no) < ($4, $1) and (queue, no) >= ($4, $3)
 order by queue desc, no desc limit $2;

-- name: LIST_SUBJECT
-- Jobs by the digest of their subject, bucket by bucket from the newest on. There may be thousands
-- of buckets (about an hour of jobs each), and each costs one step into an index.
select h.no
  from pg_catalog.generate_series(
         (select no from consign.submission where no < $1::int8 order by no desc limit 1) >> 42,
         (select no from consign.submission where no >= $3::int8 order by no limit 1) >> 42,
         -1) s(bucket)
 cross join lateral (
   select no from consign.submission
    where (no >> 42) = s.bucket and by_subject = $4 and no < $1 and no >= $3
    order by no desc limit $2) h
 limit $2;

-- name: LIST_CORRELATION
-- The same by their correlation.
select h.no
  from pg_catalog.generate_series(
         (select no from consign.submission where no < $1::int8 order by no desc limit 1) >> 42,
         (select no from consign.submission where no >= $3::int8 order by no limit 1) >> 42,
         -1) s(bucket)
 cross join lateral (
   select no from consign.submission
    where (no >> 42) = s.bucket and by_correlation = $4 and no < $1 and no >= $3
    order by no desc limit $2) h
 limit $2;

-- name: LIST_PARENT
-- The same by their parent.
select h.no
  from pg_catalog.generate_series(
         (select no from consign.submission where no < $1::int8 order by no desc limit 1) >> 42,
         (select no from consign.submission where no >= $3::int8 order by no limit 1) >> 42,
         -1) s(bucket)
 cross join lateral (
   select no from consign.submission
    where (no >> 42) = s.bucket and by_parent = $4 and no < $1 and no >= $3
    order by no desc limit $2) h
 limit $2;

-- name: LIST_LIVE
-- Jobs that have not ended.
select no from consign.job where no < $1 and no >= $3 order by no desc limit $2;

-- name: LIST_RUNNING
-- Jobs that run. They are few; the `offset 0` makes PostgreSQL find them first and sort then.
select no from (select no from consign.job where lease_until > 0 offset 0) r
 where no < $1 and no >= $3
 order by no desc limit $2;

-- name: LIST_ENDED
-- Jobs that have ended. Nearly all of them are completed, so there is no index for those.
select no from consign.job_ended where no < $1 and no >= $3 order by no desc limit $2;

-- name: LIST_STATUS
-- Jobs that ended otherwise. Status 2 is `completed`, which the index leaves out.
select no from consign.job_ended
 where (status, no) < ($4, $1) and (status, no) >= ($4, $3) and status <> 2
 order by status desc, no desc limit $2;

-- name: LIST_ERROR_LIVE
-- Live jobs whose last failure has this error code.
select no from consign.job
 where (error, no) < ($4, $1) and (error, no) >= ($4, $3) and error is not null
 order by error desc, no desc limit $2;

-- name: LIST_ERROR_ENDED
-- Ended jobs whose last failure has this error code.
select no from consign.job_ended
 where (error, no) < ($4, $1) and (error, no) >= ($4, $3) and error is not null
 order by error desc, no desc limit $2;
