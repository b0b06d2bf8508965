//! Who else was at work: numbers from a machine that others used as well are lower than they could be.

use std::fs;

/// What the processors have done until now, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    all: u64,
    idle: u64,
    ours: u64,
}

impl Ticks {
    /// As Linux counts them; nothing elsewhere.
    pub(crate) fn now() -> Option<Self> {
        let read = |path| fs::read_to_string(path).ok();
        Ticks::parse(&read("/proc/stat")?, &read("/proc/self/stat")?)
    }

    /// How much of everything since `before` others had, the kernel's own threads included.
    pub(crate) fn others_since(self, before: Ticks) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        let idle = self.idle.saturating_sub(before.idle);
        let ours = self.ours.saturating_sub(before.ours);
        all.saturating_sub(idle + ours) as f64 / all as f64
    }

    fn parse(machine: &str, process: &str) -> Option<Self> {
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in these.
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        let spent: Vec<u64> =
            line.split_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
        let [_, _, _, idle, waiting, ..] = spent[..] else { return None };
        // The name, in brackets, may hold anything. After it: state, ten numbers, then user and system, and
        // the same of those processes of ours that have ended.
        let (_, after) = process.rsplit_once(')')?;
        let used = after.split_whitespace().skip(11).take(4).map_while(|n| n.parse::<u64>().ok());
        Some(Ticks { all: spent.iter().sum(), idle: idle + waiting, ours: used.sum() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_idle_nor_ours_is_of_others() {
        let machine = "cpu  10 0 20 60 5 0 3 2 99 99\ncpu0 1 1 1 1\n";
        let process = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 12 5 2 1 20 0\n";
        let then = Ticks::parse(machine, process).unwrap();
        assert_eq!(then, Ticks { all: 100, idle: 65, ours: 20 });
        assert_eq!(then.others_since(Ticks::default()), 0.15);
        assert_eq!(Ticks::parse("", process), None);
    }
}
