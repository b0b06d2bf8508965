//! The web application of `examples/webapp`, used by a person with a browser while workers and the
//! server are killed.

use super::{browser::Browser, examples, program::Program};
use crate::serve::{Customer, TestServer, free_port, wait_until};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};
use tempfile::TempDir;

/// The whole application: Consign, the application's server, three workers, and a page in a browser.
struct WebApp {
    browser: Browser,
    workers: Vec<Program>,
    _server: Program,
    customer: Customer,
    uploads: TempDir,
}

impl WebApp {
    fn start() -> Self {
        let port = free_port();
        let settings = fs::read_to_string(examples().join("webapp/consign.toml")).unwrap();
        assert!(settings.contains(":8000"), "the origin of server.py: {settings}");
        let settings = settings.replace(":8000", &format!(":{port}"));
        let customer = Customer::of(&Arc::new(TestServer::with(&settings)));
        let uploads = TempDir::new().unwrap();
        let start = |script: &str, scopes: &[&str]| {
            let mut command = python(script);
            command.env("PORT", port.to_string()).env("UPLOADS", uploads.path());
            Program::with_rights(command, &customer, scopes)
        };
        let server = start("server.py", &["jobs:enqueue", "jobs:read"]);
        let workers = (0..3).map(|_| start("worker.py", &["work"])).collect::<Vec<_>>();
        server.wait_for_output("http://127.0.0.1");
        workers.iter().for_each(|worker| worker.wait_for_output("works on csv-import"));
        let browser = Browser::open(&format!("http://127.0.0.1:{port}/"));
        WebApp { browser, workers, _server: server, customer, uploads }
    }

    fn upload(&self, name: &str, content: &str) {
        let file = self.uploads.path().join(name);
        fs::write(&file, content).unwrap();
        self.browser.upload(&file);
    }

    /// What the page shows of each upload.
    fn shown(&self) -> Vec<String> {
        let lines =
            self.browser.value("[...document.querySelectorAll('li')].map(i => i.innerText)");
        let text = |line: &Value| line.as_str().unwrap().to_owned();
        lines.as_array().unwrap().iter().map(text).collect()
    }

    #[track_caller]
    fn wait_until_shown(&self, text: &str) {
        wait_until(text, || self.shown().last().is_some_and(|line| line.contains(text)));
    }

    /// The job of the last upload.
    fn job(&self) -> Value {
        let jobs = self.customer.owner.get("/api/jobs?top=1").send().ok(200);
        jobs["items"][0].clone()
    }

    /// Kills the worker that runs the job.
    fn kill_worker(&mut self, job: &str) {
        let history = self.customer.history(job);
        let worker = history.iter().rev().find_map(|row| row["workerId"].as_str()).unwrap();
        let index = self.workers.iter().position(|one| one.output().contains(worker)).unwrap();
        self.workers.remove(index).kill();
    }
}

fn python(script: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-I", "-S"]).arg(examples().join("webapp").join(script));
    command.env("no_proxy", "127.0.0.1");
    command
}

/// A file that is imported in about four seconds.
fn payments() -> String {
    fs::read_to_string(examples().join("webapp/payments.csv")).unwrap()
}

#[test]
fn a_page_follows_its_upload_to_the_result_and_another_to_the_reason_of_its_failure() {
    let app = WebApp::start();
    app.upload("payments.csv", &payments());
    app.wait_until_shown("Running: row ");
    let progress = app.browser.value("document.querySelector('progress').value");
    assert!(progress.as_f64().unwrap() > 0.0, "{progress}");
    app.browser.screenshot(&screenshots().join("webapp-running.png"));
    app.wait_until_shown("Completed: 80 payments, 9760.00 in total");
    app.upload("bad.csv", &fs::read_to_string(examples().join("webapp/bad.csv")).unwrap());
    app.wait_until_shown("Failed: line 3: 'twelve' is no amount (BAD_ROW)");
    assert_eq!(app.shown().len(), 2);
    app.browser.screenshot(&screenshots().join("webapp-ended.png"));
}

#[test]
fn a_page_shows_the_result_once_though_the_worker_and_the_server_are_killed() {
    let mut app = WebApp::start();
    app.upload("payments.csv", &payments());
    app.wait_until_shown("Running: row ");
    let job = app.job()["jobId"].as_str().unwrap().to_owned();
    app.kill_worker(&job);
    app.wait_until_shown("is tried again after LEASE_EXPIRED");
    app.wait_until_shown("Running: row ");
    app.customer.test_server.kill();
    app.customer.test_server.restart_in_place();
    app.wait_until_shown("Completed: 80 payments, 9760.00 in total");
    assert_eq!(app.shown().len(), 1, "the page shows one upload");
    let status = app.customer.status(&job);
    assert_eq!(status["result"], json!({"rows": 80, "total": "9760.00"}));
    let endings = app.customer.history(&job);
    let endings = endings.iter().filter(|row| row["to"] == "Completed").count();
    assert_eq!(endings, 1, "there is one outcome");
}

/// Where a developer finds what the browser showed.
fn screenshots() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
    fs::create_dir_all(&folder).unwrap();
    folder
}
