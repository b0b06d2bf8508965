-- Removes jobs and every trace of them.

-- name: SUBMISSION_DELETE
-- What was submitted.
delete from consign.submission where no = any($1);

-- name: HISTORY_DELETE
-- What happened to them.
delete from consign.history where no = any($1);

-- name: ERASED_INSERT
-- What their events say of them, for as long as the last of them can be read.
insert into consign.erased (no, last_event_seq, envelope)
select * from unnest($1::int8[], $2::int8[], $3::bytea[]);

-- name: ERASED_AMONG
-- Whether one of these jobs was erased: then the submit that was not answered has run.
select 1 from consign.erased where no = any($1) limit 1;

-- name: ERASED_OLD
-- Drops what is kept of erased jobs whose last event is gone.
delete from consign.erased where no = any(array(
  select no from consign.erased
   where last_event_seq < coalesce((select event_seq from consign.outbox order by event_seq limit 1),
                               9223372036854775807)
   order by last_event_seq limit $1));
