//! What operators ask: queues, poison, workers, types, keys, the audit log.

use crate::{Client, ClientError};
use reqwest::Method;
use wire::{
    AuditShape, BulkAnswer, KeyCreated, KeyRequest, KeyShape, NodeShape, Page, PoisonAnswer,
    PoisonRequest, PolicyShape, QueueShape, TypeShape, WorkerShape,
};

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
        self.get(&["api", "queues"]).await
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
        self.get(&["api", "workers"]).await
    }

    /// The processes that serve.
    pub async fn nodes(&self) -> Result<Page<NodeShape>, ClientError> {
        self.get(&["api", "nodes"]).await
    }

    /// Every type, with its policy.
    pub async fn types(&self) -> Result<Page<TypeShape>, ClientError> {
        self.get(&["api", "types"]).await
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
        self.get(&["api", "keys"]).await
    }

    /// Ends a key.
    pub async fn revoke_key(&self, id: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &["api", "keys", id])).await.map(drop)
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

    /// Whether the server can take jobs.
    pub async fn ready(&self) -> Result<(), ClientError> {
        self.send(self.request(Method::GET, &["readyz"])).await.map(drop)
    }
}
