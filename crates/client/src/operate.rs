//! What operators ask: queues, poison, workers, types, keys, the audit log.

use crate::{Client, ClientError, send::unconfirmed_nodes};
use reqwest::Method;
use serde::de::DeserializeOwned;
use wire::{
    AuditShape, BulkAnswer, KeyCreated, KeyRequest, KeyShape, NodeShape, Page, PoisonAnswer,
    PoisonRequest, PolicyShape, QueueShape, TypeShape, WorkerShape,
};

/// The most that a page holds.
const PAGE_MAX: u32 = 1_000;
/// A list that goes on for longer does not end, and its rest is left to be asked for.
const PAGES_MAX: usize = 1_000;

/// Which poisoned jobs a page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoisonQuery {
    /// Only of this type.
    pub job_type: Option<String>,
    /// Only with this code.
    pub error_code: Option<String>,
    /// How many at most.
    pub top: Option<u32>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

impl Client {
    /// Every queue.
    pub async fn queues(&self) -> Result<Page<QueueShape>, ClientError> {
        self.every_page(&["api", "queues"]).await
    }

    /// One queue.
    pub async fn queue(&self, job_type: &str) -> Result<QueueShape, ClientError> {
        self.get(&["api", "queues", job_type]).await
    }

    /// Lets no more jobs of a type start.
    pub async fn pause(&self, job_type: &str) -> Result<QueueShape, ClientError> {
        self.read(self.request(Method::POST, &["api", "queues", job_type, "pause"])).await
    }

    /// Lets jobs of a type start again.
    pub async fn resume(&self, job_type: &str) -> Result<QueueShape, ClientError> {
        self.read(self.request(Method::POST, &["api", "queues", job_type, "resume"])).await
    }

    /// A page of the poison queue, with counts by code.
    pub async fn poison(&self, query: &PoisonQuery) -> Result<PoisonAnswer, ClientError> {
        let mut said = Vec::new();
        said.extend(query.job_type.iter().map(|name| ("jobType", name.clone())));
        said.extend(query.error_code.iter().map(|code| ("errorCode", code.clone())));
        said.extend(query.top.iter().map(|top| ("top", top.to_string())));
        said.extend(query.cursor.iter().map(|cursor| ("cursor", cursor.clone())));
        self.read(self.request(Method::GET, &["api", "poison"]).query(&said)).await
    }

    /// Gives poisoned jobs another life.
    pub async fn redrive_poison(&self, which: &PoisonRequest) -> Result<BulkAnswer, ClientError> {
        self.post(&["api", "poison", "redrive"], which).await
    }

    /// Takes poisoned jobs out of their queue for good.
    pub async fn discard_poison(&self, which: &PoisonRequest) -> Result<BulkAnswer, ClientError> {
        self.post(&["api", "poison", "discard"], which).await
    }

    /// Who takes jobs.
    pub async fn workers(&self) -> Result<Page<WorkerShape>, ClientError> {
        self.every_page(&["api", "workers"]).await
    }

    /// The processes that serve.
    pub async fn nodes(&self) -> Result<Page<NodeShape>, ClientError> {
        self.get(&["api", "nodes"]).await
    }

    /// Every type, with its policy.
    pub async fn types(&self) -> Result<Page<TypeShape>, ClientError> {
        self.every_page(&["api", "types"]).await
    }

    /// Sets the whole policy of a type.
    pub async fn set_type(
        &self,
        job_type: &str,
        policy: &PolicyShape,
    ) -> Result<TypeShape, ClientError> {
        self.put(&["api", "types", job_type], policy).await
    }

    /// Makes a key; this is the only time that it is shown.
    pub async fn create_key(&self, key: &KeyRequest) -> Result<KeyCreated, ClientError> {
        self.post(&["api", "keys"], key).await
    }

    /// Every key, without its secret.
    pub async fn keys(&self) -> Result<Page<KeyShape>, ClientError> {
        self.every_page(&["api", "keys"]).await
    }

    /// Ends a key, and gives the number of nodes that have not confirmed it.
    pub async fn revoke_key(&self, id: &str) -> Result<u64, ClientError> {
        let response = self.send(self.request(Method::DELETE, &["api", "keys", id])).await?;
        Ok(unconfirmed_nodes(response.headers()))
    }

    /// The same for a key and every key that was made with it.
    pub async fn revoke_key_and_descendants(&self, id: &str) -> Result<u64, ClientError> {
        let request = self.request(Method::DELETE, &["api", "keys", id]);
        let response = self.send(request.query(&[("descendants", "true")])).await?;
        Ok(unconfirmed_nodes(response.headers()))
    }

    /// A page of what operators did, newest first.
    pub async fn audit(
        &self,
        top: Option<u32>,
        cursor: Option<&str>,
    ) -> Result<Page<AuditShape>, ClientError> {
        let mut said = Vec::new();
        said.extend(top.map(|top| ("top", top.to_string())));
        said.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
        self.read(self.request(Method::GET, &["api", "audit"]).query(&said)).await
    }

    /// All pages of a list, as one: for lists that are bounded, and read as a whole.
    pub(crate) async fn every_page<T: DeserializeOwned>(
        &self,
        path: &[&str],
    ) -> Result<Page<T>, ClientError> {
        let mut all = Page { items: Vec::new(), next_cursor: None };
        for _ in 0..PAGES_MAX {
            let mut said = vec![("top", PAGE_MAX.to_string())];
            said.extend(all.next_cursor.take().map(|cursor| ("cursor", cursor)));
            let page: Page<T> = self.read(self.request(Method::GET, path).query(&said)).await?;
            all.items.extend(page.items);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() {
                break;
            }
        }
        Ok(all)
    }

    /// Whether the server can take jobs.
    pub async fn ready(&self) -> Result<(), ClientError> {
        self.send(self.request(Method::GET, &["readyz"])).await.map(drop)
    }
}
