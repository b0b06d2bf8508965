//! Honest clients beside hostile ones: whether honest requests become slower, and whether the
//! server's memory stays flat (`cargo xtask soak --attack`).
//!
//! The server is the real binary over a new store. The honest load is measured alone first, as the
//! baseline, and then beside every attack at once. At the end each acknowledged job must have
//! ended.

mod honest;
mod hostile;

use super::processes::ServerProcess;
use crate::{Bench, Error, RunFolder, Settings, figures::Times, machine::memory_mib_of};
use honest::{HonestLoad, RequestTimes};
use hostile::Attackers;
use std::{path::Path, pin::pin, time::Duration};
use tokio::time::interval;

/// The largest ratio of the honest p99 under attack to its baseline.
pub const ATTACK_RATIO_MAX: f64 = 3.0;
/// How much more memory the server may have in the last quarter than in the second: a factor, and
/// MiB.
const MEMORY_GROWTH_MAX: f64 = 1.15;
const MEMORY_SLACK_MIB: f64 = 16.0;
/// The most memory at all: the budgets of bodies, the connections, and the allocator's share.
pub const ATTACK_MEMORY_MIB_MAX: f64 = 512.0;
const MEMORY_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// The baseline takes a tenth of the attack's time, and at most this.
const BASELINE_MAX: Duration = Duration::from_secs(180);
/// The attack is reported in so many parts.
const PARTS: u32 = 12;

/// Low enough that the attackers reach the limit of connections.
const SETTINGS: &str = "[limits]\nconnections = 2000\nwaiting = 1000\n";

/// The results of a soak under attack.
#[derive(Clone, Debug)]
pub struct AttackSoak {
    /// How long honest requests took without attackers.
    pub baseline: Times,
    /// The same beside them.
    pub attacked: Times,
    /// How many of both had to be sent again, because a connection ended.
    pub repeated: [usize; 2],
    /// The most memory that the server had in each part of the attack, in MiB.
    pub memory_mib: Vec<f64>,
    /// Jobs that the server acknowledged to honest clients.
    pub acknowledged: usize,
    /// Acknowledged jobs that were not `Completed` at the end.
    pub lost: usize,
    /// Each kind of attack with the number of times that it was carried out.
    pub attacks: Vec<(&'static str, usize)>,
}

impl AttackSoak {
    /// The p99 of honest requests under attack, over that of the baseline.
    pub fn ratio(&self) -> f64 {
        self.attacked.p99 / self.baseline.p99
    }

    /// Whether the server's memory grew little and stayed under its maximum.
    pub fn is_memory_flat(&self) -> bool {
        let quarter = self.memory_mib.len() / 4;
        let highest = |parts: &[f64]| parts.iter().copied().fold(0.0, f64::max);
        let early = highest(&self.memory_mib[quarter..2 * quarter]);
        let late = highest(&self.memory_mib[self.memory_mib.len() - quarter..]);
        late <= early * MEMORY_GROWTH_MAX + MEMORY_SLACK_MIB
            && highest(&self.memory_mib) <= ATTACK_MEMORY_MIB_MAX
    }

    /// Whether all targets were met.
    pub fn is_met(&self) -> bool {
        let every_attack_happened = self.attacks.iter().all(|(_, count)| *count > 0);
        self.ratio() <= ATTACK_RATIO_MAX
            && self.is_memory_flat()
            && self.lost == 0
            && every_attack_happened
    }
}

/// Attacks the server of `program` for `length` and reports progress to `progress`. Blocking.
pub fn attack_soak(
    run_folder: &RunFolder,
    program: &Path,
    length: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<AttackSoak, Error> {
    let bench = Bench::new(Settings::default(), run_folder, progress)?;
    let server = ServerProcess::start(&bench, program, SETTINGS)?;
    let ((load, attackers), _) = bench.timed(async {
        let load = HonestLoad::prepare(&server.target, bench.clock.clone()).await?;
        Ok((load, Attackers::prepare(&server.target).await?))
    })?;
    let Bench { runtime, progress, .. } = bench;
    progress("honest clients alone");
    let alone = (length / 10).min(BASELINE_MAX);
    let (baseline, memory) = runtime.block_on(measure(&load, server.process, alone))?;
    report_part(&baseline, memory, progress);
    progress("honest clients beside every attack");
    let attack = attackers.start()?;
    let (mut all, mut memory_mib) = (RequestTimes::default(), Vec::new());
    for _ in 0..PARTS {
        let (part, memory) = runtime.block_on(measure(&load, server.process, length / PARTS))?;
        report_part(&part, memory, progress);
        memory_mib.push(memory);
        all.add(part);
    }
    let attacks = attack.end();
    progress("counting what was acknowledged");
    let (acknowledged, lost) = runtime.block_on(load.count_lost())?;
    server.stop();
    let repeated = [baseline.repeated, all.repeated];
    let (baseline, attacked) = (Times::of(&baseline.times), Times::of(&all.times));
    Ok(AttackSoak { baseline, attacked, repeated, memory_mib, acknowledged, lost, attacks })
}

/// Loads the server for `length`; returns the honest measurements and the server's highest memory.
async fn measure(
    load: &HonestLoad,
    process: u32,
    length: Duration,
) -> Result<(RequestTimes, f64), Error> {
    let mut memory_mib = memory_mib_of(process)?;
    let mut samples = interval(MEMORY_SAMPLE_INTERVAL);
    let mut running = pin!(load.run(length));
    loop {
        tokio::select! {
            times = &mut running => return Ok((times?, memory_mib)),
            _ = samples.tick() => memory_mib = memory_mib.max(memory_mib_of(process)?),
        }
    }
}

fn report_part(part: &RequestTimes, memory_mib: f64, progress: &mut dyn FnMut(&str)) {
    let (Times { count, p50, p99 }, repeated) = (Times::of(&part.times), part.repeated);
    progress(&format!(
        "  {count:>8} requests, {repeated} repeated, p50 {p50:.2} ms, p99 {p99:.2} ms, {memory_mib:.0} MiB"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soak(p99: f64, memory_mib: Vec<f64>, lost: usize) -> AttackSoak {
        let of = |p99| Times { count: 1, p50: 1.0, p99 };
        let attacks = vec![("idle connections", 1)];
        let (baseline, attacked, repeated) = (of(2.0), of(p99), [0; 2]);
        AttackSoak { baseline, attacked, repeated, memory_mib, acknowledged: 9, lost, attacks }
    }

    #[test]
    fn slow_answers_growing_memory_lost_jobs_and_absent_attacks_are_each_a_miss() {
        let flat = vec![50.0, 80.0, 81.0, 80.0];
        assert!(soak(6.0, flat.clone(), 0).is_met());
        assert!(!soak(6.1, flat.clone(), 0).is_met(), "slow");
        assert!(!soak(6.0, vec![50.0, 80.0, 100.0, 120.0], 0).is_met(), "growing");
        assert!(!soak(6.0, vec![50.0, 900.0, 80.0, 80.0], 0).is_met(), "a peak");
        assert!(!soak(6.0, flat.clone(), 1).is_met(), "lost");
        let idle = AttackSoak { attacks: vec![("idle connections", 0)], ..soak(6.0, flat, 0) };
        assert!(!idle.is_met(), "no attack");
    }
}
