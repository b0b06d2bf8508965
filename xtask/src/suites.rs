//! Runs all tests: everything is built once, then suites that compute run beside suites that wait.
//!
//! `cargo test --workspace` runs one executable after the other. Half of ours mostly wait (for
//! leases, kills, timeouts, other programs), so that the cores idle; and a suite that waits and one
//! that computes do not disturb each other as long as the one that computes is the nicer one.

use crate::{complain_about, root, say};
use serde_json::Value;
use std::{
    collections::VecDeque,
    env, fs,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread::sleep,
    time::{Duration, SystemTime},
};

/// One executable, or a part of it, or another command whose verdict counts.
pub(crate) struct Suite {
    name: String,
    /// The command that repeats it, for people.
    repeat: String,
    program: PathBuf,
    args: Vec<String>,
    folder: PathBuf,
}

impl Suite {
    /// A command of cargo.
    pub(crate) fn cargo(name: &str, args: &[&str]) -> Suite {
        Suite {
            name: name.into(),
            repeat: format!("cargo {}", args.join(" ")),
            program: env!("CARGO").into(),
            args: args.iter().map(|word| (*word).into()).collect(),
            folder: root().to_owned(),
        }
    }

    /// The same executable, as several suites: one for each filter, and one for all other tests.
    fn split(self, filters: &[&str]) -> Vec<Suite> {
        let part = |words: Vec<String>, name: &str| Suite {
            name: format!("{} {name}", self.name),
            repeat: format!("{} -- {}", self.repeat, words.join(" ")),
            program: self.program.clone(),
            args: words,
            folder: self.folder.clone(),
        };
        let mut parts: Vec<Suite> =
            filters.iter().map(|filter| part(vec![(*filter).into()], filter)).collect();
        let others = filters.iter().flat_map(|filter| ["--skip".into(), (*filter).into()]);
        parts.push(part(others.collect(), "others"));
        parts
    }
}

/// Suites that mostly wait, the longest first. All others compute.
const WAIT: &[&str] = &[
    "cli it",
    "worker it",
    "platform storm",
    "platform it",
    "consign it",
    "outbound it",
    "server it",
    "test-postgres it",
];

/// The longest of those that compute: they begin first, so that neither is left for the end.
const COMPUTE_FIRST: &[&str] = &["store", "platform sim"];

/// Suites that are worth more than one lane, and the tests that go apart.
const SPLIT: &[(&str, &[&str])] = &[("cli it", &["serve::", "postgres::"])];

/// How many suites of a kind run at a time. Those that compute use all cores by themselves; two of
/// them hide each other's last test that runs alone.
const COMPUTING_MAX: usize = 2;
const WAITING_MAX: usize = 1;

/// How much those that compute give way to those that wait, whose tests look at the clock.
const COMPUTING_NICENESS: &str = "19";

/// Runs the tests of the workspace, and beside them commands of cargo, one after the other: cargo
/// itself would have them wait for each other.
pub(crate) fn run(commands: Vec<Suite>) -> bool {
    let Some(built) = build() else { return false };
    let (mut computing, mut waiting) = (VecDeque::new(), Vec::new());
    for suite in built {
        match WAIT.iter().position(|name| *name == suite.name) {
            Some(place) => waiting.push((place, suite)),
            None if COMPUTE_FIRST.contains(&suite.name.as_str()) => computing.push_front(suite),
            None => computing.push_back(suite),
        }
    }
    waiting.sort_by_key(|(place, _)| *place);
    let split = |suite: Suite| match SPLIT.iter().find(|(name, _)| *name == suite.name) {
        Some((_, filters)) => suite.split(filters),
        None => vec![suite],
    };
    let waiting = waiting.into_iter().flat_map(|(_, suite)| split(suite)).collect();
    let lanes = [
        Lanes::new(commands.into(), 1, Some(COMPUTING_NICENESS)),
        Lanes::new(computing, COMPUTING_MAX, Some(COMPUTING_NICENESS)),
        Lanes::new(waiting, WAITING_MAX, None),
    ];
    summarize(&run_all(lanes))
}

/// Builds all tests, and says which executables there are.
fn build() -> Option<Vec<Suite>> {
    const BUILD: [&str; 5] =
        ["test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"];
    say(&format!("cargo {}\n", BUILD.join(" ")));
    let built = Command::new(env!("CARGO"))
        .args(BUILD)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let messages = String::from_utf8_lossy(&built.stdout).into_owned();
    Some(
        messages
            .lines()
            .filter_map(|line| built_suite(&serde_json::from_str(line).ok()?))
            .collect(),
    )
}

/// The suite of a message of cargo's, where the message is about a test.
fn built_suite(message: &Value) -> Option<Suite> {
    let is_test = message["profile"]["test"].as_bool()?;
    let program = message["executable"].as_str().filter(|_| is_test)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let crate_name = folder.file_name()?.to_str()?;
    let target = &message["target"];
    let (kind, own) = (target["kind"][0].as_str()?, target["name"].as_str()?);
    let (name, which) = match kind {
        "test" => (format!("{crate_name} {own}"), format!("--test {own}")),
        "bin" => (crate_name.to_owned(), format!("--bin {own}")),
        _ => (crate_name.to_owned(), "--lib".to_owned()),
    };
    let package = match crate_name {
        "consign" | "xtask" => crate_name.to_owned(),
        _ => format!("consign-{crate_name}"),
    };
    let repeat = format!("cargo test --locked -p {package} {which}");
    Some(Suite { name, repeat, program: program.into(), args: Vec::new(), folder: folder.into() })
}

/// Suites of one kind: those that wait for their turn, and those that run.
struct Lanes {
    queue: VecDeque<Suite>,
    running: Vec<Running>,
    running_max: usize,
    niceness: Option<&'static str>,
}

struct Running {
    suite: Suite,
    child: Child,
    output: PathBuf,
    started: SystemTime,
}

/// How a suite ended.
struct Verdict {
    name: String,
    repeat: String,
    passed: bool,
    seconds: f64,
}

impl Lanes {
    fn new(queue: VecDeque<Suite>, running_max: usize, niceness: Option<&'static str>) -> Self {
        Lanes { queue, running: Vec::new(), running_max, niceness }
    }

    fn is_done(&self) -> bool {
        self.queue.is_empty() && self.running.is_empty()
    }

    /// Reports what has ended, and starts what there is room for.
    fn step(&mut self, verdicts: &mut Vec<Verdict>) {
        let mut still = Vec::new();
        for mut running in self.running.drain(..) {
            let cpu_before = cpu_of_children();
            match running.child.try_wait() {
                Ok(None) => still.push(running),
                ended => {
                    let passed = ended.is_ok_and(|end| end.is_some_and(|status| status.success()));
                    verdicts.push(running.report(passed, cpu_of_children() - cpu_before));
                }
            }
        }
        self.running = still;
        while self.running.len() < self.running_max
            && let Some(suite) = self.queue.pop_front()
        {
            match Running::start(suite, self.niceness) {
                Ok(running) => self.running.push(running),
                Err(verdict) => verdicts.push(verdict),
            }
        }
    }
}

impl Running {
    fn start(suite: Suite, niceness: Option<&str>) -> Result<Running, Verdict> {
        let folder = root().join("target/suites");
        let output = folder.join(suite.name.replace([' ', ':', '/'], "-")).with_extension("log");
        let spawn = || -> std::io::Result<Child> {
            fs::create_dir_all(&folder)?;
            let file = File::create(&output)?;
            let mut command = match niceness {
                Some(niceness) => {
                    let mut nice = Command::new("nice");
                    nice.args(["-n", niceness]).arg(&suite.program);
                    nice
                }
                None => Command::new(&suite.program),
            };
            command
                .args(&suite.args)
                .current_dir(&suite.folder)
                .env("CARGO_MANIFEST_DIR", &suite.folder);
            command
                .env(SEED, seed())
                .stdin(Stdio::null())
                .stdout(file.try_clone()?)
                .stderr(file)
                .spawn()
        };
        #[expect(clippy::disallowed_methods, reason = "told to people")]
        let started = SystemTime::now();
        match spawn() {
            Ok(child) => Ok(Running { suite, child, output, started }),
            Err(error) => {
                complain_about(&format!("{} does not start: {error}", suite.name));
                let Suite { name, repeat, .. } = suite;
                Err(Verdict { name, repeat, passed: false, seconds: 0.0 })
            }
        }
    }

    /// Prints all that the suite said.
    fn report(self, passed: bool, cpu_seconds: f64) -> Verdict {
        let seconds = self.started.elapsed().unwrap_or_default().as_secs_f64();
        let Suite { name, repeat, .. } = self.suite;
        let word = if passed { "passed" } else { "FAILED" };
        let output = fs::read(&self.output).unwrap_or_default();
        say(&format!(
            "\n=== {name}: {word} in {seconds:.0} s, {cpu_seconds:.0} s of CPU ===\n{}",
            String::from_utf8_lossy(&output)
        ));
        Verdict { name, repeat, passed, seconds }
    }
}

/// Runs everything, also after a failure: the one that says it best may be the last.
fn run_all<const N: usize>(mut lanes: [Lanes; N]) -> Vec<Verdict> {
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    let mut verdicts = Vec::new();
    while !lanes.iter().all(Lanes::is_done) {
        lanes.iter_mut().for_each(|lanes| lanes.step(&mut verdicts));
        sleep(LOOK_EVERY);
    }
    verdicts
}

/// Says which suites failed, and how each is repeated.
fn summarize(verdicts: &[Verdict]) -> bool {
    let mut slowest: Vec<&Verdict> = verdicts.iter().collect();
    slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    say("\n");
    for Verdict { name, seconds, .. } in slowest.iter().take(8) {
        say(&format!("{seconds:>5.0} s  {name}\n"));
    }
    let failed: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.passed).collect();
    say(&format!("{} suites, {} failed\n", verdicts.len(), failed.len()));
    for Verdict { name, repeat, .. } in &failed {
        complain_about(&format!("{name} failed; again: {SEED}={} {repeat}", seed()));
    }
    failed.is_empty()
}

/// Where the seeds of simulations and storms begin: each commit explores others.
pub(crate) const SEED: &str = "CONSIGN_SEED";

/// As given, or from the commit's hash; nothing else where there is no commit.
pub(crate) fn seed() -> String {
    // Once: somebody may commit while the tests run, and what is told must be what was tried.
    static DRAWN: OnceLock<String> = OnceLock::new();
    DRAWN.get_or_init(draw_seed).clone()
}

fn draw_seed() -> String {
    #[expect(clippy::disallowed_methods, reason = "who runs the tests may choose")]
    let given = env::var(SEED).ok();
    given.unwrap_or_else(|| {
        let asked = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root()).output();
        let hash = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let digits = hash.as_deref().ok().and_then(|hash| hash.get(..8));
        digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0).to_string()
    })
}

/// Seconds that the cores have spent on children that ended. All children are waited for by one
/// thread, so that the difference over one wait is what that child took, with all it waited for.
fn cpu_of_children() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0; // USER_HZ, as /proc has it on every Linux
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks = fields.skip(13).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Suite {
        Suite {
            name: name.into(),
            repeat: format!("sh -c '{script}'"),
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            folder: root().to_owned(),
        }
    }

    #[test]
    fn all_suites_run_and_one_failure_is_the_verdict() {
        let lanes = [
            Lanes::new([shell("t bad", "exit 3"), shell("t good", "true")].into(), 1, Some("1")),
            Lanes::new([shell("t killed", "kill -9 $$")].into(), 2, None),
        ];
        let verdicts = run_all(lanes);
        let passed = |name: &str| verdicts.iter().any(|v| v.name == name && v.passed);
        assert_eq!((verdicts.len(), passed("t good")), (3, true));
        assert!(!passed("t bad") && !passed("t killed") && !summarize(&verdicts));
        assert!(summarize(&[]));
    }

    #[test]
    fn parts_of_a_suite_have_each_test_once() {
        let parts = shell("t", "").split(&["serve::", "postgres::"]);
        let args: Vec<String> = parts.iter().map(|part| part.args.join(" ")).collect();
        assert_eq!(args, ["serve::", "postgres::", "--skip serve:: --skip postgres::"]);
    }

    #[test]
    fn a_message_about_a_test_is_a_suite() {
        let mut message = serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": "/w/crates/cli/Cargo.toml",
            "target": {"kind": ["test"], "name": "it"},
            "profile": {"test": true},
            "executable": "/w/target/debug/deps/it-1",
        });
        let suite = built_suite(&message).expect("a test");
        let told = (suite.name.as_str(), suite.repeat.as_str(), suite.folder.to_str());
        let again = "cargo test --locked -p consign-cli --test it";
        assert_eq!(told, ("cli it", again, Some("/w/crates/cli")));
        message["profile"]["test"] = false.into();
        assert!(built_suite(&message).is_none(), "the binary itself is no suite");
    }
}
