//! A role that may create in `public` plants operators, functions, types and tables there. An
//! unqualified name in a statement of ours would then run its code with the rights of the schema's
//! owner.
//!
//! Two layers prevent that, and each is tested without the other: the search path of sessions does
//! not contain `public`, and statements use no name that `public` could shadow.

use super::{RUNTIME, fixture_of, open_at};
use crate::{
    ManualClock, SeededRandom, Store,
    conformance::fixture::keyed,
    postgres::{
        PostgresAddress, doctor, examine_postgres, migrate_postgres, pool::Pool, schema, session,
        sql, uuid, verify, verify_postgres_audit,
    },
};
use engine::{JobId, Status, Timestamp};
use std::{
    collections::BTreeSet,
    future::poll_fn,
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
};
use test_postgres::{Options, PgBouncer, Server};
use tokio_postgres::{AsyncMessage, Client, types::Type};

/// The error that a planted object raises when it runs.
const FIRED: &str = "a trap of a stranger fired";

/// Types of operands and arguments in our statements, and related types.
const TYPES: &str = "{int2,int4,int8,float8,numeric,text,varchar,name,oid,regclass,regnamespace,timestamptz,interval,\
    xid,xid8,tid,uuid,bytea,bool,\"char\"}";
const ARRAYS: &str = "{int2[],int4[],int8[],text[],bytea[],uuid[],bool[],xid[],tid[],name[],oid[]}";
const OPERATORS: &str = "{=,<>,<,>,<=,>=,+,-,*,/,>>,||,~~}";

/// Every operator that `pg_catalog` lacks for a pair of these types: an exact match in `public` is
/// preferred to one in `pg_catalog` that needs a conversion.
const PLANT_OPERATORS: &str = "do $do$ declare l text; r text; o text; result text; begin
    foreach l in array '%TYPES%'::text[] loop foreach r in array '%TYPES%'::text[] loop
        foreach result in array array['boolean', l] loop
            execute format('create or replace function public.trap_%s(%s, %s) returns %s language plpgsql
                as $$ begin raise exception ''%FIRED%''; end $$', case when result = 'boolean' then 'yes' else 'some' end, l, r, result);
        end loop;
        foreach o in array '%OPERATORS%'::text[] loop
            continue when exists (select from pg_operator where oprname = o and oprnamespace = 'pg_catalog'::regnamespace
                and oprleft = l::regtype and oprright = r::regtype);
            execute format('create operator public.%s (leftarg = %s, rightarg = %s, function = public.trap_%s)', o, l, r,
                case when o in ('+', '-', '*', '/', '>>', '||') then 'some' else 'yes' end);
        end loop;
    end loop; end loop; end $do$";

/// Every function of these names with one or two concrete arguments: an exact match in `public` is
/// preferred to a polymorphic one in `pg_catalog`, and to one that needs a conversion.
const PLANT_FUNCTIONS: &str = "do $do$ declare f text; a text; b text; begin
    foreach f in array '%FUNCTIONS%'::text[] loop
        foreach a in array '%TYPES%'::text[] || '%ARRAYS%'::text[] loop
            execute format('create function public.%I(%s) returns %s language plpgsql
                as $$ begin raise exception ''%FIRED%''; end $$', f, a, case when f in ('unnest') then 'setof ' || rtrim(a, '[]') else a end);
        end loop;
        foreach a in array array['text', 'name', 'oid', 'regclass', 'int4', 'int8'] loop
            foreach b in array array['text', 'name', 'bool', 'int4', 'int8', 'timestamptz'] loop
                execute format('create function public.%I(%s, %s) returns %s language plpgsql
                    as $$ begin raise exception ''%FIRED%''; end $$', f, a, b, a);
            end loop;
        end loop;
    end loop; end $do$";

/// Tables and types with the names of ours and of the catalogue's.
const PLANT_NAMES: &str = "do $do$ declare t text; begin
    foreach t in array '{store_meta,job,queue,submission,key,claim,audit,migration,policy,pg_class,pg_roles,pg_settings,pg_namespace,\
        pg_stat_activity,pg_prepared_xacts}'::text[] loop
        execute format('create table public.%I (one boolean)', t);
    end loop;
    foreach t in array '{int8,int4,text,bytea,uuid,timestamptz,xid8}'::text[] loop
        execute format('create type public.%I as (trap boolean)', t);
    end loop; end $do$";

struct Hostile {
    /// Declared before the server, so that they are dropped first.
    strict: PgBouncer,
    lenient: PgBouncer,
    server: Server,
    address: PostgresAddress,
}

impl Hostile {
    fn new() -> Self {
        let server = Server::start(Options::fast());
        let address: PostgresAddress = server.address().parse().expect("lawful");
        let strict = PgBouncer::before(&server);
        let lenient = PgBouncer::with(&server, &[("ignore_startup_parameters", "options")]);
        let hostile = Hostile { strict, lenient, server, address };
        hostile.by(
            "postgres",
            &["create role stranger login; grant create, usage on schema public to stranger, consign"],
        );
        let functions = functions_of(&statements().join(" ")).into_iter().collect::<Vec<_>>();
        let functions = format!("{{{}}}", functions.join(","));
        let planted = [PLANT_OPERATORS, PLANT_FUNCTIONS, PLANT_NAMES].map(|sql| {
            sql.replace("%TYPES%", TYPES)
                .replace("%ARRAYS%", ARRAYS)
                .replace("%OPERATORS%", OPERATORS)
                .replace("%FUNCTIONS%", &functions)
                .replace("%FIRED%", FIRED)
        });
        hostile.by("stranger", &planted.each_ref().map(String::as_str));
        hostile
    }

    /// The address of every path to the server, each with a schema of its own: direct, with options
    /// that would undo the pinned search path, and through poolers that refuse options or ignore
    /// them.
    fn addresses(&self) -> Vec<PostgresAddress> {
        let direct = self.server.address();
        let search_path_undone = format!("{direct}?options=-c%20search_path%3Dpublic");
        let all = [direct, search_path_undone, self.strict.address(), self.lenient.address()];
        let fresh = |address: String| {
            let address: PostgresAddress = address.parse().expect("lawful");
            address.with_schema(&self.server.fresh_schema_name()).expect("lawful")
        };
        all.map(fresh).into()
    }

    /// Runs statements as a role.
    fn by(&self, role: &str, statements: &[&str]) {
        let client = self.client(role);
        // The hostile role must not run its own planted objects.
        RUNTIME.block_on(client.batch_execute("set search_path = pg_catalog")).expect("lawful");
        for statement in statements {
            RUNTIME.block_on(client.batch_execute(statement)).expect("the role may");
        }
    }

    fn client(&self, role: &str) -> Client {
        let address = self.server.address().replace("//consign@", &format!("//{role}@"));
        let address: PostgresAddress = address.parse().expect("lawful");
        let client = RUNTIME.block_on(address.connect()).expect("it answers");
        RUNTIME
            .block_on(
                client.batch_execute("reset search_path; set search_path = \"$user\", public"),
            )
            .expect("lawful");
        client
    }

    fn assert_nothing_fired(&self) {
        assert!(!self.server.log().contains(FIRED), "{}", self.server.log());
    }
}

/// The text of every statement that a node sends.
fn statements() -> Vec<&'static str> {
    let all = sql::ALL.iter().map(|(_, sql)| *sql);
    let others = [doctor::STATEMENTS, schema::STATEMENTS, &[session::IS_OWN, verify::PAGE]];
    all.chain(others.into_iter().flatten().copied()).collect()
}

/// The functions that a text calls, and some that have a syntax of their own.
fn functions_of(sql: &str) -> BTreeSet<String> {
    const NONE: [&str; 12] =
        ["any", "array", "coalesce", "in", "exists", "u", "q", "r", "s", "h", "as", "interval"];
    let mut names: BTreeSet<String> =
        ["date_part", "clock_timestamp", "extract", "now"].map(Into::into).into();
    for (at, _) in sql.match_indices('(') {
        let name = sql[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
        let name = name.unwrap_or_default();
        let qualified = sql[..at].ends_with(&format!("consign.{name}"));
        if name.starts_with(|c: char| c.is_ascii_lowercase()) && !qualified && !NONE.contains(&name)
        {
            names.insert(name.into());
        }
    }
    names
}

/// A connection with `public` in its search path, which receives the parse tree of each statement.
fn reader(address: &PostgresAddress) -> (Client, Receiver<String>) {
    let (notice_sender, parse_trees) = channel();
    let connector = RUNTIME.block_on(async { schema::connector(address) }).expect("lawful");
    let (client, mut connection) = RUNTIME.block_on(connector.dial("")).expect("it answers");
    RUNTIME.spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notice(notice) = message {
                let _ = notice_sender.send(notice.detail().unwrap_or_default().to_owned());
            }
        }
    });
    let set = "set search_path = \"$user\", public; set debug_pretty_print = off; set client_min_messages = log; \
        set debug_print_parse = on";
    RUNTIME.block_on(client.batch_execute(set)).expect("every role may");
    (client, parse_trees)
}

/// The users' objects that a parse tree names: functions, operators, types and tables.
fn objects_of(tree: &str) -> BTreeSet<u32> {
    const FIELDS: [&str; 14] = [
        ":funcid ",
        ":opno ",
        ":opfuncid ",
        ":aggfnoid ",
        ":winfnoid ",
        ":relid ",
        ":resulttype ",
        ":vartype ",
        ":consttype ",
        ":funcresulttype ",
        ":opresulttype ",
        ":aggtype ",
        ":paramtype ",
        ":elemfuncid ",
    ];
    /// The first object id that the server gives to a user's object.
    const FIRST: u32 = 16_384;
    let number = |rest: &str| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok())
    };
    let fields = FIELDS
        .iter()
        .flat_map(|field| tree.match_indices(field).map(|(at, _)| &tree[at + field.len()..]));
    fields.filter_map(number).filter(|number| *number >= FIRST).collect()
}

#[test]
fn statements_never_resolve_to_objects_planted_in_public() {
    let hostile = Hostile::new();
    RUNTIME.block_on(migrate_postgres(&hostile.address)).expect("it can be made");
    let (client, parse_trees) = reader(&hostile.address);
    let foreign = "select 'function ' || p.oid::regprocedure from pg_proc p where p.oid = any($1) and p.pronamespace = 'public'::regnamespace \
        union all select 'operator ' || o.oid::regoperator from pg_operator o where o.oid = any($1) and o.oprnamespace = 'public'::regnamespace \
        union all select 'table ' || c.oid::regclass from pg_class c where c.oid = any($1) and c.relnamespace = 'public'::regnamespace \
        union all select 'type ' || t.oid::regtype from pg_type t where t.oid = any($1) and t.typnamespace = 'public'::regnamespace";
    let catalog_client = RUNTIME.block_on(hostile.address.connect()).expect("it answers");
    RUNTIME.block_on(catalog_client.batch_execute("set search_path = pg_catalog")).expect("lawful");
    let foreign_objects = |sql: &str| -> Vec<String> {
        let prepared = RUNTIME.block_on(client.prepare(sql));
        let mut trees = String::new();
        if prepared.is_ok() {
            // The notice arrives before the answer.
            parse_trees.try_iter().for_each(|tree| trees.push_str(&tree));
        }
        assert!(
            trees.contains(":funcid") || trees.contains("QUERY"),
            "{sql}: {trees} {:?}",
            prepared.err()
        );
        let objects: Vec<u32> = objects_of(&trees).into_iter().collect();
        let rows = RUNTIME
            .block_on(catalog_client.query_typed(foreign, &[(&objects, Type::OID_ARRAY)]))
            .expect("lawful");
        rows.iter().map(|row| format!("{}: {sql}", row.get::<_, String>(0))).collect()
    };
    let found = foreign_objects(UNQUALIFIED);
    assert_eq!(found.len(), 2, "a statement that names too little is caught: {found:?}");
    let all = statements().into_iter().map(|sql| schema::of_schema(sql, hostile.address.schema()));
    let foreign: Vec<String> = all.flat_map(|sql| foreign_objects(&sql)).collect();
    assert_eq!(foreign, [""; 0]);
}

/// A statement that `public` could shadow, unlike all of ours.
const UNQUALIFIED: &str = "select date_part('epoch', clock_timestamp()) * 1000";

#[test]
fn store_sessions_do_not_resolve_names_in_public() {
    let hostile = Hostile::new();
    for address in hostile.addresses() {
        RUNTIME.block_on(migrate_postgres(&address)).expect("it can be made");
        RUNTIME.block_on(async {
            let pool = Arc::new(Pool::new(schema::connector(&address).expect("lawful"), 1));
            let mut db = pool.acquire().await.expect("it answers");
            db.rows(UNQUALIFIED, &[]).await.expect("no trap fires where a statement is alone");
            db.mark_open();
            for begin in [sql::WRITE, sql::READ] {
                db.script(&sql::begin(begin, db.is_own())).await.expect("it begins");
                db.rows(UNQUALIFIED, &[]).await.expect("no trap fires in a transaction");
                db.script(sql::ROLLBACK).await.expect("it ends");
            }
            db.mark_closed();
        });
    }
    hostile.assert_nothing_fired();
}

#[test]
fn a_life_beside_traps_in_public_springs_none_of_them() {
    let hostile = Hostile::new();
    for address in hostile.addresses() {
        live_and_look(&address);
        hostile.assert_nothing_fired();
    }
    // The control: without the two layers, the planted operator runs.
    let client = hostile.client("consign");
    let sprung = client.batch_execute(UNQUALIFIED);
    RUNTIME.block_on(sprung).expect_err("the stranger's operator runs");
    assert!(hostile.server.log().contains(FIRED));
}

/// Everything that a node, an application and an operator do.
fn live_and_look(address: &PostgresAddress) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
    let random = Arc::new(SeededRandom::new(1));
    let store = open_at(address, &clock, &random);
    let fixture = fixture_of(&store, &clock, &random);
    let id = fixture.submit(keyed("a key", "1"));
    assert_eq!(fixture.complete(&fixture.take()), Ok(Status::Completed));
    fixture.sweep();
    let app = RUNTIME.block_on(address.connect()).expect("it answers");
    let enqueue =
        format!("select job_id from {}.enqueue('email', '1', key => 'k')", address.schema());
    let rows = RUNTIME.block_on(app.query_typed(&enqueue, &[])).expect("it is taken");
    let enqueued: JobId = uuid::id_of(&rows[0], 0).expect("an id");
    for id in [id, enqueued] {
        assert!(fixture.find(id).is_some());
    }
    fixture.prune_leftovers(10);
    RUNTIME.block_on(store.number_events(10)).expect("the store works");
    RUNTIME.block_on(store.raise_epoch()).expect("the store works");
    RUNTIME.block_on(migrate_postgres(address)).expect("nothing is to be done");
    RUNTIME.block_on(verify_postgres_audit(address, &mut |_| {})).expect("it can be read");
    RUNTIME.block_on(examine_postgres(address, &*clock)).expect("it can be looked at");
    let startup_lock = RUNTIME.block_on(address.startup_lock()).expect("no other node starts");
    RUNTIME.block_on(startup_lock.release());
}

#[test]
fn every_function_pins_its_search_path_and_denies_public() {
    let address = super::fresh_address();
    RUNTIME.block_on(migrate_postgres(&address)).expect("it can be made");
    let client = RUNTIME.block_on(address.connect()).expect("it answers");
    let open = format!(
        "select p.proname::text, coalesce(p.proconfig @> array['search_path=pg_catalog, pg_temp'], false), \
            has_function_privilege('public', p.oid, 'execute') \
         from pg_proc p where p.pronamespace = '{}'::regnamespace order by 1",
        address.schema()
    );
    let rows = RUNTIME.block_on(client.query_typed(&open, &[])).expect("lawful");
    assert!(rows.len() > 10);
    for row in rows {
        let (name, pinned, open): (String, bool, bool) = (row.get(0), row.get(1), row.get(2));
        assert!(pinned && !open, "{name}: pinned {pinned}, for every role {open}");
    }
}

/// A call with a star or without arguments has no argument type for which a function could be
/// planted.
#[test]
fn functions_without_a_typed_argument_are_named_with_their_schema() {
    let sources =
        [include_str!("../sql.rs"), include_str!("../schema.rs"), include_str!("../doctor.rs")];
    for source in sources {
        for function in ["count(*)", " now()"] {
            let mut found = source.match_indices(function).map(|(at, _)| &source[..at]);
            let bare = found.find(|before| !before.ends_with("pg_catalog."));
            let line = bare.map(|before| before.lines().count());
            assert_eq!(line, None, "{function} is not");
        }
    }
}
