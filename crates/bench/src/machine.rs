//! On what it was measured.

use crate::{Error, Place, database::Server, neighbours::Ticks, place::Ground};
use platform::SystemClock;
use std::{fs, path::Path, thread};
use store::Clock;

pub(crate) struct Machine {
    /// As `2026-11-15T08:00:00.123Z`.
    pub(crate) date: String,
    pub(crate) cores: usize,
    /// How much of its processors others used while we measured, from 0 to 1, where the system says.
    pub(crate) others_share: Option<f64>,
    /// The kind of file system that the stores are on, where the system says.
    pub(crate) file_system: Option<String>,
    pub(crate) backend: Backend,
}

pub(crate) enum Backend {
    Sqlite(&'static str),
    Postgres(Server),
}

impl Machine {
    pub(crate) fn of(place: &Place, clock: &SystemClock) -> Result<Self, Error> {
        let (file_system, backend) = match &place.ground {
            Ground::Files(files) => {
                (file_system_of(files.shown()), Backend::Sqlite(rusqlite::version()))
            }
            // Its files are its own business, and may be on another machine.
            Ground::Database(database) => (None, Backend::Postgres(Server::of(database)?)),
        };
        Ok(Machine {
            date: wire::format_time(clock.read().wall),
            cores: thread::available_parallelism().map_or(1, usize::from),
            others_share: None, // known at the end
            file_system,
            backend,
        })
    }

    /// Notes how much others had since `before`. A PostgreSQL that works for us is among the others, so that
    /// nothing can be said there.
    pub(crate) fn note_others(&mut self, before: Option<Ticks>) {
        self.others_share = match self.backend {
            Backend::Sqlite(_) => {
                Ticks::now().zip(before).map(|(now, then)| now.others_since(then))
            }
            Backend::Postgres(_) => None,
        };
    }

    /// Whether nothing was on a disk, so that no number says anything about durability.
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

/// The kind of what is mounted closest above `folder`; the last one where several are at one place.
fn file_system(mounts: &str, folder: &Path) -> Option<String> {
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let above = mounted.filter(|(point, _)| folder.starts_with(point));
    above.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind.to_owned())
}

/// The most memory that this process ever had, as Linux knows it.
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
    let unsaid = || format!("{path} does not say how much memory was used; this needs Linux");
    Ok(kib.ok_or_else(|| Error::Unmeasurable(unsaid()))? / 1024.0)
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
}
