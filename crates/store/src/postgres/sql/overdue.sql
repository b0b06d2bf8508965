-- Jobs to which something must happen because time has passed.

-- name: OVERDUE_LEASES
-- Jobs whose lease is over.
select no from consign.job where lease_until <= $1 order by lease_until limit $2;

-- name: OVERDUE_EXPIRED
-- Jobs that waited too long.
select no from consign.job where expires_at <= $1 order by expires_at limit $2;

-- name: OVERDUE_PARENTS
-- Jobs that wait for their children, of which none is live any more. A node that sees a child end
-- looks after its parent at once; this finds parents whose node ended between the two. Digests are
-- below zero.
select no from consign.job parent
 where awaits < 0
   and not exists (select from consign.job where child_of = parent.awaits)
 limit $1;

-- name: OVERDUE_RETENTION
-- Ended jobs whose retention is over. It depends on the queue and on whether a job has a key, so each
-- combination is a query of its own.
select no from consign.job_ended
 where queue = $1 and keyed = $2 and kept_since <= $3
 order by kept_since limit $4;
