//! §6: handlers that need no code. Programs and receivers here do what the test wants, and say what they saw.

mod changes;
mod exec;
pub(super) mod push;
mod rights;
mod shutdown;

use super::{Customer, House, wait_until};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A house whose server runs in a folder that the test can look into.
struct Place {
    customer: Customer,
}

impl Place {
    /// A server that takes programs from the API, unless `settings` say who names them.
    fn new(settings: &str) -> Self {
        let by_api = "\n[handlers]\nexec = \"all\"\n";
        let rest = if settings.contains("[handlers]") { "" } else { by_api };
        let house = House::with(&format!("{settings}{rest}"));
        Place { customer: Customer::of(&Arc::new(house)) }
    }

    fn house(&self) -> &House {
        &self.customer.house
    }

    /// The folder in which programs run.
    fn folder(&self) -> &Path {
        self.house().data().parent().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Declares a type that a shell carries out.
    fn declare_sh(&self, job_type: &str, script: &str) {
        self.declare(job_type, json!({"handler": {"exec": ["sh", "-c", script]}}));
    }

    fn declare(&self, job_type: &str, policy: Value) {
        self.customer.policy(job_type, policy);
    }

    /// A job of that type, when it has this status.
    fn wait(&self, id: &str, status: &str) -> Value {
        self.customer.wait_for_status(id, status)
    }

    /// Waits until the program of a job says how far it is.
    fn wait_for_progress(&self, id: &str) {
        wait_until("the program has spoken", || {
            self.customer.status(id)["progress"]["percent"].is_u64()
        });
    }

    fn wait_for_log(&self, text: &str) {
        wait_until(text, || self.house().log().contains(text));
    }

    fn touch(&self, name: &str) {
        fs::write(self.file(name), "").unwrap();
    }
}

/// Says that it runs, waits for a file called `go`, and ends well.
const WAITS: &str =
    "echo 'consign:progress 10 waiting'; while [ ! -e go ]; do sleep 0.05; done; echo went";
