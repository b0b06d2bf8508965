//! URLs that lead into the internal network. No server in there may see a connection.

use crate::job_payload::{failed, job_payload};
use outbound::{Allow, Forbidden, Lookup, Push, PushError, Signer, system_lookup};
use std::{
    future::pending,
    io,
    net::{IpAddr, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// An internal server that must not be reached.
struct Secret(TcpListener);

impl Secret {
    fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        Secret(listener)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    fn was_reached(&self) -> bool {
        match self.0.accept() {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                false
            }
        }
    }
}

fn push(url: &str, allow: &[&str], lookup: &Lookup) -> Result<Push, PushError> {
    let allow = Arc::new(Allow::parse(allow).unwrap());
    let signer = Signer::parse(&Signer::write(&[7; 32])).unwrap();
    Push::new(url, &allow, lookup, signer, Arc::new(|| 0))
}

/// A resolver that returns `answers[n]` for the n-th lookup, and the last of them from then on.
fn names(answers: &[&[&str]]) -> (Lookup, Arc<AtomicUsize>) {
    let read = |text: &&str| text.parse::<IpAddr>().unwrap();
    let answers: Vec<Vec<IpAddr>> =
        answers.iter().map(|answer| answer.iter().map(read).collect()).collect();
    let lookup_count = Arc::new(AtomicUsize::new(0));
    let count = lookup_count.clone();
    let lookup: Lookup = Arc::new(move |_name| {
        let number = count.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        let answer = answers[number].clone();
        Box::pin(async move { Ok(answer) })
    });
    (lookup, lookup_count)
}

/// Why the push was refused, at its creation or at its first attempt.
async fn refused(url: &str, allow: &[&str], lookup: &Lookup) -> Option<String> {
    let push = match push(url, allow, lookup) {
        Ok(push) => push,
        Err(error) => return Some(error.to_string()),
    };
    let (failure, again) = failed(push.run(&job_payload(), pending()).await);
    (failure.code == "ADDRESS_FORBIDDEN" && !again).then_some(failure.message)
}

#[tokio::test]
async fn however_this_machine_is_written_it_is_not_reached() {
    let secrets = [Secret::at("127.0.0.1:0"), Secret::at("[::1]:0")];
    let (loopback, _) = names(&[&["127.0.0.1"]]);
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0177.0.0.1",
        "017700000001",
        "0x7f.0.0.1",
        "0x7f000001",
        "0x7F.1",
        "127.0.0.1.",
        "127.0.0.2",
        "127.255.255.254",
        "0.0.0.0",
        "0",
        "１２７.０.０.１",
        "①②⑦.0.0.1",
        "127。0。0。1",
        "%31%32%37.0.0.1",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::1]",
        "[2001:0:7f00:1::]",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "sub.localhost",
        "anything.example",
        "bücher.example",
        "127.0.0.1.nip.example",
        "user@127.0.0.1",
        "user:secret@127.0.0.1",
        "public.example@127.0.0.1",
        "public.example\\@127.0.0.1",
        "127.0.0.1#@public.example",
        "127.0.0.1?@public.example",
    ] {
        for secret in &secrets {
            let port = secret.address().port();
            for scheme in ["https", "http", "HTTPS", "ftp", "gopher"] {
                let url = match host.split_once(['#', '?']) {
                    Some((host, rest)) => format!("{scheme}://{host}:{port}?{rest}/"),
                    None => format!("{scheme}://{host}:{port}/"),
                };
                let error = refused(&url, &[], &loopback).await;
                assert!(error.is_some(), "{url} was tried");
                assert!(!error.unwrap().contains("127"), "{url}: it tells where that is");
            }
        }
        assert!(!secrets.iter().any(Secret::was_reached), "{host} leads here");
    }
}

#[tokio::test]
async fn the_systems_own_names_for_this_machine_are_refused() {
    let secret = Secret::at("127.0.0.1:0");
    for host in ["localhost", "LocalHost"] {
        let url = format!("https://{host}:{}/", secret.address().port());
        assert!(refused(&url, &[], &system_lookup()).await.is_some(), "{url}");
        assert!(!secret.was_reached());
    }
}

#[tokio::test]
async fn networks_of_our_own_are_refused_by_name_and_by_number() {
    for address in [
        "10.0.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.0.192",
        "192.168.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "::ffff:169.254.169.254",
        "2001:db8::1",
    ] {
        let (lookup, _) = names(&[&[address]]);
        let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        for url in [format!("https://{host}/latest/meta-data"), "https://a.example/".to_owned()] {
            let error = refused(&url, &[], &lookup).await.expect(address);
            assert_eq!(error, Forbidden::NotPublic.to_string(), "{url}");
            assert!(error.contains("[outbound] allow"), "it says which setting allows it");
        }
    }
}

#[tokio::test]
async fn one_address_of_our_own_among_public_ones_is_enough() {
    let secret = Secret::at("127.0.0.1:0");
    let url = format!("https://mixed.example:{}/", secret.address().port());
    for answer in [&["8.8.8.8", "127.0.0.1"], &["127.0.0.1", "8.8.8.8"], &["2606:4700::1", "::1"]] {
        let (lookup, _) = names(&[answer]);
        assert!(refused(&url, &[], &lookup).await.is_some(), "{answer:?}");
        assert!(!secret.was_reached(), "{answer:?}");
    }
}

/// 127.0.0.2 is listed, so it stands for a public address; the name changes to 127.0.0.1.
#[tokio::test]
async fn dns_rebinding_never_reaches_a_forbidden_address() {
    let allowed = Secret::at("127.0.0.2:0");
    let port = allowed.address().port();
    let secret = Secret::at(&format!("127.0.0.1:{port}"));
    let (lookup, lookup_count) = names(&[&["127.0.0.2"], &["127.0.0.1"]]);
    let push = push(&format!("https://rebind.example:{port}/"), &["127.0.0.2"], &lookup).unwrap();
    // The server does not speak TLS; only that it was reached counts.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let job = job_payload();
    let first = push.run(&job, async { drop(stopped.await) });
    let reached = async {
        while !allowed.was_reached() {
            tokio::task::yield_now().await;
        }
        stop.send(()).unwrap_or_default();
    };
    tokio::join!(first, reached);
    assert_eq!(
        lookup_count.load(Ordering::SeqCst),
        1,
        "a name is looked up once for each connection"
    );
    let (failure, again) = failed(push.run(&job, pending()).await);
    assert_eq!((failure.code.as_str(), again), ("ADDRESS_FORBIDDEN", false));
    assert_eq!(lookup_count.load(Ordering::SeqCst), 2);
    assert!(!secret.was_reached() && !allowed.was_reached());
}

#[tokio::test]
async fn push_allows_plain_http_only_to_listed_hosts() {
    let (lookup, lookup_count) = names(&[&["127.0.0.1"]]);
    let error =
        |url: &str, allow: &[&str]| push(url, allow, &lookup).err().map(|error| error.to_string());
    let plain = Some(Forbidden::Plain.to_string());
    assert_eq!(error("http://hooks.example/", &[]), plain);
    assert_eq!(error("http://8.8.8.8/", &[]), plain);
    assert_eq!(error("http://hooks.example/", &["127.0.0.1"]), plain);
    assert_eq!(error("http://hooks.example/", &["hooks.example:81"]), plain);
    assert_eq!(error("http://hooks.example/", &["hooks.example:80"]), None);
    assert_eq!(error("http://hooks.example./", &["hooks.example"]), None);
    assert_eq!(error("http://10.1.2.3/", &["10.0.0.0/8"]), None);
    assert_eq!(
        error("http://user@10.1.2.3/", &["10.0.0.0/8"]),
        Some(Forbidden::Credentials.to_string())
    );
    assert_eq!(error("ftp://10.1.2.3/", &["10.0.0.0/8"]), Some(Forbidden::NoUrl.to_string()));
    assert_eq!(lookup_count.load(Ordering::SeqCst), 0, "no resolver was asked for that");
}

#[tokio::test]
async fn a_listed_port_is_the_only_one() {
    let secret = Secret::at("127.0.0.1:0");
    let (lookup, _) = names(&[&["127.0.0.1"]]);
    let url = format!("https://hooks.example:{}/", secret.address().port());
    assert!(refused(&url, &["127.0.0.1:1", "hooks.example:1"], &lookup).await.is_some());
    assert!(!secret.was_reached());
}
