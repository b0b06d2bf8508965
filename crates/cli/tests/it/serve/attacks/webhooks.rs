//! What a receiver of one type can do to the receiver of another.

use crate::consign;
use crate::serve::{
    Customer, TestServer,
    ready_made::push::{is_signed, receiver},
};
use engine::WebhookKey;
use serde_json::json;
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    sync::Arc,
};
use store::{RecordKind, read_records};

const OK_RESPONSE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// One secret signed for all types: a receiver of one type's jobs could forge another's.
#[test]
fn a_webhook_secret_signs_pushes_of_its_type_only() {
    let (port, requests) = receiver(&[OK_RESPONSE, OK_RESPONSE]);
    let test_server =
        Arc::new(TestServer::with(&format!("[outbound]\nallow = [\"127.0.0.1:{port}\"]")));
    let customer = Customer::of(&test_server);
    let handler = json!({"handler": {"http": format!("http://127.0.0.1:{port}/jobs")}});
    let store = format!("sqlite:{}", test_server.store().display());
    let secret = |job_type: &str| {
        let output = consign(test_server.data(), &["keys", "webhook", job_type, "--store", &store]);
        assert!(output.success, "{}", output.err);
        assert!(output.out.starts_with("whsec_"), "{}", output.out);
        output.out
    };
    let mut pushed = Vec::new();
    for job_type in ["mail", "fax"] {
        customer.policy(job_type, handler.clone());
        customer.queued(job_type);
        pushed.push(requests.recv().unwrap());
    }
    let [mail, fax] = ["mail", "fax"].map(secret);
    assert_ne!(mail, fax);
    assert_eq!([&mail, &fax].map(|key| is_signed(&pushed[0], key)), [true, false]);
    assert_eq!([&mail, &fax].map(|key| is_signed(&pushed[1], key)), [false, true]);
    let stored = read_records(&test_server.store(), RecordKind::WebhookKey).unwrap();
    let WebhookKey(master) = stored[0].read().unwrap();
    assert!(pushed.iter().all(|request| !is_signed(request, &master)), "it signs nothing itself");
    assert!(!test_server.data().join("webhook.key").exists());
    assert_eq!(secret("mail"), mail, "it stays");
    test_server.kill();
    test_server.restart();
    assert_eq!(secret("mail"), mail, "also after a restart");
    let new = test_server.data().join("new.key");
    fs::write(&new, "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n").unwrap();
    fs::set_permissions(&new, Permissions::from_mode(0o600)).unwrap();
    let new = new.to_str().unwrap();
    let preview = consign(test_server.data(), &["keys", "webhook", "mail", "--key", new]).out;
    assert_ne!(preview, mail);
    assert!(test_server.stop().success());
    let replaced = consign(test_server.data(), &["keys", "webhook-key", new, "--store", &store]);
    assert!(replaced.success, "{}", replaced.err);
    assert_eq!(secret("mail"), preview);
    test_server.restart();
    assert_eq!(secret("mail"), preview, "a start makes no other key");
    let audit = test_server.admin().get("/api/audit").send().ok(200).to_string();
    assert!(audit.contains("webhook_key.replace"), "{audit}");
    assert!(!test_server.log().contains("whsec_"), "{}", test_server.log());
    let wrong = consign(test_server.data(), &["keys", "webhook", "NO TYPE", "--store", &store]);
    assert!(!wrong.success, "{}", wrong.out);
}
