//! Runs one seed, and shrinks a failing one.

use crate::{audit::Violation, backend::StoreKind, rng::Rng, simulation::Simulation};

/// A seed that broke an invariant.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) store_kind: StoreKind,
    pub(crate) seed: u64,
    /// The steps that are needed to break it.
    pub(crate) steps: Vec<usize>,
    pub(crate) violation: Violation,
}

/// Runs `steps` of `seed`, then lets every job come to its end.
pub(crate) fn run_seed(
    store_kind: StoreKind,
    seed: u64,
    steps: &[usize],
    trace: &mut Option<Vec<String>>,
) -> Result<(), Failure> {
    let mut simulation = Simulation::new(store_kind, seed, trace.is_some());
    let outcome = run_steps(&mut simulation, store_kind, seed, steps);
    let shortened = |line: &String| simulation.auditor.shortened(line);
    if let Some(trace) = trace {
        trace.extend(simulation.trace.iter().flatten().map(shortened));
        trace.push("-- what became of the jobs".into());
        trace.extend(simulation.auditor.summary().iter().map(shortened));
    }
    outcome.map_err(|mut failure| {
        failure.violation.what = shortened(&failure.violation.what);
        failure
    })
}

fn run_steps(
    simulation: &mut Simulation,
    store_kind: StoreKind,
    seed: u64,
    steps: &[usize],
) -> Result<(), Failure> {
    for (position, index) in steps.iter().enumerate() {
        let mut rng = Rng::of_step(seed, *index as u64);
        let seconds = simulation.clock.elapsed_ms() as f64 / 1_000.0;
        simulation.log(|| format!("-- step {index}, after {seconds:.1} s"));
        if let Err(violation) = simulation.step(*index, &mut rng) {
            return Err(Failure {
                store_kind,
                seed,
                steps: steps[..=position].to_vec(),
                violation,
            });
        }
    }
    let last = steps.last().map_or(0, |last| last + 1);
    simulation.run_to_end(last).map_err(|violation| Failure {
        store_kind,
        seed,
        steps: steps.to_vec(),
        violation,
    })
}

/// Leaves out steps as long as the same invariant still breaks: halves, quarters, single ones.
pub(crate) fn shrink(mut failure: Failure) -> Failure {
    let mut size = failure.steps.len() / 2;
    while size > 0 {
        let mut from = 0;
        while from < failure.steps.len() {
            let mut fewer = failure.steps.clone();
            fewer.drain(from..(from + size).min(fewer.len()));
            match run_seed(failure.store_kind, failure.seed, &fewer, &mut None) {
                Err(smaller) if smaller.violation.invariant == failure.violation.invariant => {
                    failure = smaller;
                }
                Ok(()) | Err(_) => from += size,
            }
        }
        size /= 2;
    }
    failure
}

impl Failure {
    /// What broke, and the command that shows it again.
    pub(crate) fn report(&self) -> String {
        let steps: Vec<_> = self.steps.iter().map(ToString::to_string).collect();
        let store = self.store_kind.name();
        format!(
            "{} is broken: {} (docs/invariants.md)\nseed {}, {} steps; to see it again:\n  \
             CONSIGN_SIM_STORE={store} CONSIGN_SIM_SEED={} CONSIGN_SIM_STEPS={} \
             cargo test -p consign-platform --test sim replay -- --nocapture\n\
             once it is mended, tests/sim/failed_once.txt keeps it: {store} {}",
            self.violation.invariant,
            self.violation.what,
            self.seed,
            self.steps.len(),
            self.seed,
            steps.join(","),
            self.seed,
        )
    }
}
