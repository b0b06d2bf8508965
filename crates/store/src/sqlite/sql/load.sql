-- Reads one job and what belongs to it. There is no rule in here on purpose.

-- name: JOB_BY_ID
-- A job is live or ended. One statement reads both tables: between two, the job could move.
select h.no, h.envelope, j.body, e.body, coalesce(j.queue, e.queue)
  from submission h
  left join job j on j.no = h.no
  left join job_ended e on e.no = h.no
 where h.id = ?1;

-- name: JOB_BY_NO
-- The same by the job's number, as indexes name it.
select h.no, h.envelope, j.body, e.body, coalesce(j.queue, e.queue)
  from submission h
  left join job j on j.no = h.no
  left join job_ended e on e.no = h.no
 where h.no = ?1;

-- name: NEWEST_ID
-- The newest id of the file, read once when the store is opened.
select max(id) from submission;

-- name: PAYLOAD
-- The payload is read apart from the job: most readers do not want it, and it may be large.
select coalesce(corrected_payload, payload) from submission where no = ?1;

-- name: ENVELOPE
-- What an event says of its job. An erased job's envelope stays as long as its events.
select envelope from submission where no = ?1
union all select envelope from erased where no = ?1;

-- name: HISTORY
-- The history of a job after its entry `seq`, oldest first.
select seq, body from history where no = ?1 and seq > ?2 order by seq;

-- name: HISTORY_NEWEST_FIRST
-- The same from the end: a wanted lease token mostly belongs to a late attempt.
select seq, body from history where no = ?1 order by seq desc;

-- name: EVENTS_OF_JOB
-- The events about a job after its history entry `seq`.
select event from history where no = ?1 and seq > ?2 and event is not null order by seq;

-- name: STEP
-- The stored result of a step.
select body from step where no = ?1 and name = ?2;

-- name: STEPS_COUNT
-- How many steps a job has stored, for the limit on them.
select count(*) from step where no = ?1;

-- name: LIVE_CHILDREN
-- How many children of a job have not ended, up to a limit.
select count(*) from (select 1 from job where child_of = ?1 limit ?2);
