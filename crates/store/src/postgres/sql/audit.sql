-- The audit log.

-- name: AUDIT_LOCK
-- Only one transaction at a time adds to the log. A row is locked, not an advisory lock taken: any
-- role that may connect can take those.
select name from consign.lock where name = 'audit' for update;

-- name: AUDIT_INSERT
-- Entries. The body of each is chained to the entry before.
insert into consign.audit (number, scope, body)
select * from unnest($1::int8[], $2::text[], $3::bytea[]);

-- name: AUDIT_HEAD
-- The last entry, which the next is chained to.
select number, scope, body from consign.audit order by number desc limit 1;

-- name: AUDIT
-- Entries below a number, newest first.
select number, scope, body from consign.audit where number < $1 order by number desc limit $2;

-- name: AUDIT_OF
-- The same of one tenant. Pairs are compared, as in list.sql.
select number, scope, body from consign.audit
 where (scope, number) < ($3, $1) and scope >= $3
 order by scope desc, number desc limit $2;
