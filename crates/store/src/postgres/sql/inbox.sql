-- The inbox of the SQL function `enqueue`: rows that applications wrote in transactions of their
-- own, and that nodes make jobs of.

-- name: INBOX_NEXT
-- Locks the next rows, except those that another transaction has locked.
select id, tenant, job_type, subject, correlation, key, payload, payload_version, priority::int4,
       run_at, expires_at, max_attempts, parent, traceparent
  from consign.inbox
 where refused is null
 order by id limit $1 for update skip locked;

-- name: INBOX_LOCK
-- Locks rows that are wanted by their ids, and waits for them.
select id, tenant, job_type, subject, correlation, key, payload, payload_version, priority::int4,
       run_at, expires_at, max_attempts, parent, traceparent
  from consign.inbox
 where id = any($1) and refused is null
 order by id for update;

-- name: INBOX_PEEK
-- Whether there are rows, without a lock.
select id from consign.inbox where refused is null order by id limit $1;

-- name: INBOX_IDS_OF
-- Which of these ids are rows of the inbox: a verb about such a job promotes the row first.
select id from consign.inbox where id = any($1) and refused is null;

-- name: INBOX_DELETE
-- Rows that are jobs now.
delete from consign.inbox where id = any($1);

-- name: INBOX_REFUSE
-- Rows of which no job can be made stay, with the reason, for the operator to see.
update consign.inbox i set refused = u.reason
  from unnest($1::uuid[], $2::text[]) u(id, reason)
 cross join lateral (select ctid from consign.inbox where id = u.id for update) located
 where i.ctid = located.ctid;

-- name: INBOX_KEYS_DROP
-- Frees the keys of such rows, which `enqueue` took.
delete from consign.key where ctid = any(array(
  select k.ctid
    from consign.inbox i
   cross join lateral (
     select no from consign.queue where job_type = i.job_type and tenant = i.tenant offset 0) q
   cross join lateral (
     select ctid from consign.key
      where queue = q.no and name = i.key_stored and id = i.id for update) k
   where i.id = any($1)));
