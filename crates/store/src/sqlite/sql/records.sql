-- Records: one small table for policies, pauses and credentials.

-- name: RECORD_KINDS
-- All kinds in the table, read when the store is opened.
select distinct kind from record;

-- name: RECORDS_OF_KIND
-- The records of one kind.
select kind, scope, key, body from record where kind = ?1;

-- name: RECORD_PUT
-- Writes a record that is new or has changed.
insert or replace into record (kind, scope, key, body) values (?1, ?2, ?3, ?4);

-- name: RECORD_REMOVE
-- Removes a record.
delete from record where kind = ?1 and scope = ?2 and key = ?3;
