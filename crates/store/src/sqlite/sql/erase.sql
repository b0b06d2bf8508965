-- Removes a job and all its rows.

-- name: SUBMISSION_DELETE
-- The submission.
delete from submission where no = ?1;

-- name: HISTORY_DELETE
-- The history rows.
delete from history where no = ?1;

-- name: LISTING_DELETE
-- The entries in the listing.
delete from listing where bucket = ?1 and digest = ?2 and no = ?3;

-- name: ERASED_INSERT
-- The envelope for the job's events, for as long as the last of them can be read.
insert into erased (no, last_event, envelope) values (?1, ?2, ?3);

-- name: ERASED_OLD
-- Erased jobs whose last event is gone.
select no from erased where last_event < ?1 order by last_event limit ?2;

-- name: ERASED_DELETE
-- One of those.
delete from erased where no = ?1;
