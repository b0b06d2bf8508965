//! The rights that a role needs to call the function, and the rights that it does not get.

use super::{EnqueueFixture, PostgresAddress, RUNTIME, connect, refused};
use test_postgres::Server;
use tokio_postgres::{Client, error::SqlState};

fn superuser() -> Client {
    let address: PostgresAddress = Server::shared().superuser_address().parse().expect("lawful");
    connect(&address)
}

/// Creates a role without rights, and connects as it.
fn role_without_rights(fixture: &EnqueueFixture) -> (String, Client) {
    let role = format!("{}_app", fixture.address.schema());
    RUNTIME.block_on(superuser().batch_execute(&format!("create role {role} login"))).unwrap();
    let address = Server::shared().address().replace("//consign@", &format!("//{role}@"));
    (role, connect(&address.parse().expect("lawful")))
}

#[test]
fn two_grants_are_all_that_an_application_needs_and_all_that_it_gets() {
    const DENIED: &str = "42501";
    let fixture = EnqueueFixture::idle();
    let (role, app) = role_without_rights(&fixture);
    assert_eq!(refused(fixture.enqueue_by(&app, "'email'")).0, DENIED);
    fixture.sql(&format!("grant usage on schema {} to {role}", fixture.address.schema()));
    assert_eq!(refused(fixture.enqueue_by(&app, "'email'")).0, DENIED, "not for every role");
    fixture.sql(&format!("grant execute on function consign.enqueue to {role}"));
    let (id, _) = fixture.enqueue_by(&app, "'email', '1', key => 'k'").expect("it may");
    assert!(fixture.job(id).is_some());

    let schema = fixture.address.schema();
    let tables = fixture.rows(&format!(
        "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         where n.nspname = '{schema}' and c.relkind in ('r', 'p', 'S')"
    ));
    assert!(tables.len() > 20);
    for table in tables.iter().map(|row| row.get::<_, String>(0)) {
        let read = format!("select * from {schema}.{table}");
        let denied = RUNTIME.block_on(app.query_typed(&read, &[])).expect_err(&table);
        assert_eq!(denied.code().map(SqlState::code), Some(DENIED), "{table}");
    }
    let inside = fixture.named("select consign.new_id(1)");
    assert!(
        RUNTIME.block_on(app.query_typed(&inside, &[])).is_err(),
        "what it is made of stays hidden"
    );
}

#[test]
fn a_caller_s_own_functions_and_tables_are_not_mistaken_for_ours() {
    let fixture = EnqueueFixture::idle();
    let (role, app) = role_without_rights(&fixture);
    let schema = fixture.address.schema();
    fixture.sql(&format!("grant usage on schema {schema} to {role}"));
    fixture.sql(&format!("grant execute on function consign.enqueue to {role}"));
    let trap = "create temp table inbox (id uuid); create temp table key (id uuid); \
        create function pg_temp.octet_length(text) returns integer language sql as 'select 1 / 0'; \
        set search_path = pg_temp, pg_catalog";
    RUNTIME.block_on(app.batch_execute(trap)).unwrap();
    let (id, _) = fixture.enqueue_by(&app, "'email', '1', key => 'k'").expect("it may");
    assert!(fixture.job(id).is_some());
}

#[test]
fn a_caller_defined_cast_never_runs_with_owner_rights() {
    let fixture = EnqueueFixture::idle();
    let (role, app) = role_without_rights(&fixture);
    let schema = fixture.address.schema();
    fixture.sql(&format!("grant usage on schema {schema} to {role}"));
    fixture.sql(&format!("grant execute on function consign.enqueue to {role}"));
    let trap = fixture.named(
        "create type pg_temp.trap as (a integer); \
         create function pg_temp.spring(pg_temp.trap) returns text language plpgsql \
             as $$ begin delete from consign.store_meta; return '1'; end $$; \
         create cast (pg_temp.trap as text) with function pg_temp.spring(pg_temp.trap)",
    );
    RUNTIME.block_on(app.batch_execute(&trap)).unwrap();
    let (state, code, message) = refused(fixture.enqueue_by(&app, "'email', row(1)::pg_temp.trap"));
    assert_eq!((state.as_str(), code.as_str()), ("CN400", "INVALID_FIELD"), "{message}");
    assert_eq!(fixture.count("store_meta"), 1);
}
