//! A broken installation, diagnosed and mended by the commands that the doctor prints.

use super::{claim, poison};
use crate::{client::CommandResult, client::Prompt, serve::TestServer, submit};
use engine::{ClaimId, ClaimRequest, Host, JobId, JobType, Scope, WorkerId};
use platform::{SystemClock, SystemRandom};
use serde_json::{Value, json};
use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};
use store::{Clock, Execute, ManualClock, Notification, Options, Request, Sqlite};
use tempfile::TempDir;

/// Longer than a worker may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// A store with a waiting job, whose only worker sends no heartbeats any more.
fn store_with_lost_worker(data: &Path) -> JobId {
    let wall = SystemClock::new().read().wall;
    let before = engine::Timestamp::from_unix_ms(wall.unix_ms() - SILENCE_MAX.as_millis() as i64);
    let clock = Arc::new(ManualClock::at(before));
    fs::create_dir_all(data).unwrap();
    let path = data.join("consign.db");
    let store =
        Sqlite::open(path, clock.clone(), Arc::new(SystemRandom), Options::default()).unwrap();
    let claim_request = ClaimRequest {
        worker: WorkerId::parse("w-1").unwrap(),
        host: Some(Host::parse("machine-1").unwrap()),
        claim: ClaimId::parse("c-1").unwrap(),
        job_types: vec![JobType::parse("email").unwrap()],
        max: 1,
        lease: None,
    };
    store
        .execute(vec![Request::Claim { scope: Scope::All, claim_request }], Notification::default())
        .unwrap();
    clock.pass(SILENCE_MAX);
    submit(&store)
}

/// A shell that will run a line as it was printed.
fn shell(prompt: &Prompt, line: &str) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_consign")).parent().unwrap();
    let line = format!("PATH={}:/usr/local/bin:/usr/bin:/bin; {line}", binary.display());
    let command = prompt.command(&[]);
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line).current_dir(prompt.home()).env_clear().envs(variables);
    shell.stdin(Stdio::null());
    shell
}

fn run_printed_line(prompt: &Prompt, line: &str) -> CommandResult {
    let run = shell(prompt, line).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    CommandResult { out: text(run.stdout), err: text(run.stderr), code: run.status.code() }
}

/// A worker that was started as printed, killed on drop.
struct WorkerProcess(Child);

impl WorkerProcess {
    fn start(prompt: &Prompt, line: &str) -> Self {
        let handler = prompt.home().join("handler");
        fs::write(&handler, "#!/bin/sh\ncat > /dev/null\n").unwrap();
        fs::set_permissions(&handler, PermissionsExt::from_mode(0o700)).unwrap();
        let mut shell = shell(prompt, &format!("exec {line}"));
        WorkerProcess(shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn wrong_findings(report: &Value) -> Vec<&Value> {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().filter(|finding| finding["level"] == "wrong").collect()
}

/// Completes all due jobs of a type.
fn work(test_server: &TestServer, worker: &str, job_type: &str) {
    let items: Vec<Value> = claim(test_server, worker, job_type)
        .iter()
        .map(|job| json!({"jobId": job["jobId"], "token": job["lease"]["token"], "outcome": "completed"}))
        .collect();
    assert!(!items.is_empty(), "nothing of {job_type} was due");
    test_server.admin().post("/api/work/settle").json(&json!({"items": items})).send().ok(200);
}

#[test]
fn a_broken_installation_leads_to_its_causes_and_is_mended_as_printed() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let waiting = store_with_lost_worker(&data).to_string();
    let test_server = TestServer::on(folder, data, "");
    let prompt = Prompt::of(&test_server);
    let well = prompt.types(&["doctor"]);
    assert_eq!(well.code, Some(1), "a job waits already: {}", well.out);
    prompt.types(&["queues", "pause", "report"]).well();
    prompt.enqueues(&["report"]);
    let poisoned = poison(&test_server, &prompt, "page", "NO_PAGE", 2);
    prompt.types(&["keys", "create", "shop", "--scope", "jobs:read", "--expires", "3d"]).well();

    let result = prompt.types(&["doctor"]);
    assert_eq!(result.code, Some(1), "{result:?}");
    for line in [
        "✗ queue email: 1 job waits and no worker asks for it",
        "the last was w-1 on machine-1",
        "✗ queue report: paused, and 1 job waits",
        "✗ queue page: 2 jobs wait for a person: NO_PAGE 2",
        "✗ key shop (",
        "4 things are wrong",
    ] {
        assert!(result.out.contains(line), "{line}: {}", result.out);
    }
    let explained = prompt.types(&["explain", &waiting]);
    assert!(explained.well().contains("consign work --type email"), "{}", explained.out);
    let workers = prompt.types(&["workers"]);
    let lost = workers.well().lines().find(|line| line.starts_with("w-1")).unwrap();
    assert!(lost.ends_with("lost"), "{lost}");
    let queues = prompt.types(&["queues"]);
    assert!(queues.well().contains("no worker") && queues.out.contains("paused"), "{}", queues.out);
    assert!(prompt.types(&["poison"]).well().contains(&poisoned[0]));

    let report: Value = serde_json::from_str(&prompt.types(&["doctor", "--json"]).out).unwrap();
    assert_eq!(report["well"], false);
    for finding in wrong_findings(&report) {
        for cure in finding["cures"].as_array().unwrap() {
            let Some(line) = cure["run"].as_str() else { continue };
            if line.starts_with("consign work ") {
                let _worker = WorkerProcess::start(&prompt, line);
                prompt.types(&["status", &waiting, "--watch"]).well();
                continue;
            }
            // Without a terminal, the command cannot ask.
            let confirmation = if line.contains("redrive") { " --yes" } else { "" };
            run_printed_line(&prompt, &format!("{line}{confirmation}")).well();
        }
    }
    work(&test_server, "w-2", "report");
    work(&test_server, "w-2", "page");
    let result = prompt.types(&["doctor"]);
    assert!(result.well().contains("nothing is wrong"), "{}", result.out);
    assert!(result.out.contains("! worker w-1 on machine-1 (email): lost"), "{}", result.out);
    assert_eq!(prompt.types(&["doctor", "--json"]).json()["well"], true);
}

#[test]
fn the_doctor_sees_a_machine_with_a_store_and_one_without() {
    let test_server = TestServer::start();
    let store = format!("sqlite:{}", test_server.store().display());
    let prompt = Prompt::unconfigured().set("CONSIGN_URL", &crate::client::url(&test_server));
    // A client's machine: no store, and no key.
    let result = prompt.types(&["doctor"]);
    assert_eq!(result.code, Some(1), "{result:?}");
    assert!(result.out.contains("- store: there is no store"), "{}", result.out);
    assert!(
        result.out.contains("✗ key: ") && result.out.contains("consign profile add"),
        "{}",
        result.out
    );
    assert_eq!(fs::read_dir(prompt.home()).unwrap().count(), 0, "and nothing is created");

    let result = prompt.types(&["doctor", "--store", &store]);
    for line in ["✓ data folder", "✓ disk", "✓ store", "✓ server", "✓ queues", "✓ keys"]
    {
        assert!(result.well().contains(line), "{line}: {}", result.out);
    }
    fs::set_permissions(test_server.data().join("admin.key"), PermissionsExt::from_mode(0o644))
        .unwrap();
    let result = prompt.types(&["doctor", "--quick", "--store", &store]);
    assert_eq!(result.code, Some(1), "{result:?}");
    let cure = result.out.lines().find_map(|line| line.strip_prefix("  → chmod ")).unwrap();
    run_printed_line(&prompt, &format!("chmod {cure}")).well();
    prompt.types(&["doctor", "--quick", "--store", &store]).well();

    let limited = test_server.key(json!({"name": "r", "tenant": "*", "scopes": ["jobs:read"]}));
    let reader = Prompt::of(&test_server).set("CONSIGN_KEY", &limited);
    let result = reader.types(&["doctor"]);
    assert!(result.well().contains("- keys: not looked at"), "{}", result.out);

    test_server.stop();
    let result = prompt.types(&[
        "doctor",
        "--quick",
        "--url",
        &crate::client::url(&test_server),
        "--store",
        &store,
    ]);
    assert_eq!(result.code, Some(1), "{result:?}");
    assert!(
        result.out.contains("cannot be reached")
            && result.out.contains("→ start it: consign serve")
    );
}

#[test]
fn settings_that_are_wrong_are_the_first_finding() {
    let unconfigured = Prompt::unconfigured().set("CONSIGN_URL", "http://127.0.0.1:1");
    fs::write(unconfigured.home().join("consign.toml"), "strict_typs = true\n").unwrap();
    let result = unconfigured.types(&["doctor"]);
    assert_eq!(result.code, Some(1), "{result:?}");
    let first = result.out.lines().next().unwrap();
    assert!(first.starts_with("✗ settings: ") && first.contains("strict_typs"), "{}", result.out);
    assert!(result.out.contains(": consign config check"), "{}", result.out);
    let report: Value =
        serde_json::from_str(&unconfigured.types(&["doctor", "--json"]).out).unwrap();
    assert_eq!(
        (&report["well"], &report["findings"][0]["area"]),
        (&json!(false), &json!("settings"))
    );
}
