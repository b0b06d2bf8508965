-- API keys and signing keys: small tables, read as a whole.

-- name: API_KEYS
-- All API keys.
select id, body from api_key;

-- name: API_KEYS_OF
-- Those of one tenant.
select id, body from api_key where scope = ?1;

-- name: API_KEY_PUT
-- Writes a key that is new or has changed.
insert or replace into api_key (id, scope, body) values (?1, ?2, ?3);

-- name: API_KEY_DROP
-- Forgets a key that ended long ago, to make room for another.
delete from api_key where id = ?1;

-- name: SIGNING_KEYS
-- All signing keys.
select id, body from signing_key;

-- name: SIGNING_KEY_PUT
-- Writes a key that is new or has changed.
insert or replace into signing_key (id, body) values (?1, ?2);
