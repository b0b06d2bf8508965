//! A real browser without a window: Chromium, driven over WebDriver (chromedriver's HTTP API).

use super::language::missing;
use crate::serve::{Client, free_port, wait_until};
use base64::{Engine, prelude::BASE64_STANDARD};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::AtomicU16},
    time::Duration,
};
use tempfile::TempDir;

/// A browser with one page. Dropping it ends all its processes.
pub(super) struct Browser {
    driver: Child,
    client: Client,
    /// The path of its session.
    session: String,
    _profile: TempDir,
}

/// How long one command of the test may take.
const COMMAND_MAX: Duration = Duration::from_secs(30);

impl Browser {
    pub(super) fn open(url: &str) -> Self {
        let (port, profile) = (free_port(), TempDir::new().unwrap());
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}")).process_group(0);
        // The folders of its user must not be those of the developer.
        command.env("HOME", profile.path()).env("TMPDIR", profile.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let driver =
            command.spawn().unwrap_or_else(|error| panic!("{}", missing("chromedriver", &error)));
        let client = Client::new(Arc::new(AtomicU16::new(port)));
        let mut browser = Browser { driver, client, session: String::new(), _profile: profile };
        browser.start();
        browser.command("url", &json!({ "url": url }));
        browser
    }

    fn start(&mut self) {
        wait_until("chromedriver is ready", || {
            self.client.get("/status").try_send().is_ok_and(|answer| answer.status == 200)
        });
        // Root, as which tests often run, cannot have Chromium's sandbox; /dev/shm may be small.
        let args = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"];
        let options = json!({"args": args});
        let capabilities = json!({"alwaysMatch": {"goog:chromeOptions": options}});
        let answer = self.post("/session", &json!({ "capabilities": capabilities }));
        self.session = format!("/session/{}", answer["sessionId"].as_str().unwrap());
    }

    /// Chooses a file in the page's file input, and submits the form.
    pub(super) fn upload(&self, file: &Path) {
        let input = self.element("input[type=file]");
        let text = json!({"text": file.to_str().unwrap()});
        self.command(&format!("element/{input}/value"), &text);
        let button = self.element("button");
        self.command(&format!("element/{button}/click"), &json!({}));
    }

    /// The value of a JavaScript expression in the page.
    pub(super) fn value(&self, expression: &str) -> Value {
        let script = json!({"script": format!("return {expression}"), "args": []});
        self.command("execute/sync", &script)
    }

    /// Writes what the browser shows as a PNG.
    pub(super) fn screenshot(&self, file: &Path) {
        let answer = self.client.get(&format!("{}/screenshot", self.session)).send().ok(200);
        let png = BASE64_STANDARD.decode(answer["value"].as_str().unwrap()).unwrap();
        fs::write(file, png).unwrap();
    }

    fn element(&self, selector: &str) -> String {
        let found = self.command("element", &json!({"using": "css selector", "value": selector}));
        let id = found.as_object().and_then(|found| found.values().next()).unwrap();
        id.as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn command(&self, name: &str, body: &Value) -> Value {
        self.post(&format!("{}/{name}", self.session), body)
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        self.client.post(path).json(body).within(COMMAND_MAX).send().ok(200)["value"].take()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            drop(self.client.delete(&self.session).try_send());
        }
        // The browser is in the group of its driver, also when it does not answer any more.
        let _ = kill_process_group(Pid::from_child(&self.driver), Signal::KILL);
        drop(self.driver.wait());
    }
}
