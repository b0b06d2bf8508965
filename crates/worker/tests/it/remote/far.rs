//! A server with its store in memory, and a line to it.

use super::line::Line;
use crate::shop::Shop;
use client::Client;
use engine::{CorrelationId, Grant, KeyDraft, KeyName, Principal, Right, Scope};
use platform::{SystemClock, SystemRandom};
use server::{Server, Settings};
use std::{net::TcpListener, sync::Arc};
use wire::Secret;
use worker::Runner;

pub(crate) struct Far {
    pub(crate) shop: Shop,
    pub(crate) line: Line,
    pub(crate) server: Server,
    key: Secret,
}

impl Far {
    pub(crate) async fn open() -> Self {
        let shop = Shop::open();
        let key = key(&shop).await;
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let settings = Settings::default();
        let node = shop.node.clone();
        let server = Server::start(node, clock, random, settings, listener, None).await.unwrap();
        let line = Line::to(server.address()).await;
        Far { shop, line, server, key }
    }

    /// A client by way of the line.
    pub(crate) fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.line.address), Some(&self.key)).unwrap()
    }

    pub(crate) fn runner(&self) -> Runner {
        Runner::remote(&self.client())
    }

    /// Another runner, which does not use the line.
    pub(crate) fn other_runner(&self) -> Runner {
        let address = format!("http://{}", self.server.address());
        Runner::remote(&Client::new(&address, Some(&self.key)).unwrap())
    }
}

async fn key(shop: &Shop) -> Secret {
    let grant = Grant {
        scope: Scope::All,
        rights: [Right::Admin].into_iter().collect(),
        types: Vec::new(),
        subjects: Vec::new(),
    };
    let by = Principal { who: "test".into(), grant: grant.clone(), expires_at: None };
    let draft = KeyDraft { name: KeyName::parse("test").unwrap(), grant, expires_at: None };
    let correlation = CorrelationId::parse("test").unwrap();
    let (_, secret) = shop.node.create_key(&by, correlation, draft).await.unwrap();
    Secret::new(secret.expose())
}
