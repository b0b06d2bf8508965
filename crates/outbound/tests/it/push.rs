//! Jobs that are pushed to an allowed receiver.

use crate::{
    job_payload::{JSON, done, failed, job_payload},
    receiver::{Request, receiver, serve},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use outbound::{Allow, HandlerEnding, HandlerOutcome, JobPayload, Push, Signer, system_lookup};
use sha2::Sha256;
use std::{
    future::pending,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

const SECRET: [u8; 32] = [7; 32];
const NOW: u64 = 1_794_700_800;

fn push_to(address: SocketAddr) -> Push {
    let allow = Arc::new(Allow::parse(&[address.to_string()]).unwrap());
    let signer = Signer::parse(&Signer::write(&SECRET)).unwrap();
    let url = format!("http://{address}/jobs?for=us");
    Push::new(&url, &allow, &system_lookup(), signer, Arc::new(|| NOW)).unwrap()
}

async fn deliver(answer: impl Into<Vec<u8>>) -> HandlerOutcome {
    let (address, _told) = receiver(answer);
    push_to(address).run(&job_payload(), pending()).await
}

fn signature(request: &Request) -> String {
    let part = |name| request.header(name).unwrap();
    let signed = format!("{}.{}.{}", part("webhook-id"), part("webhook-timestamp"), request.body);
    let mut mac = Hmac::<Sha256>::new_from_slice(&SECRET).unwrap();
    mac.update(signed.as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[tokio::test]
async fn the_job_comes_signed_with_all_that_a_receiver_needs() {
    let (address, requests) = receiver("HTTP/1.1 204 No Content\r\n\r\n");
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let job_payload = JobPayload { traceparent: Some(trace.into()), ..job_payload() };
    let outcome = push_to(address).run(&job_payload, pending()).await;
    assert_eq!(outcome.message.as_deref(), Some("the address answered with status 204"));
    assert_eq!(done(outcome), None);
    let request = requests.recv().unwrap();
    assert!(request.head.starts_with("POST /jobs?for=us HTTP/1.1\r\n"), "{}", request.head);
    let sent = JSON.replace(r#""traceparent":null"#, &format!(r#""traceparent":"{trace}""#));
    assert_eq!(request.body, sent);
    let agent = concat!("consign/", env!("CARGO_PKG_VERSION"));
    for (name, expected) in [
        ("content-type", "application/json"),
        ("idempotency-key", "j-1"),
        ("traceparent", trace),
        ("user-agent", agent),
        ("webhook-id", "j-1.1"),
        ("webhook-timestamp", "1794700800"),
        ("webhook-signature", &signature(&request)),
        ("x-correlation-id", "c-1"),
    ] {
        assert_eq!(request.header(name), Some(expected), "{name}: {}", request.head);
    }
}

#[tokio::test]
async fn push_sends_unusual_correlation_ids_unchanged() {
    for correlation in ["grün", "a b", "\u{202e}"] {
        let (address, requests) = receiver("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let job_payload = JobPayload { correlation_id: correlation.into(), ..job_payload() };
        done(push_to(address).run(&job_payload, pending()).await);
        assert_eq!(requests.recv().unwrap().header("x-correlation-id"), Some(correlation));
    }
}

#[tokio::test]
async fn the_response_status_decides_the_outcome() {
    for status in [200, 201, 202, 204, 299] {
        done(deliver(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")).await);
    }
    for (status, again) in [
        (408, true),
        (425, true),
        (429, true),
        (500, true),
        (503, true),
        (599, true),
        (300, false),
        (304, false),
        (400, false),
        (401, false),
        (404, false),
        (410, false),
        (422, false),
    ] {
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
        let (failure, retried) = failed(deliver(answer).await);
        assert_eq!(failure.code, format!("HTTP_STATUS_{status}"));
        assert_eq!(retried, again, "{status}");
    }
}

#[tokio::test]
async fn retry_after_of_a_busy_receiver_sets_the_retry_delay() {
    for (header, expected) in [
        ("7", Some(7)),
        ("Sun, 15 Nov 2026 00:01:00 GMT", Some(60)),
        ("9999999", Some(86_400)),
        ("later", None),
    ] {
        let answer =
            format!("HTTP/1.1 503 X\r\nRetry-After: {header}\r\nContent-Length: 0\r\n\r\n");
        let HandlerEnding::Retry { after, .. } = deliver(answer).await.ending else {
            panic!("it is tried again")
        };
        assert_eq!(after, expected.map(Duration::from_secs), "{header}");
    }
}

#[tokio::test]
async fn a_small_answer_in_json_is_the_result() {
    let with = |kind: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    let json = "application/json; charset=utf-8";
    let result = done(deliver(with(json, r#"{"pages": 12}"#)).await);
    assert_eq!(result.as_deref(), Some(r#"{"pages": 12}"#));
    let large = format!("\"{}\"", "x".repeat(4_096));
    for (kind, body) in
        [("text/html", "7"), (json, "no json"), (json, ""), (json, "null"), (json, &large)]
    {
        assert_eq!(done(deliver(with(kind, body)).await), None, "{kind} {body:.20}");
    }
    let broken = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{}";
    let (address, _told) = serve(move |stream| {
        stream.write_all(broken.as_bytes())?;
        Err(std::io::ErrorKind::BrokenPipe.into())
    });
    assert_eq!(done(push_to(address).run(&job_payload(), pending()).await), None);
}

#[tokio::test]
async fn an_endless_answer_is_left() {
    let (address, _told) = serve(|stream| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head)?;
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
        loop {
            stream.write_all(chunk.as_bytes())?;
        }
    });
    assert_eq!(done(push_to(address).run(&job_payload(), pending()).await), None);
    let endless_head = format!("HTTP/1.1 200 OK\r\n{}", "X-Y: z\r\n".repeat(100_000));
    let (failure, again) = failed(deliver(endless_head).await);
    assert_eq!((failure.code.as_str(), again), ("HTTP_UNREACHABLE", true));
}

#[tokio::test]
async fn push_follows_no_redirect() {
    let (elsewhere, other_requests) = receiver("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    for status in [301, 302, 303, 307, 308] {
        let answer = format!(
            "HTTP/1.1 {status} X\r\nLocation: http://{elsewhere}/\r\nContent-Length: 0\r\n\r\n"
        );
        let (failure, again) = failed(deliver(answer).await);
        assert_eq!((failure.code, again), (format!("HTTP_STATUS_{status}"), false));
    }
    assert!(other_requests.try_recv().is_err(), "another server was asked");
}

#[tokio::test]
async fn a_push_to_an_unreachable_server_is_retried() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (failure, again) = failed(push_to(address).run(&job_payload(), pending()).await);
    assert_eq!((failure.code.as_str(), again), ("HTTP_UNREACHABLE", true));
    assert!(failure.message.starts_with("the address could not be reached: "), "{failure:?}");
    assert!(!failure.message.contains(&address.to_string()), "{failure:?}");
    let (failure, again) = failed(deliver("this is no HTTP").await);
    assert_eq!((failure.code.as_str(), again), ("HTTP_UNREACHABLE", true));
}

#[tokio::test]
async fn a_stopped_push_closes_an_unanswered_connection() {
    let (request_received, mut hung_up) =
        (Arc::new(tokio::sync::Notify::new()), tokio::sync::mpsc::channel(1));
    let notify = request_received.clone();
    let (address, _told) = serve(move |stream| {
        notify.notify_one();
        let _closed = stream.read(&mut [0])?;
        let _heard = hung_up.0.blocking_send(());
        Ok(())
    });
    let outcome = push_to(address).run(&job_payload(), request_received.notified()).await;
    assert!(matches!(outcome.ending, HandlerEnding::Stopped), "{outcome:?}");
    hung_up.1.recv().await.expect("the connection is closed");
}

#[tokio::test]
async fn connections_are_used_again() {
    let (address, requests) = receiver("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let push = push_to(address);
    // The receiver serves one connection after the other: a second one would wait in vain.
    for _ in 0..3 {
        done(push.run(&job_payload(), pending()).await);
        requests.recv().unwrap();
    }
}
