//! Requests of operators: queues, poison, workers, types, keys, the audit log.

use crate::{
    BulkPage, Client, ClientError,
    send::{json, unconfirmed_nodes},
};
use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};
use wire::{
    AuditLogEntry, BulkAnswer, BulkRequest, KeyCreated, KeyInfo, KeyRequest, NodeStatus, Page,
    PauseRequest, PoisonAnswer, QueueStatus, ResumeRequest, Rfc3339, TypePolicy, TypeWithPolicy,
    WorkerStatus,
};

/// The most entries of a page.
pub(crate) const PAGE_MAX: u32 = 1_000;
/// More pages than this are not read: such a list may never end.
const PAGES_MAX: usize = 1_000;

/// Which poisoned jobs a page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoisonQuery {
    /// Only of this type.
    pub job_type: Option<String>,
    /// Only of this tenant.
    pub tenant: Option<String>,
    /// Only with this code.
    pub error_code: Option<String>,
    /// How many jobs at most.
    pub top: Option<u32>,
    /// The cursor of the previous page.
    pub cursor: Option<String>,
}

/// Which entries of the audit log a page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditQuery {
    /// Only what this principal did, or the key of this name; `*` stands for any text.
    pub actor: Option<String>,
    /// Only this action; `*` stands for any text.
    pub action: Option<String>,
    /// Not before this time.
    pub from: Option<Rfc3339>,
    /// Before this time.
    pub to: Option<Rfc3339>,
    /// Only of this tenant.
    pub tenant: Option<String>,
    /// How many entries at most.
    pub top: Option<u32>,
    /// The cursor of the previous page.
    pub cursor: Option<String>,
}

/// A page of a list that is read from beginning to end.
#[derive(Serialize)]
pub(crate) struct PageQuery<'a> {
    pub(crate) tenant: Option<&'a str>,
    pub(crate) top: Option<u32>,
    pub(crate) cursor: Option<&'a str>,
}

/// Restricts a request to one tenant.
#[derive(Serialize)]
struct TenantQuery<'a> {
    tenant: Option<&'a str>,
}

impl Client {
    /// Every queue, of one tenant or of all that the caller sees.
    pub async fn queues(&self, tenant: Option<&str>) -> Result<Page<QueueStatus>, ClientError> {
        self.every_page(&["api", "queues"], tenant).await
    }

    /// One queue, of one tenant or of all that the caller sees.
    pub async fn queue(
        &self,
        job_type: &str,
        tenant: Option<&str>,
    ) -> Result<QueueStatus, ClientError> {
        let request = self.request(Method::GET, &["api", "queues", job_type]);
        self.read(request.query(&TenantQuery { tenant })).await
    }

    /// Pauses a queue: no more jobs of the type start.
    pub async fn pause(
        &self,
        job_type: &str,
        pause: &PauseRequest,
    ) -> Result<QueueStatus, ClientError> {
        self.post(&["api", "queues", job_type, "pause"], pause).await
    }

    /// Resumes a queue: jobs of the type start again.
    pub async fn resume(
        &self,
        job_type: &str,
        resume: &ResumeRequest,
    ) -> Result<QueueStatus, ClientError> {
        self.post(&["api", "queues", job_type, "resume"], resume).await
    }

    /// A page of the poison queue, with counts by code.
    pub async fn poison(&self, query: &PoisonQuery) -> Result<PoisonAnswer, ClientError> {
        self.read(self.request(Method::GET, &["api", "poison"]).query(query)).await
    }

    /// Gives poisoned jobs another life.
    pub async fn redrive_poison(
        &self,
        which: &BulkRequest,
        page: &BulkPage,
    ) -> Result<BulkAnswer, ClientError> {
        self.bulk(&["api", "poison", "redrive"], which, page).await
    }

    /// Removes poisoned jobs from the poison queue for good.
    pub async fn discard_poison(
        &self,
        which: &BulkRequest,
        page: &BulkPage,
    ) -> Result<BulkAnswer, ClientError> {
        self.bulk(&["api", "poison", "discard"], which, page).await
    }

    /// All workers, of one tenant or of all that the caller sees.
    pub async fn workers(&self, tenant: Option<&str>) -> Result<Page<WorkerStatus>, ClientError> {
        self.every_page(&["api", "workers"], tenant).await
    }

    /// All nodes.
    pub async fn nodes(&self) -> Result<Page<NodeStatus>, ClientError> {
        self.get(&["api", "nodes"]).await
    }

    /// Every type, with its policy.
    pub async fn types(&self) -> Result<Page<TypeWithPolicy>, ClientError> {
        self.every_page(&["api", "types"], None).await
    }

    /// Sets the whole policy of a type.
    pub async fn set_type(
        &self,
        job_type: &str,
        policy: &TypePolicy,
    ) -> Result<TypeWithPolicy, ClientError> {
        self.read(json(self.request(Method::PUT, &["api", "types", job_type]), policy)).await
    }

    /// Makes a key. Only this answer contains it.
    pub async fn create_key(&self, key: &KeyRequest) -> Result<KeyCreated, ClientError> {
        self.post(&["api", "keys"], key).await
    }

    /// Every key, without its secret.
    pub async fn keys(&self) -> Result<Page<KeyInfo>, ClientError> {
        self.every_page(&["api", "keys"], None).await
    }

    /// Revokes a key, and returns the number of nodes that have not confirmed it.
    pub async fn revoke_key(&self, id: &str) -> Result<u64, ClientError> {
        let response = self.send(self.request(Method::DELETE, &["api", "keys", id])).await?;
        Ok(unconfirmed_nodes(response.headers()))
    }

    /// Revokes a key and every key made with it, and returns the number of nodes that have not
    /// confirmed it.
    pub async fn revoke_key_and_descendants(&self, id: &str) -> Result<u64, ClientError> {
        let request = self.request(Method::DELETE, &["api", "keys", id]);
        let response = self.send(request.query(&[("descendants", "true")])).await?;
        Ok(unconfirmed_nodes(response.headers()))
    }

    /// A page of the audit log, newest first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditLogEntry>, ClientError> {
        self.read(self.request(Method::GET, &["api", "audit"]).query(query)).await
    }

    /// All pages of a list as one, for lists that are bounded.
    pub(crate) async fn every_page<T: DeserializeOwned>(
        &self,
        path: &[&str],
        tenant: Option<&str>,
    ) -> Result<Page<T>, ClientError> {
        let mut all = Page { items: Vec::new(), next_cursor: None };
        for _ in 0..PAGES_MAX {
            let cursor = all.next_cursor.as_deref();
            let query = PageQuery { tenant, top: Some(PAGE_MAX), cursor };
            let page: Page<T> = self.read(self.request(Method::GET, path).query(&query)).await?;
            all.items.extend(page.items);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() {
                break;
            }
        }
        Ok(all)
    }

    /// Whether the server can accept jobs.
    pub async fn ready(&self) -> Result<(), ClientError> {
        self.send(self.request(Method::GET, &["readyz"])).await.map(drop)
    }
}
