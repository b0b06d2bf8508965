-- API keys and signing keys: small tables, read as a whole.

-- name: API_KEYS
-- All API keys.
select id, body from consign.api_key;

-- name: API_KEYS_OF
-- Those of one tenant.
select id, body from consign.api_key where scope = $1;

-- name: API_KEY_PUT
-- Writes a key that is new or has changed.
insert into consign.api_key (id, scope, body) values ($1, $2, $3)
on conflict (id) do update set scope = excluded.scope, body = excluded.body;

-- name: API_KEY_DROP
-- Forgets a key that has ended, to make room for another.
delete from consign.api_key where id = $1;

-- name: SIGNING_KEYS
-- All signing keys.
select id, body from consign.signing_key;

-- name: SIGNING_KEY_PUT
-- Writes a key that is new or has changed.
insert into consign.signing_key (id, body) values ($1, $2)
on conflict (id) do update set body = excluded.body;
