//! The command line and `curl` against a store that another program has embedded.

use crate::client::Prompt;
use consign::{Consign, JobRequest, Status};
use tempfile::TempDir;
use tokio::runtime::Runtime;

#[test]
fn an_embedded_store_is_operated_with_the_command_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("data/consign.db");
    let runtime = Runtime::new().unwrap();
    let consign = Consign::open(&path).unwrap();
    let served = runtime.block_on(consign.serve("127.0.0.1:0")).unwrap();
    let submitted = runtime.block_on(consign.submit(JobRequest::new("email", &1))).unwrap();
    let url = format!("http://{}", served.address());
    let prompt = Prompt::unconfigured().set("CONSIGN_URL", &url);
    // Without --key: the key beside the store goes over the socket beside it.
    let store = format!("sqlite:{}", path.display());
    let types = |words: &[&str]| prompt.types(&[words, &["--store", &store]].concat());
    assert!(types(&["queues"]).well().contains("email"));
    assert!(types(&["explain", &submitted.job_id]).well().contains("NO_LIVE_WORKER"));
    types(&["cancel", &submitted.job_id]).well();
    let status = runtime.block_on(consign.status(&submitted.job_id)).unwrap();
    assert_eq!(status.status, Status::Cancelled);
    runtime.block_on(served.stop(std::time::Duration::from_secs(5)));
}
