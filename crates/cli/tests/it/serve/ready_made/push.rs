//! Jobs that are pushed to an address.

use super::TestFolder;
use crate::consign;
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    process::Command,
    sync::mpsc::{Receiver, channel},
    thread,
};

/// Answers one request after the other, each on a connection of its own, and sends them to the
/// test.
pub(crate) fn receiver(answers: &'static [&'static str]) -> (u16, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            sender.send(Request::read(BufReader::new(&stream))).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (port, requests)
}

pub(crate) struct Request {
    headers: Vec<(String, String)>,
    body: String,
}

impl Request {
    fn read(mut stream: impl BufRead) -> Self {
        let mut request = Request { headers: Vec::new(), body: String::new() };
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        assert_eq!(line, "POST /jobs HTTP/1.1\r\n");
        loop {
            line.clear();
            stream.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            request.headers.push((name.to_ascii_lowercase(), value.into()));
        }
        let length = request.header("content-length").parse().unwrap();
        stream.take(length).read_to_string(&mut request.body).unwrap();
        request
    }

    fn header(&self, name: &str) -> &str {
        let header = self.headers.iter().find(|(field_name, _)| field_name == name);
        header.map_or_else(|| panic!("{name} is missing"), |(_, value)| value)
    }
}

/// As any receiver would, with the secret that the operator gave it.
pub(crate) fn is_signed(request: &Request, secret: &str) -> bool {
    let key = STANDARD.decode(secret.trim().strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    let (id, at) = (request.header("webhook-id"), request.header("webhook-timestamp"));
    mac.update(format!("{id}.{at}.{}", request.body).as_bytes());
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    request.header("webhook-signature") == expected
}

/// The code that docs/handlers.md shows to authors of receivers in Python.
fn verify_with_the_documented_python(request: &Request, secret: &str) {
    let page = include_str!("../../../../../../docs/handlers.md");
    let (_, rest) = page.split_once("```python\n").unwrap();
    let (documented, _) = rest.split_once("```").unwrap();
    let verification = "import json, sys\n\
               told = json.loads(sys.argv[1])\n\
               body = told['body'].encode()\n\
               assert is_from_consign(told['secret'], told['headers'], body)\n\
               assert not is_from_consign(told['secret'], told['headers'], body + b' ')\n";
    let headers: serde_json::Map<String, Value> =
        request.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let input = json!({"secret": secret.trim(), "headers": headers, "body": request.body});
    let script = format!("{documented}{verification}");
    let run = Command::new("python3").args(["-c", &script, &input.to_string()]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn a_receiver_gets_a_signed_job_and_sets_the_retry_delay() {
    let (port, requests) = receiver(&[
        "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\nConnection: close\r\n\r\n\
         {\"sent\": true}",
    ]);
    let test_folder = TestFolder::new(&format!("[outbound]\nallow = [\"127.0.0.1:{port}\"]"));
    let handler = json!({"http": format!("http://127.0.0.1:{port}/jobs")});
    // Only the receiver's Retry-After can bring it back before the test times out.
    let backoff = json!({"base": "10m", "jitter": "none"});
    test_folder.declare("mail", json!({"handler": handler, "backoff": backoff}));
    let id = test_folder.customer.submit(json!({"jobType": "mail", "payload": {"to": "ada"}}));
    let store = format!("sqlite:{}", test_folder.test_server().store().display());
    let secret = consign(test_folder.folder(), &["keys", "webhook", "mail", "--store", &store]).out;
    for attempt in [1, 2] {
        let request = requests.recv().unwrap();
        assert!(is_signed(&request, &secret));
        verify_with_the_documented_python(&request, &secret);
        let body: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!((&body["jobId"], &body["attempt"]), (&json!(id), &json!(attempt)));
        assert_eq!(body["payload"], json!({"to": "ada"}));
        assert_eq!(request.header("webhook-id"), format!("{id}.0"), "both tries are one message");
        assert_eq!(request.header("idempotency-key"), id);
        assert_eq!(request.header("x-correlation-id"), body["correlationId"].as_str().unwrap());
    }
    let status = test_folder.wait(&id, "Completed");
    assert_eq!(status["message"], "the address answered with status 200");
    let history = test_folder.customer.history(&id);
    assert!(history.iter().any(|row| row["errorCode"] == "HTTP_STATUS_503"), "{history:?}");
}

#[test]
fn a_push_to_a_private_address_fails_with_its_remedy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let test_folder = TestFolder::new("");
    for (job_type, url) in [
        ("number", format!("https://127.0.0.1:{port}/")),
        ("decimal", format!("https://2130706433:{port}/")),
        ("plain", format!("http://localhost:{port}/")),
        // The target is only known when the name is resolved.
        ("name", format!("https://localhost:{port}/")),
    ] {
        test_folder.declare(job_type, json!({"handler": {"http": url}}));
        let status = test_folder.wait(&test_folder.customer.queued(job_type), "Failed");
        assert_eq!(status["errorCode"], "ADDRESS_FORBIDDEN");
        let message = status["errorMessage"].as_str().unwrap();
        assert!(message.contains("[outbound] allow"), "{message}");
    }
    test_folder.wait_for_log("the ready-made handler fails all jobs");
    assert!(listener.accept().is_err(), "the server connected");
}
