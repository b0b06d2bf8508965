//! The machine on which a run measures.

use crate::{Error, RunFolder, database::PostgresInfo, run_folder::Storage};
use platform::SystemClock;
use std::{fs, path::Path, thread};
use store::Clock;

pub(crate) struct Machine {
    /// As `2026-11-15T08:00:00.123Z`.
    pub(crate) date: String,
    pub(crate) cores: usize,
    /// The share of the processors that other processes used, from 0 to 1, where the system reports
    /// it.
    pub(crate) others_share: Option<f64>,
    /// The processor counters when the run started.
    pub(crate) before: Option<Ticks>,
    /// The file system of the stores, where the system reports it.
    pub(crate) file_system: Option<String>,
    pub(crate) backend: Backend,
}

pub(crate) enum Backend {
    Sqlite(&'static str),
    Postgres(PostgresInfo),
}

impl Machine {
    pub(crate) fn of(run_folder: &RunFolder, clock: &SystemClock) -> Result<Self, Error> {
        let (file_system, backend) = match &run_folder.storage {
            Storage::Files(files) => {
                (file_system_of(files.shown()), Backend::Sqlite(rusqlite::version()))
            }
            // The database's files may be on another machine.
            Storage::Database(database) => (None, Backend::Postgres(PostgresInfo::of(database)?)),
        };
        Ok(Machine {
            date: wire::format_time(clock.read().wall),
            cores: thread::available_parallelism().map_or(1, usize::from),
            others_share: None, // known at the end
            before: Ticks::now(),
            file_system,
            backend,
        })
    }

    /// Records what other processes used; not on PostgreSQL, whose work for us would count as
    /// theirs.
    pub(crate) fn record_others(&mut self) {
        if let Backend::Sqlite(_) = self.backend {
            let (now, before) = (Ticks::now(), self.before);
            self.others_share = now.zip(before).map(|(now, before)| now.others_since(before));
        }
    }

    /// Whether all files were in memory, so that no number says anything about durability.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.file_system.as_deref().is_some_and(|kind| ["tmpfs", "ramfs"].contains(&kind))
    }
}

fn file_system_of(path: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new(""));
    let folder = if folder == Path::new("") { Path::new(".") } else { folder };
    file_system(&mounts, &folder.canonicalize().ok()?)
}

/// The type of the closest mount above `folder`; the last one where several share a mount point.
fn file_system(mounts: &str, folder: &Path) -> Option<String> {
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let above = mounted.filter(|(point, _)| folder.starts_with(point));
    above.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind.to_owned())
}

/// The highest memory of this process so far, as Linux reports it.
pub(crate) fn peak_memory_mib() -> Result<f64, Error> {
    memory("/proc/self/status", "VmHWM:")
}

pub(crate) fn memory_mib_of(process: u32) -> Result<f64, Error> {
    memory(&format!("/proc/{process}/status"), "VmRSS:")
}

fn memory(path: &str, name: &str) -> Result<f64, Error> {
    let status = fs::read_to_string(path).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let unknown = || format!("{path} does not say how much memory was used; this needs Linux");
    Ok(kib.ok_or_else(|| Error::Unmeasurable(unknown()))? / 1024.0)
}

/// The processor counters, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    all: u64,
    idle: u64,
    ours: u64,
}

impl Ticks {
    /// As Linux counts them; none on other systems.
    pub(crate) fn now() -> Option<Self> {
        let read = |path| fs::read_to_string(path).ok();
        Ticks::parse(&read("/proc/stat")?, &read("/proc/self/stat")?)
    }

    /// The share of all time since `before` that others used, the kernel's own threads included.
    pub(crate) fn others_since(self, before: Ticks) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        let idle = self.idle.saturating_sub(before.idle);
        let ours = self.ours.saturating_sub(before.ours);
        all.saturating_sub(idle + ours) as f64 / all as f64
    }

    fn parse(machine: &str, process: &str) -> Option<Self> {
        // user, nice, system, idle, iowait, irq, softirq, steal; later columns are included in
        // these.
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        let spent: Vec<u64> =
            line.split_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
        let [_, _, _, idle, waiting, ..] = spent[..] else { return None };
        // The name, in brackets, may hold anything. After it: state, ten numbers, then user and
        // system time, and the same of our child processes that have ended.
        let (_, after) = process.rsplit_once(')')?;
        let used = after.split_whitespace().skip(11).take(4).map_while(|n| n.parse::<u64>().ok());
        Some(Ticks { all: spent.iter().sum(), idle: idle + waiting, ours: used.sum() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_the_one_mounted_closest() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/x xfs rw 0 0\n";
        let kind = |folder: &str| file_system(mounts, Path::new(folder)).unwrap();
        assert_eq!(kind("/home"), "ext4");
        assert_eq!(kind("/tmp/xy"), "tmpfs");
        assert_eq!(kind("/tmp/x/y"), "xfs");
        assert_eq!(file_system("", Path::new("/")), None);
    }

    #[test]
    fn busy_cpu_time_that_is_not_ours_counts_as_others() {
        let machine = "cpu  10 0 20 60 5 0 3 2 99 99\ncpu0 1 1 1 1\n";
        let process = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 12 5 2 1 20 0\n";
        let then = Ticks::parse(machine, process).unwrap();
        assert_eq!(then, Ticks { all: 100, idle: 65, ours: 20 });
        assert_eq!(then.others_since(Ticks::default()), 0.15);
        assert_eq!(Ticks::parse("", process), None);
    }
}
