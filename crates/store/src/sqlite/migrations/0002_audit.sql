-- What people did. The column `body` is a sealed row, as in 0001.

-- What was done, numbered without gaps, each entry tied to the one before it by a hash. Rows are only ever
-- added. The scope is a tenant, or '*'.
create table audit (
    number integer primary key,
    scope text not null,
    body blob not null
) strict;
create index audit_scope on audit (scope);
