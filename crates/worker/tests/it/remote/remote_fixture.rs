//! A server with its store in memory, and a proxied connection to it.

use super::proxy::Proxy;
use crate::fixture::Fixture;
use client::Client;
use engine::{CorrelationId, Grant, KeyDraft, KeyName, Principal, Right, Scope};
use platform::{SystemClock, SystemRandom};
use server::{Server, Settings};
use std::{net::TcpListener, sync::Arc};
use wire::Secret;
use worker::Runner;

pub(crate) struct RemoteFixture {
    pub(crate) fixture: Fixture,
    pub(crate) proxy: Proxy,
    pub(crate) server: Server,
    key: Secret,
}

impl RemoteFixture {
    pub(crate) async fn open() -> Self {
        let fixture = Fixture::open();
        let key = key(&fixture).await;
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let settings = Settings::default();
        let node = fixture.node.clone();
        let server = Server::start(node, clock, random, settings, listener, None).await.unwrap();
        let proxy = Proxy::to(server.address()).await;
        RemoteFixture { fixture, proxy, server, key }
    }

    /// A client that goes through the proxy.
    pub(crate) fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.proxy.address), Some(&self.key)).unwrap()
    }

    pub(crate) fn runner(&self) -> Runner {
        Runner::remote(&self.client())
    }

    /// Another runner, which does not go through the proxy.
    pub(crate) fn other_runner(&self) -> Runner {
        let address = format!("http://{}", self.server.address());
        Runner::remote(&Client::new(&address, Some(&self.key)).unwrap())
    }
}

async fn key(fixture: &Fixture) -> Secret {
    let grant = Grant {
        scope: Scope::All,
        rights: [Right::Admin].into_iter().collect(),
        types: Vec::new(),
        subjects: Vec::new(),
    };
    let by = Principal { who: "test".into(), name: None, grant: grant.clone(), expires_at: None };
    let draft = KeyDraft { name: KeyName::parse("test").unwrap(), grant, expires_at: None };
    let correlation = CorrelationId::parse("test").unwrap();
    let (_, secret) = fixture.node.create_key(&by, correlation, draft).await.unwrap();
    Secret::new(secret.expose())
}
