-- The audit log.

-- name: AUDIT_INSERT
-- One entry. Its body is chained to the entry before.
insert into audit (number, scope, body) values (?1, ?2, ?3);

-- name: AUDIT_HEAD
-- The last entry, which the next is chained to.
select number, scope, body from audit order by number desc limit 1;

-- name: AUDIT
-- Entries below a number, newest first.
select number, scope, body from audit where number < ?1 order by number desc limit ?2;

-- name: AUDIT_OF
-- The same of one tenant.
select number, scope, body from audit
 where scope = ?3 and number < ?1
 order by number desc limit ?2;
