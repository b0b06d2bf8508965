//! What PostgreSQL reports about itself, and the remedies.

use super::{DoctorReport, quoted};
use crate::{args::DoctorArgs, open_store};
use engine::counted;
use platform::SystemClock;
use store::{
    AuditChain, PostgresAddress, PostgresHealth, examine_postgres, postgres_schema,
    verify_postgres_audit,
};

pub(super) fn examine(report: &mut DoctorReport, address: &PostgresAddress, args: &DoctorArgs) {
    let health = match open_store::block_on(examine_postgres(address, &SystemClock::new())) {
        Ok(health) => health,
        Err(error) => {
            report
                .wrong("store", format!("store: {error:#}"))
                .run("whether it runs", "pg_isready --host=HOST --port=PORT")
                .say("docs/operating.md, \"When the database is down\", says what nodes do meanwhile");
            return;
        }
    };
    report_connection(report, address, &health);
    schema(report, address);
    rights(report, address, &health);
    creators(report, address, &health);
    settings(report, &health);
    transactions(report, &health);
    machine(report, &health);
    audit(report, address, args);
}

/// Older versions lack what the statements use, and get no security fixes any more.
const VERSION_MIN: i32 = 130_000;

fn report_connection(
    report: &mut DoctorReport,
    address: &PostgresAddress,
    health: &PostgresHealth,
) {
    let (role, ms) = (&health.role, health.round_trip.as_millis());
    let what = format!("store {address}: reached as {role}, {ms} ms for a round trip");
    if health.superuser {
        let what = format!("{what}; a superuser may do more than is needed");
        report.note("store", what).say("give it a role of its own: docs/operating.md has the SQL");
    } else {
        report.well("store", what);
    }
    let version = format!("PostgreSQL {}", health.version);
    if health.version_number >= VERSION_MIN {
        report.well("version", version);
    } else {
        let what = format!("{version}: 13 or later is needed");
        report.wrong("version", what).say("upgrade the database");
    }
    // Weaknesses of the connection that an attacker on the network could use.
    for what in address.weaknesses() {
        report.note("connection", format!("address of the store: {what}"));
    }
}

fn schema(report: &mut DoctorReport, address: &PostgresAddress) {
    let name = address.schema();
    match open_store::block_on(postgres_schema(address)) {
        Ok(schema) if schema.missing.is_empty() => {
            report.well("schema", format!("schema {name}: up to date"));
        }
        Ok(schema) => {
            let (found, known) = (schema.version, schema.supported_version);
            let what = format!("schema {name}: is at {found}, this version writes {known}");
            let say = "the next start brings it up to date, and so does";
            report.note("schema", what).run(say, "consign migrate up");
        }
        Err(error) => {
            report.wrong("schema", format!("schema: {error:#}"));
        }
    }
}

fn rights(report: &mut DoctorReport, address: &PostgresAddress, health: &PostgresHealth) {
    let (schema, role, quoted) = (address.schema(), &health.role, quoted_name(&health.role));
    let findings_before = report.0.len();
    if !health.may_migrate && health.schema_is_there {
        let what = format!("rights: {role} may not make tables in the schema {schema}");
        let what = format!("{what}; fine where another role runs `consign migrate up`");
        let remedy = format!("alter schema {schema} owner to {quoted}");
        report.note("rights", what).run("else, as its owner", psql(&remedy));
    }
    if !health.may_migrate && !health.schema_is_there {
        let what = format!("rights: there is no schema {schema}, and {role} may not make one");
        let remedy = format!("create schema {schema} authorization {quoted}");
        report.wrong("rights", what).run("as the owner of the database", psql(&remedy));
    }
    for (closed, verb, rights, kind) in [
        (&health.closed_tables, "read and write", "select, insert, update, delete", "tables"),
        (&health.closed_functions, "call", "execute", "functions"),
    ] {
        if !closed.is_empty() {
            let what = format!("rights: {role} may not {verb} {}", closed.join(", "));
            let remedy = format!("grant {rights} on all {kind} in schema {schema} to {quoted}");
            report.wrong("rights", what).run("as their owner", psql(&remedy));
        }
    }
    report.well_since(findings_before, "rights", format!("rights: {role} has what it needs"));
}

/// Other roles that may create objects in the schemas where names are resolved. In the schema of
/// Consign, another role's function could be taken for one of Consign's. Consign does not resolve
/// names in `public`, but nearly every other application of the database does.
fn creators(report: &mut DoctorReport, address: &PostgresAddress, health: &PostgresHealth) {
    let (own_schema, findings_before) = (address.schema(), report.0.len());
    for creator in &health.creators {
        let schema = &creator.schema;
        let who = creator.role.as_deref().unwrap_or("every role");
        let from = creator.role.as_deref().map_or_else(|| "public".into(), quoted_name);
        let what = format!("rights: {who} may create in the schema {schema}");
        let finding = if schema == own_schema {
            let consequence = "and so put its own code in the place of Consign's";
            report.wrong("schemas", format!("{what}, {consequence}"))
        } else {
            let consequence = "Consign does not look there, other applications do";
            report.note("schemas", format!("{what}: {consequence}"))
        };
        let remedy = format!("revoke create on schema {schema} from {from}");
        finding.run("as its owner", psql(&remedy));
    }
    if let Some(owner) = &health.foreign_owner {
        let what = format!("rights: the schema {own_schema} belongs to {owner}");
        let what = format!("{what}, which may put its own code in the place of Consign's");
        let remedy = format!("alter schema {own_schema} owner to {}", quoted_name(&health.role));
        report.wrong("schemas", what).run("as a superuser", psql(&remedy));
    }
    let well = format!("rights: no other role may create in {own_schema} or public");
    report.well_since(findings_before, "schemas", well);
}

/// Settings that must be on, and what it costs where one is off.
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

fn settings(report: &mut DoctorReport, health: &PostgresHealth) {
    let findings_before = report.0.len();
    let is_off = |name: &str| health.settings.iter().any(|(n, value)| n == name && value == "off");
    for (name, consequence) in SETTINGS.iter().filter(|(name, _)| is_off(name)) {
        let remedy = psql(&format!("alter system set {name} = on"));
        report
            .wrong("settings", format!("{name} is off: {consequence}"))
            .run("then have it read its settings again", remedy);
    }
    let well = "fsync, synchronous_commit and autovacuum are on";
    report.well_since(findings_before, "settings", well.into());
}

fn transactions(report: &mut DoctorReport, health: &PostgresHealth) {
    for open in &health.long_transactions {
        let (role, minutes) = (&open.role, open.seconds / 60);
        let what = format!(
            "a transaction of {role} has been open for {minutes} minutes: until it ends, nothing is cleaned up"
        );
        let remedy = psql(&format!("select pg_terminate_backend({})", open.pid));
        report.note("transactions", what).run("if it is not needed", remedy);
    }
    if health.long_transactions.is_empty() && health.sees_all {
        report.well("transactions", "no transaction has been open for long");
    }
    if !health.sees_all {
        let remedy = psql(&format!("grant pg_read_all_stats to {}", quoted_name(&health.role)));
        let what = "transactions of other roles: not looked at, they cannot be seen";
        report.unknown("transactions", what).run("to see them", remedy);
    }
    for gid in &health.prepared {
        let remedy = psql(&format!("rollback prepared '{}'", gid.replace('\'', "''")));
        let what = format!("the prepared transaction {gid} was never ended: nothing is cleaned up");
        report.wrong("transactions", what).run("if no client will commit it", remedy);
    }
}

/// Leases use the database's time, so a difference costs no job; but logs are hard to compare.
const CLOCKS_APART_MS: i64 = 2_000;

fn machine(report: &mut DoctorReport, health: &PostgresHealth) {
    let what = format!("clock: the database's is {} ms ahead of this machine's", health.ahead_ms);
    if health.ahead_ms.abs() < CLOCKS_APART_MS {
        report.well("clock", what);
    } else {
        let what = format!("{what}; the database's decides");
        let say = "see that both follow a time server";
        report.note("clock", what).run(say, "timedatectl status");
    }
    let (used, max) = health.connections;
    let what = format!("connections: {used} of {max} are in use");
    if used * 10 < max * 9 {
        report.well("connections", what);
    } else {
        let say = "fewer per node with ?connections= in the address, PgBouncer, or a larger max_connections";
        report.note("connections", what).say(say);
    }
}

fn audit(report: &mut DoctorReport, address: &PostgresAddress, args: &DoctorArgs) {
    if args.quick {
        report.unknown("audit", "audit log: not read through (--quick)");
        return;
    }
    match open_store::block_on(verify_postgres_audit(address, &mut |_| {})) {
        Ok(AuditChain::Whole { entries, .. }) => {
            let entries = counted(entries, "entry", "entries");
            report.well("audit", format!("audit log: {entries}, each as it was written"));
        }
        Ok(AuditChain::Broken { number }) => {
            let what = format!("audit log: entry {number} is missing or not as it was written");
            report.wrong("audit", what).run("all before it are", "consign audit verify");
        }
        Err(error) => {
            report.unknown("audit", format!("audit log: {error:#}"));
        }
    }
}

/// The command by which a superuser runs the statement.
fn psql(statement: &str) -> String {
    format!("psql --command={} DATABASE", quoted(statement))
}

fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
