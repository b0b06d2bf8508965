//! What a database says about itself, and what mends it.

use super::finding::{Finding, quoted};
use crate::{args::DoctorArgs, opening};
use platform::SystemClock;
use store::{
    AuditChain, PostgresAddress, PostgresHealth, examine_postgres, postgres_schema,
    verify_postgres_audit,
};

pub(super) fn look(address: &PostgresAddress, args: &DoctorArgs) -> Vec<Finding> {
    let health = match opening::block_on(examine_postgres(address, &SystemClock::new())) {
        Ok(health) => health,
        Err(error) => return vec![unreachable(&error)],
    };
    let mut findings = vec![reached(address, &health), version(&health)];
    findings.extend(weaknesses(address));
    findings.extend(schema(address));
    findings.extend(rights(address, &health));
    findings.extend(creators(address, &health));
    findings.extend(settings(&health));
    findings.extend(transactions(&health));
    findings.extend(prepared(&health));
    findings.push(clock(&health));
    findings.push(connections(&health));
    findings.push(audit(address, args));
    findings
}

fn unreachable(error: &anyhow::Error) -> Finding {
    Finding::wrong("store", format!("store: {error:#}"))
        .run("whether it runs", "pg_isready --host=HOST --port=PORT")
        .say("docs/operating.md, \"When the database is down\", says what nodes do meanwhile")
}

fn reached(address: &PostgresAddress, health: &PostgresHealth) -> Finding {
    let (role, ms) = (&health.role, health.round_trip.as_millis());
    let what = format!("store {address}: reached as {role}, {ms} ms for a round trip");
    match health.superuser {
        true => Finding::note("store", format!("{what}; a superuser may do more than is needed"))
            .say("give it a role of its own: docs/operating.md has the SQL"),
        false => Finding::well("store", what),
    }
}

/// How the database is reached, where an attacker on the way could make use of it.
fn weaknesses(address: &PostgresAddress) -> Vec<Finding> {
    let note = |what: String| Finding::note("connection", format!("address of the store: {what}"));
    address.weaknesses().into_iter().map(note).collect()
}

/// Older ones lack what the statements use, and are no longer mended by anybody.
const VERSION_MIN: i32 = 130_000;

fn version(health: &PostgresHealth) -> Finding {
    let what = format!("PostgreSQL {}", health.version);
    match health.version_number >= VERSION_MIN {
        true => Finding::well("version", what),
        false => Finding::wrong("version", format!("{what}: 13 or later is needed"))
            .say("upgrade the database"),
    }
}

fn schema(address: &PostgresAddress) -> Option<Finding> {
    match opening::block_on(postgres_schema(address)) {
        Ok(schema) if schema.missing.is_empty() => {
            Some(Finding::well("schema", format!("schema {}: up to date", address.schema())))
        }
        Ok(schema) => {
            let (name, found, known) = (address.schema(), schema.found, schema.known);
            let what = format!("schema {name}: is at {found}, this version writes {known}");
            let finding = Finding::note("schema", what);
            Some(
                finding
                    .run("the next start brings it up to date, and so does", "consign migrate up"),
            )
        }
        Err(error) => Some(Finding::wrong("schema", format!("schema: {error:#}"))),
    }
}

fn rights(address: &PostgresAddress, health: &PostgresHealth) -> Vec<Finding> {
    let (schema, role) = (address.schema(), quoted_name(&health.role));
    let mut findings = Vec::new();
    if !health.may_migrate && health.schema_is_there {
        let what = format!("rights: {} may not make tables in the schema {schema}", health.role);
        let cure = psql(&format!("alter schema {schema} owner to {role}"));
        let fine = format!("{what}; fine where another role runs `consign migrate up`");
        findings.push(Finding::note("rights", fine).run("else, as its owner", cure));
    }
    if !health.may_migrate && !health.schema_is_there {
        let what =
            format!("rights: there is no schema {schema}, and {} may not make one", health.role);
        let cure = psql(&format!("create schema {schema} authorization {role}"));
        findings.push(Finding::wrong("rights", what).run("as the owner of the database", cure));
    }
    if !health.closed_tables.is_empty() {
        let tables = health.closed_tables.join(", ");
        let cure = format!(
            "grant select, insert, update, delete on all tables in schema {schema} to {role}"
        );
        let what = format!("rights: {} may not read and write {tables}", health.role);
        findings.push(Finding::wrong("rights", what).run("as their owner", psql(&cure)));
    }
    if !health.closed_functions.is_empty() {
        let functions = health.closed_functions.join(", ");
        let cure = format!("grant execute on all functions in schema {schema} to {role}");
        let what = format!("rights: {} may not call {functions}", health.role);
        findings.push(Finding::wrong("rights", what).run("as their owner", psql(&cure)));
    }
    if findings.is_empty() {
        findings
            .push(Finding::well("rights", format!("rights: {} has what it needs", health.role)));
    }
    findings
}

/// Who else may create where names are looked up. In our schema, another role's function could be
/// taken for one of ours; `public` is not looked into by Consign, but by nearly every other
/// application of the database.
fn creators(address: &PostgresAddress, health: &PostgresHealth) -> Vec<Finding> {
    let told = health.creators.iter().map(|creator| {
        let schema = &creator.schema;
        let who = creator.role.as_deref().unwrap_or("every role");
        let from = creator.role.as_deref().map_or_else(|| "public".into(), quoted_name);
        let what = format!("rights: {who} may create in the schema {schema}");
        let cure = psql(&format!("revoke create on schema {schema} from {from}"));
        if schema == address.schema() {
            let what = format!("{what}, and so put its own code in the place of Consign's");
            return Finding::wrong("schemas", what).run("as its owner", cure);
        }
        let what = format!("{what}: Consign does not look there, other applications do");
        Finding::note("schemas", what).run("as its owner", cure)
    });
    let mut findings: Vec<Finding> = told.collect();
    if let Some(owner) = &health.foreign_owner {
        let (schema, role) = (address.schema(), quoted_name(&health.role));
        let what = format!(
            "rights: the schema {schema} belongs to {owner}, which may put its own code in the place of Consign's"
        );
        let cure = psql(&format!("alter schema {schema} owner to {role}"));
        findings.push(Finding::wrong("schemas", what).run("as a superuser", cure));
    }
    if findings.is_empty() {
        let what = format!("rights: no other role may create in {} or public", address.schema());
        findings.push(Finding::well("schemas", what));
    }
    findings
}

/// What must be on, and what it costs where it is off.
const SETTINGS: &[(&str, &str)] = &[
    ("fsync", "jobs that were acknowledged are lost, or worse, when the machine loses power"),
    (
        "full_page_writes",
        "a page that was written by half stays broken when the machine loses power",
    ),
    ("synchronous_commit", "jobs that were acknowledged in the last second are lost in a crash"),
    ("autovacuum", "tables grow, and claims get slower and slower"),
    ("track_counts", "autovacuum does not know which tables need it"),
];

fn settings(health: &PostgresHealth) -> Vec<Finding> {
    let off = |name: &str| health.settings.iter().any(|(n, value)| n == name && value == "off");
    let wrong: Vec<Finding> = SETTINGS
        .iter()
        .filter(|(name, _)| off(name))
        .map(|(name, why)| {
            let cure = psql(&format!("alter system set {name} = on"));
            Finding::wrong("settings", format!("{name} is off: {why}"))
                .run("then have it read its settings again", cure)
        })
        .collect();
    if wrong.is_empty() {
        return vec![Finding::well("settings", "fsync, synchronous_commit and autovacuum are on")];
    }
    wrong
}

fn transactions(health: &PostgresHealth) -> Vec<Finding> {
    let long = health.long_transactions.iter().map(|open| {
        let minutes = open.seconds / 60;
        let what = format!(
            "a transaction of {} has been open for {minutes} minutes: until it ends, nothing is cleaned up",
            open.role
        );
        let cure = psql(&format!("select pg_terminate_backend({})", open.pid));
        Finding::note("transactions", what).run("if nobody needs it", cure)
    });
    let mut findings: Vec<Finding> = long.collect();
    if findings.is_empty() && health.sees_all {
        findings.push(Finding::well("transactions", "no transaction has been open for long"));
    }
    if !health.sees_all {
        let cure = psql(&format!("grant pg_read_all_stats to {}", quoted_name(&health.role)));
        let what = "transactions of other roles: not looked at, they cannot be seen";
        findings.push(Finding::unknown("transactions", what).run("to see them", cure));
    }
    findings
}

fn prepared(health: &PostgresHealth) -> Vec<Finding> {
    let of = |gid: &String| {
        let cure = psql(&format!("rollback prepared '{}'", gid.replace('\'', "''")));
        let what = format!("the prepared transaction {gid} was never ended: nothing is cleaned up");
        Finding::wrong("transactions", what).run("if nobody will commit it", cure)
    };
    health.prepared.iter().map(of).collect()
}

/// Leases are the database's time, so this costs no job; but logs are hard to compare.
const CLOCKS_APART_MS: i64 = 2_000;

fn clock(health: &PostgresHealth) -> Finding {
    let what = format!("clock: the database's is {} ms ahead of this machine's", health.ahead_ms);
    match health.ahead_ms.abs() < CLOCKS_APART_MS {
        true => Finding::well("clock", what),
        false => Finding::note("clock", format!("{what}; the database's decides"))
            .run("see that both follow a time server", "timedatectl status"),
    }
}

fn connections(health: &PostgresHealth) -> Finding {
    let (used, max) = health.connections;
    let what = format!("connections: {used} of {max} are in use");
    match used * 10 < max * 9 {
        true => Finding::well("connections", what),
        false => Finding::note("connections", what)
            .say("fewer per node with ?connections= in the address, PgBouncer, or a larger max_connections"),
    }
}

fn audit(address: &PostgresAddress, args: &DoctorArgs) -> Finding {
    if args.quick {
        return Finding::unknown("audit", "audit log: not read through (--quick)");
    }
    match opening::block_on(verify_postgres_audit(address, &mut |_| {})) {
        Ok(AuditChain::Whole { entries, .. }) => {
            Finding::well("audit", format!("audit log: {entries} entries, each as it was written"))
        }
        Ok(AuditChain::Broken { number }) => {
            let what = format!("audit log: entry {number} is missing or not as it was written");
            Finding::wrong("audit", what).run("all before it are", "consign audit verify")
        }
        Err(error) => Finding::unknown("audit", format!("audit log: {error:#}")),
    }
}

/// The command that has a superuser say this.
fn psql(statement: &str) -> String {
    format!("psql --command={} DATABASE", quoted(statement))
}

fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
