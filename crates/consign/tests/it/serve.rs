//! The HTTP API of a store in this process.

use consign::{Consign, JobRequest, Status};
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};
use tempfile::TempDir;

#[tokio::test]
async fn a_store_in_a_file_is_operated_with_the_key_beside_it() {
    let folder = TempDir::new().unwrap();
    let consign = Consign::open(folder.path().join("data/consign.db")).unwrap();
    let served = consign.serve("127.0.0.1:0").await.unwrap();
    let path = served.admin_key().unwrap();
    assert_eq!(path, folder.path().join("data/admin.key"));
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    let key = fs::read_to_string(path).unwrap();
    let operator = Consign::connect(&format!("http://{}", served.address()), key.trim()).unwrap();
    let id = consign.submit(JobRequest::new("idle", &1)).await.unwrap().job_id;
    assert_eq!(operator.cancel(&id).await.unwrap().status, Status::Cancelled);
    assert_eq!(consign.status(&id).await.unwrap().status, Status::Cancelled);
    // For commands on this machine, which send the key of the folder over this socket alone.
    let socket = folder.path().join(format!("data/consign-{}.sock", served.address().port()));
    assert!(socket.exists());
    served.stop(Duration::from_secs(5)).await;
    assert!(!socket.exists());
    consign.close().await;
}

#[tokio::test]
async fn the_key_is_made_once() {
    let folder = TempDir::new().unwrap();
    let consign = Consign::open(folder.path().join("consign.db")).unwrap();
    for _ in 0..2 {
        let served = consign.serve("127.0.0.1:0").await.unwrap();
        assert!(served.admin_key().is_some());
        served.stop(Duration::from_secs(5)).await;
    }
    let keys = consign.node().unwrap().keys(&consign::Scope::All).await.unwrap();
    assert_eq!(keys.len(), 1);
}

#[tokio::test]
async fn other_machines_cannot_reach_it() {
    let consign = Consign::in_memory().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "[::ffff:10.0.0.1]:0"] {
        let error = consign.serve(address).await.err().unwrap().to_string();
        assert!(error.contains("not encrypted") && error.contains("127.0.0.1"), "{error}");
    }
    let error = consign.serve("8470").await.err().unwrap().to_string();
    assert!(error.contains("cannot listen at 8470"), "{error}");
}

#[tokio::test]
async fn a_remote_server_serves_itself() {
    let remote = Consign::connect("http://127.0.0.1:1", "k").unwrap();
    let error = remote.serve("127.0.0.1:0").await.err().unwrap().to_string();
    assert!(error.contains("itself"), "{error}");
    let error = remote.create_admin_key("k").await.err().unwrap().to_string();
    assert!(error.contains("consign keys create"), "{error}");
}
