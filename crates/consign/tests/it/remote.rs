//! A remote server, used by a client that has its address and a key.

use crate::examples::run_with;
use consign::{Consign, JobRequest, ServerHandle};

pub(crate) struct RemoteFixture {
    consign: Consign,
    server: ServerHandle,
    key: String,
}

impl RemoteFixture {
    pub(crate) async fn open() -> Self {
        let consign = Consign::in_memory().unwrap();
        let key = consign.create_admin_key("test").await.unwrap();
        let server = consign.serve("127.0.0.1:0").await.unwrap();
        RemoteFixture { consign, server, key }
    }

    pub(crate) fn connect(&self) -> Consign {
        Consign::connect(&self.url(), &self.key).unwrap()
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_works_on_jobs_of_a_server() {
    let remote_fixture = RemoteFixture::open().await;
    let (url, key) = (remote_fixture.url(), remote_fixture.key.clone());
    let output = tokio::task::spawn_blocking(move || {
        run_with("remote", &[("CONSIGN_URL", &url), ("CONSIGN_KEY", &key)])
    });
    let output = output.await.unwrap();
    assert!(output.starts_with("submitted as "), "{output}");
    assert!(output.ends_with("Completed: sent to ada@example.org at attempt 1\n"), "{output}");
}

#[tokio::test]
async fn a_remote_client_sends_keys_so_that_a_repeat_is_safe() {
    let remote_fixture = RemoteFixture::open().await;
    let job = remote_fixture.connect().submit(JobRequest::new("idle", &1)).await.unwrap();
    let stored = remote_fixture.consign.job(&job.job_id).await.unwrap();
    assert!(stored.extension.idempotency_key.is_some());
}

#[test]
fn an_address_that_is_none_is_refused_at_once() {
    assert!(Consign::connect("nowhere", "k").is_err());
}
