-- The audit log. The column `body` is a sealed row, as in 0001.

-- Entries are numbered without gaps, and a hash chains each to the one before it. Rows are only
-- added. The scope is a tenant, or '*'.
create table audit (
    number integer primary key,
    scope text not null,
    body blob not null
) strict;
create index audit_scope on audit (scope);
