-- Who may pass the door, and what people did. The column `body` is a sealed row, as in 0001.

-- API keys, by a digest only. The id is 64 bits of chance, and no secret.
create table api_key (
    id integer primary key,
    -- A tenant, or '*'.
    scope text not null,
    body blob not null
) strict;
create index api_key_scope on api_key (scope);

-- Keys that sign status addresses. Whoever can read this table can sign.
create table signing_key (
    id integer primary key,
    body blob not null
) strict;

-- What was done, numbered without gaps, each entry tied to the one before it by a hash. Rows are only ever
-- added. The scope is a tenant, or '*'.
create table audit (
    number integer primary key,
    scope text not null,
    body blob not null
) strict;
create index audit_scope on audit (scope);
