//! The report of a run.

use crate::{
    Backend, Machine, ROUNDS, Settings,
    bench_node::PAYLOAD_BYTES,
    database::PostgresInfo,
    http,
    measure::Measure,
    raw::{
        RAW_BATCH,
        postgres::{RAW_CONNECTIONS, SETTINGS},
        sqlite::RAW_PRAGMAS,
    },
    table::thousands,
};

/// Everything that was measured, and on which machine.
pub struct BenchReport {
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    pub(crate) beside: Beside,
    pub(crate) measures: Vec<Measure>,
}

/// What our numbers are compared with.
#[derive(Clone, Copy)]
pub(crate) enum Beside {
    /// The limit of the disk: hand-written SQL.
    Disk,
    /// The limit of HTTP without anything behind it: an echo of the same body.
    Echo,
}

impl Beside {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Beside::Disk => "raw",
            Beside::Echo => "echo",
        }
    }

    fn notes(self, backend: &Backend) -> Vec<String> {
        if let Beside::Echo = self {
            return http::notes();
        }
        let batch = thousands(RAW_BATCH as f64);
        let (mut notes, short) = match backend {
            Backend::Sqlite(_) => {
                let raw = format!("raw: hand-written SQL, same SQLite, {batch} jobs in a commit,");
                (vec![raw, format!("  {RAW_PRAGMAS}")], "our own drain of the short queue")
            }
            Backend::Postgres(server) => {
                (postgres_notes(server, &batch), "our own number of the smaller one")
            }
        };
        notes.push(format!("payloads have {PAYLOAD_BYTES} bytes; * is compared with {short}"));
        notes
    }
}

fn postgres_notes(server: &PostgresInfo, batch: &str) -> Vec<String> {
    let mut notes = vec![
        format!(
            "raw: hand-written SQL, same server, {RAW_CONNECTIONS} connections, {batch} jobs in a commit,"
        ),
        format!("  {SETTINGS}"),
        "the server shares the processors with both, if it is on this machine".into(),
    ];
    let not_durable = server.not_durable();
    if !not_durable.is_empty() {
        let not_durable = not_durable.join(", ");
        notes.push(format!("NOT DURABLE: {not_durable}, so these numbers promise nothing"));
    }
    notes
}

impl BenchReport {
    /// When, where, how much: the first line of the table.
    pub(crate) fn headline(&self) -> String {
        let Machine { date, cores, file_system, backend, .. } = &self.machine;
        let (day, time) = (&date[..10], &date[11..16]);
        let jobs = thousands(self.settings.jobs as f64);
        let disk = file_system.as_deref().unwrap_or("unknown file system");
        let backend = match backend {
            Backend::Sqlite(version) => format!("{disk} · SQLite {version}"),
            Backend::Postgres(server) => server.headline(),
        };
        format!("{day} {time} UTC · {cores} cores · {backend} · {jobs} jobs")
    }

    /// Notes that a reader needs to interpret the numbers.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!(
            "medians of {ROUNDS} rounds; spread: lowest to highest round, of the ratio or of ours"
        )];
        notes.extend(self.beside.notes(&self.machine.backend));
        if let Some(share) = self.machine.others_share.filter(|share| *share > OTHERS_SHARE_MAX) {
            let percent = share * 100.0;
            notes.push(format!(
                "others used {percent:.0} % of the processors meanwhile: expect more of a quiet machine"
            ));
        }
        if self.machine.is_in_memory() {
            notes.push("this is memory, not a disk: name a file on one with --store".into());
        }
        if cfg!(debug_assertions) {
            notes
                .push("this is a debug build: for numbers that count, build with --release".into());
        }
        notes
    }
}

/// The share of the system itself that needs no note.
const OTHERS_SHARE_MAX: f64 = 0.1;

#[cfg(test)]
pub(crate) fn example() -> BenchReport {
    use crate::measure::{Goal, Group, Unit, example as measure};
    let machine = Machine {
        date: "2026-11-15T19:00:00.000Z".into(),
        cores: 2,
        others_share: Some(0.15),
        before: None,
        file_system: Some("ext4".into()),
        backend: Backend::Sqlite("3.51.3"),
    };
    let pair = |key| measure(key, &[30_000.0, 31_000.0], Some(&[60_000.0, 61_000.0]));
    let keys = ["whole_lives", "submit_one_by_one", "drain", "idle_start_p50", "drain_deep"];
    let mut measures: Vec<Measure> = keys.map(pair).into();
    let alone = measure("peak_memory", &[41.3], None);
    let goal = Some(Goal::AtMost(40.0));
    measures.push(Measure { unit: Unit::Mebibytes, group: Group::Size, goal, ..alone });
    let settings = Settings { jobs: 100_000, deep: 1_000_000, ended: 1_000_000 };
    BenchReport { machine, settings, beside: Beside::Disk, measures }
}
