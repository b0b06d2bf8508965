//! Runs all tests: builds everything once, then runs suites that compute beside suites that wait.
//!
//! `cargo test --workspace` runs one executable after the other. Half of ours mostly wait (for
//! leases, kills, timeouts, other programs), so that the cores would idle. A waiting and a
//! computing suite do not disturb each other as long as the computing one has the lower priority.

use crate::{print_error, print_text, root};
use serde_json::Value;
use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, OnceLock},
    thread,
    time::{Duration, SystemTime},
    vec,
};

/// One test executable, or a part of it, or another command whose result counts.
pub(crate) struct Suite {
    name: String,
    /// The command that repeats it, for people.
    repeat: String,
    program: PathBuf,
    args: Vec<String>,
    folder: PathBuf,
}

impl Suite {
    pub(crate) fn cargo(name: &str, args: &[&str]) -> Suite {
        Suite {
            name: name.into(),
            repeat: format!("cargo {}", args.join(" ")),
            program: env!("CARGO").into(),
            args: args.iter().map(|word| (*word).into()).collect(),
            folder: root().to_owned(),
        }
    }

    /// Splits an executable into several suites: one for each filter, and one for all other tests.
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

/// The longest computing suites: they begin first, so that neither is left for the end.
const COMPUTE_FIRST: &[&str] = &["store", "platform sim"];

/// A suite that is split over several groups, and the filters of its parts.
const SPLIT: (&str, [&str; 2]) = ("cli it", ["serve::", "postgres::"]);

/// How many suites of a kind run at a time. A computing suite uses all cores, but often ends with
/// one slow test; the second one fills that gap.
const COMPUTING_MAX: usize = 2;
const WAITING_MAX: usize = 1;

/// The priority of computing suites: below waiting ones, whose tests depend on the clock.
const COMPUTING_NICENESS: &str = "19";
const WAITING_NICENESS: &str = "0";

/// Runs the tests of the workspace, and beside them cargo commands, one after the other: cargo's
/// own lock would make them wait for each other.
pub(crate) fn run(commands: Vec<Suite>) -> bool {
    let Some(built) = build() else { return false };
    let position = |suite: &Suite| WAIT.iter().position(|name| *name == suite.name);
    let (mut waiting, mut computing): (Vec<_>, Vec<_>) =
        built.into_iter().partition(|suite| position(suite).is_some());
    waiting.sort_by_key(position);
    computing.sort_by_key(|suite| !COMPUTE_FIRST.contains(&suite.name.as_str()));
    let (name, filters) = SPLIT;
    let split = |suite: Suite| if suite.name == name { suite.split(&filters) } else { vec![suite] };
    let waiting = waiting.into_iter().flat_map(split).collect();
    summarize(&run_all(&[
        SuiteGroup::new(commands, 1, COMPUTING_NICENESS),
        SuiteGroup::new(computing, COMPUTING_MAX, COMPUTING_NICENESS),
        SuiteGroup::new(waiting, WAITING_MAX, WAITING_NICENESS),
    ]))
}

fn build() -> Option<Vec<Suite>> {
    const BUILD: [&str; 5] =
        ["test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"];
    print_text(&format!("cargo {}\n", BUILD.join(" ")));
    let built = Command::new(env!("CARGO"))
        .args(BUILD)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let messages = String::from_utf8_lossy(&built.stdout);
    let suite = |line| built_suite(&serde_json::from_str(line).ok()?);
    Some(messages.lines().filter_map(suite).collect())
}

/// The suite of a cargo message, if the message is about a test.
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

/// Suites of one kind, and how many of them run at a time.
struct SuiteGroup {
    suites: Mutex<vec::IntoIter<Suite>>,
    running_max: usize,
    niceness: &'static str,
}

struct SuiteResult {
    suite: Suite,
    passed: bool,
    seconds: f64,
}

impl SuiteGroup {
    fn new(suites: Vec<Suite>, running_max: usize, niceness: &'static str) -> Self {
        SuiteGroup { suites: Mutex::new(suites.into_iter()), running_max, niceness }
    }

    fn next(&self) -> Option<Suite> {
        self.suites.lock().expect(UNPOISONED).next()
    }
}

/// Runs all suites, also after a failure: the most telling failure may be the last.
fn run_all(groups: &[SuiteGroup]) -> Vec<SuiteResult> {
    let results = &Mutex::new(Vec::new());
    let work = |group: &SuiteGroup| {
        while let Some(suite) = group.next() {
            let result = suite.run(group.niceness);
            results.lock().expect(UNPOISONED).push(result);
        }
    };
    thread::scope(|scope| {
        for group in groups {
            (0..group.running_max).for_each(|_| drop(scope.spawn(move || work(group))));
        }
    });
    std::mem::take(&mut results.lock().expect(UNPOISONED))
}

const UNPOISONED: &str = "no thread panics while it holds a lock";

impl Suite {
    /// Runs it to its end, and prints all its output.
    fn run(self, niceness: &str) -> SuiteResult {
        let output = root().join("target/suites").join(self.name.replace([' ', ':', '/'], "-"));
        let output = output.with_extension("log");
        #[expect(clippy::disallowed_methods, reason = "printed for people")]
        let started = SystemTime::now();
        let (passed, cpu_seconds) = match self.start(niceness, &output) {
            Ok(child) => wait(child),
            Err(error) => (print_error(&format!("{} does not start: {error}", self.name)), 0.0),
        };
        let seconds = started.elapsed().unwrap_or_default().as_secs_f64();
        let label = if passed { "passed" } else { "FAILED" };
        print_text(&format!(
            "\n=== {}: {label} in {seconds:.0} s, {cpu_seconds:.0} s of CPU ===\n{}",
            self.name,
            String::from_utf8_lossy(&fs::read(&output).unwrap_or_default())
        ));
        SuiteResult { suite: self, passed, seconds }
    }

    fn start(&self, niceness: &str, output: &Path) -> io::Result<Child> {
        output.parent().map_or(Ok(()), fs::create_dir_all)?;
        let file = File::create(output)?;
        Command::new("nice")
            .args(["-n", niceness])
            .arg(&self.program)
            .args(&self.args)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env(SEED, seed())
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
    }
}

/// Whether it succeeded, and the seconds of CPU that it took.
fn wait(mut child: Child) -> (bool, f64) {
    const POLL_INTERVAL: Duration = Duration::from_millis(50);
    // Children are polled one at a time, so that the growth of the children's CPU time belongs to
    // this one.
    static POLL_LOCK: Mutex<()> = Mutex::new(());
    loop {
        let poll_lock = POLL_LOCK.lock().expect(UNPOISONED);
        let cpu_before = cpu_of_children();
        match child.try_wait() {
            Ok(None) => drop(poll_lock),
            result => {
                let passed = result.is_ok_and(|end| end.is_some_and(|status| status.success()));
                return (passed, cpu_of_children() - cpu_before);
            }
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Reports which suites failed, and how to repeat each.
fn summarize(results: &[SuiteResult]) -> bool {
    let mut slowest: Vec<&SuiteResult> = results.iter().collect();
    slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    print_text("\n");
    for SuiteResult { suite, seconds, .. } in slowest.iter().take(8) {
        print_text(&format!("{seconds:>5.0} s  {}\n", suite.name));
    }
    let failed: Vec<&SuiteResult> = results.iter().filter(|result| !result.passed).collect();
    print_text(&format!("{} suites, {} failed\n", results.len(), failed.len()));
    for SuiteResult { suite: Suite { name, repeat, .. }, .. } in &failed {
        print_error(&format!("{name} failed; again: {SEED}={} {repeat}", seed()));
    }
    failed.is_empty()
}

/// Where the seeds of simulations and storms begin: each commit explores others.
pub(crate) const SEED: &str = "CONSIGN_SEED";

/// The given seed, or one from the commit's hash; a fixed one where there is no commit.
pub(crate) fn seed() -> String {
    // Chosen once: a commit during the run must not change the seed that is reported.
    static CHOSEN: OnceLock<String> = OnceLock::new();
    CHOSEN.get_or_init(choose_seed).clone()
}

fn choose_seed() -> String {
    #[expect(clippy::disallowed_methods, reason = "who runs the tests may choose")]
    let from_environment = env::var(SEED).ok();
    from_environment.unwrap_or_else(|| {
        let output = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root()).output();
        let hash = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let digits = hash.as_deref().ok().and_then(|hash| hash.get(..8));
        digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0).to_string()
    })
}

/// CPU seconds of ended children, and of the descendants that these waited for.
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
        let groups = [
            SuiteGroup::new(vec![shell("t bad", "exit 3"), shell("t good", "true")], 1, "1"),
            SuiteGroup::new(vec![shell("t killed", "kill -9 $$")], 2, "0"),
        ];
        let results = run_all(&groups);
        let passed = |name: &str| results.iter().any(|v| v.suite.name == name && v.passed);
        assert_eq!((results.len(), passed("t good")), (3, true));
        assert!(!passed("t bad") && !passed("t killed") && !summarize(&results));
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
        let parts = (suite.name.as_str(), suite.repeat.as_str(), suite.folder.to_str());
        let again = "cargo test --locked -p consign-cli --test it";
        assert_eq!(parts, ("cli it", again, Some("/w/crates/cli")));
        message["profile"]["test"] = false.into();
        assert!(built_suite(&message).is_none(), "the binary itself is no suite");
    }
}
