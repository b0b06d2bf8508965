//! §6: handlers that need no code. Programs and receivers here do what the test wants, and report
//! what they saw.

mod changes;
mod exec;
pub(super) mod push;
mod rights;
mod shutdown;

use super::{Customer, TestServer, wait_until};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A server that runs in a folder that the test can read.
struct TestFolder {
    customer: Customer,
}

impl TestFolder {
    /// A server that takes programs from the API, unless `settings` say otherwise.
    fn new(settings: &str) -> Self {
        let by_api = "\n[handlers]\nexec = \"all\"\n";
        let rest = if settings.contains("[handlers]") { "" } else { by_api };
        let test_server = TestServer::with(&format!("{settings}{rest}"));
        TestFolder { customer: Customer::of(&Arc::new(test_server)) }
    }

    fn test_server(&self) -> &TestServer {
        &self.customer.test_server
    }

    /// The folder in which programs run.
    fn folder(&self) -> &Path {
        self.test_server().data().parent().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Declares a type whose jobs a shell script runs.
    fn declare_sh(&self, job_type: &str, script: &str) {
        self.declare(job_type, json!({"handler": {"exec": ["sh", "-c", script]}}));
    }

    fn declare(&self, job_type: &str, policy: Value) {
        self.customer.policy(job_type, policy);
    }

    /// Waits until the job has this status, and returns the job.
    fn wait(&self, id: &str, status: &str) -> Value {
        self.customer.wait_for_status(id, status)
    }

    /// Waits until the program of a job reports progress.
    fn wait_for_progress(&self, id: &str) {
        wait_until("the program has spoken", || {
            self.customer.status(id)["progress"]["percent"].is_u64()
        });
    }

    fn wait_for_log(&self, text: &str) {
        wait_until(text, || self.test_server().log().contains(text));
    }

    fn touch(&self, name: &str) {
        fs::write(self.file(name), "").unwrap();
    }
}

/// Reports that it runs, waits for a file called `go`, and succeeds.
const WAITS: &str =
    "echo 'consign:progress 10 waiting'; while [ ! -e go ]; do sleep 0.05; done; echo went";
