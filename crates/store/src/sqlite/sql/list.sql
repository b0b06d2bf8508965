-- Listings: numbers of jobs, newest first, below a number. ?1 is that number, ?2 the limit.

-- name: LIST_ALL
-- Every job.
select no from submission where no < ?1 order by no desc limit ?2;

-- name: LIST_TAIL
-- The newest jobs, which `listing` does not contain yet.
select no from submission where no < ?1 and no > ?3 order by no desc limit ?2;

-- name: LIST_DIGEST
-- Jobs with one digest (of a queue, subject, correlation or parent), in one bucket of numbers.
select no from listing where bucket = ?4 and digest = ?3 and no < ?1 order by no desc limit ?2;

-- name: LIST_LIVE
-- Jobs that have not ended.
select no from job where no < ?1 order by no desc limit ?2;

-- name: LIST_RUNNING
-- Jobs that run. The plus makes SQLite read the index of running jobs, which are few, and sort.
select no from job where lease_until is not null and +no < ?1 order by +no desc limit ?2;

-- name: LIST_ENDED
-- Jobs that have ended. Nearly all of them are completed, so there is no index for those.
select no from job_ended where no < ?1 order by no desc limit ?2;

-- name: LIST_STATUS
-- Jobs that ended otherwise. Status 2 is `completed`, which the index leaves out.
select no from job_ended where status = ?3 and status <> 2 and no < ?1 order by no desc limit ?2;

-- name: LIST_ERROR_LIVE
-- Live jobs whose last failure has this error code.
select no from job where error = ?3 and no < ?1 order by no desc limit ?2;

-- name: LIST_ERROR_ENDED
-- Ended jobs whose last failure has this error code.
select no from job_ended where error = ?3 and no < ?1 order by no desc limit ?2;

-- name: LAST_NO
-- The newest number, where the search for a time of creation begins.
select max(no) from submission;

-- name: FIRST_NO_FROM
-- The first job from a number on. Numbers follow the times of creation, so a binary search over
-- them finds where a listing up to a time begins.
select no, envelope from submission where no >= ?1 order by no limit 1;

-- name: LISTING_MISSING
-- Jobs that `listing` does not contain yet. The writer adds many at once: that is cheaper than index
-- entries at each submit.
select no, envelope from submission where no > ?1 order by no limit ?2;

-- name: LISTING_INSERT
-- One entry. An entry that is there already stays.
insert or ignore into listing (bucket, digest, no) values (?1, ?2, ?3);

-- name: LISTING_INSERT_16
insert or ignore into listing (bucket, digest, no) values
  (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?),
  (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?);
