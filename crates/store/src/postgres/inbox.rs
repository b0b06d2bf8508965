//! Jobs that applications submitted with `consign.enqueue` in transactions of their own, and that
//! are not jobs yet.
//!
//! Any node makes jobs of inbox rows soon after their commit: NOTIFY wakes it, and it polls as
//! well. One transaction creates the jobs and deletes the rows, and it skips rows that another
//! transaction has locked. So each row becomes one job, however many nodes there are. A request for
//! one of these jobs promotes its row at once: an answer never lags behind a commit.

use super::{
    Inner,
    batch_plan::BatchPlan,
    error::{Result, TransactionError},
    execute::ATTEMPTS_MAX,
    load,
    pool::PooledConnection,
    sql,
    uuid::{Uuid, from_uuid, id_of, to_uuid, uuids},
    values::{Rows, to_i64},
};
use crate::{
    Notification,
    store::{Answer, Reply, Request, with_causes},
};
use engine::{
    JobDraft, JobId, NewJob, PAYLOAD_BYTES_HARD_MAX, PayloadVersion, Refusal, SubmitContext, Tenant,
};
use std::{error::Error, sync::Arc, time::Duration};
use tokio::time::timeout;
use tokio_postgres::Row;
use tracing::{debug, warn};

/// At most this many rows become jobs in one transaction.
const PROMOTED_MAX: usize = 500;
/// A round ends after this many transactions, and the next begins.
const ROUNDS_MAX: usize = 100;
/// The polling interval of a node: between this and half as long again.
const POLL_EVERY_MS: u64 = 200;

/// Which rows to promote.
#[derive(Clone, Copy)]
enum RowSelection<'a> {
    /// At most this many unlocked rows, the oldest first.
    Next(usize),
    /// These rows, even if another transaction has locked them.
    ByIds(&'a [JobId]),
}

/// An inbox row and the job to make of it.
struct InboxRow {
    id: JobId,
    new: Result<NewJob, Refusal>,
}

/// Promotes inbox rows for as long as the store is open.
pub(super) async fn run(inner: Arc<Inner>) {
    let (mut entropy, mut was_notified) = (inner.notifications.own_token, true);
    loop {
        if let Err(error) = inner.empty_inbox(was_notified).await {
            let error: &dyn Error = &error;
            debug!(error, "the inbox could not be emptied: the next poll tries again");
        }
        // Not the store's random source: polls that find nothing must not change what a seed
        // produces.
        entropy = entropy.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let wait = POLL_EVERY_MS + (entropy >> 33) % (POLL_EVERY_MS / 2);
        let enqueued = inner.notifications.enqueued.notified();
        was_notified = timeout(Duration::from_millis(wait), enqueued).await.is_ok();
    }
}

impl Inner {
    /// Promotes all rows. Without a notification it first checks that there are any.
    async fn empty_inbox(&self, was_notified: bool) -> Result<()> {
        if !was_notified && unlocked_ids(&self.readers.acquire().await?, 1).await?.is_empty() {
            return Ok(());
        }
        for _ in 0..ROUNDS_MAX {
            let promoted = match self.promote(RowSelection::Next(PROMOTED_MAX)).await {
                Err(error) if error.is_about_data() => self.promote_singly().await?,
                other => other?,
            };
            if promoted < PROMOTED_MAX {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Promotes each of the next rows in a transaction of its own: one of them is faulty and must
    /// not block the others.
    async fn promote_singly(&self) -> Result<usize> {
        let ids = unlocked_ids(&self.readers.acquire().await?, PROMOTED_MAX).await?;
        for id in &ids {
            match self.promote(RowSelection::ByIds(&[*id])).await {
                Err(error) if error.is_about_data() => self.set_aside(*id, &error).await?,
                other => drop(other?),
            }
        }
        Ok(ids.len())
    }

    /// Marks a row of which no job can be made, keeps it for the operator, and frees its key.
    async fn set_aside(&self, id: JobId, error: &TransactionError) -> Result<()> {
        let refused = [(id, with_causes(error))];
        let mut db = self.writers.acquire().await?;
        db.in_transaction(async |db| {
            let refusing = refuse(db, &refused);
            tokio::try_join!(biased; db.begin(), refusing, db.script(sql::COMMIT)).map(drop)
        })
        .await
    }

    /// Promotes these rows at once, if they are there.
    pub(super) async fn promote_now(&self, ids: &[JobId]) -> Result<()> {
        self.promote(RowSelection::ByIds(ids)).await.map(drop)
    }

    /// Makes jobs of rows, and returns how many rows it handled.
    async fn promote(&self, selection: RowSelection<'_>) -> Result<usize> {
        let mut pessimistic = false;
        for attempt in 1..=ATTEMPTS_MAX {
            match self.try_promote(selection, pessimistic).await {
                Ok(promoted) => return Ok(promoted),
                Err(error) => self.recover(error, attempt, &mut pessimistic).await?,
            }
        }
        Err(TransactionError::Contended(None))
    }

    async fn try_promote(&self, selection: RowSelection<'_>, pessimistic: bool) -> Result<usize> {
        let mut db = self.writers.acquire().await?;
        db.in_transaction(async |db| {
            let ((), rows) = tokio::try_join!(biased; db.begin(), lock_rows(db, selection))?;
            if rows.is_empty() {
                return db.script(sql::COMMIT).await.map(|()| 0);
            }
            let inbox_rows =
                rows.iter().map(|row| self.inbox_row(row)).collect::<Result<Vec<_>, _>>()?;
            let valid = inbox_rows.iter().filter_map(|inbox_row| inbox_row.new.as_ref().ok());
            let batch: Vec<_> = valid.map(|new| Request::Submit(vec![new.clone()])).collect();
            let plan = BatchPlan { from_inbox: true, ..BatchPlan::of(&batch, pessimistic) };
            let settings = self.make_queues(&mut self.readers.acquire().await?, &plan).await?;
            let uncommitted = self.decide_batch(db, &plan, settings).await?;
            let (promoted, refused) = partition(&inbox_rows, &uncommitted.replies);
            let ids = uuids(&promoted);
            tokio::try_join!(
                biased;
                refuse(db, &refused),
                db.run_about(sql::INBOX_DELETE, &ids),
            )?;
            self.commit(db, uncommitted, &Notification::default()).await?;
            self.notify_of(&inbox_rows, &promoted);
            Ok(inbox_rows.len())
        })
        .await
    }

    /// Checks a row as the HTTP API checks a draft.
    fn inbox_row(&self, row: &Row) -> Result<InboxRow> {
        let id = id_of(row, 0)?;
        let tenant = Tenant::parse(row.try_get(1)?);
        let draft = draft(row)?;
        let context = |tenant| SubmitContext {
            id,
            tenant,
            entropy: self.random.entropy(),
            payload_bytes_max: PAYLOAD_BYTES_HARD_MAX,
        };
        let new = tenant.map_err(Refusal::from).and_then(|tenant| draft.check(context(tenant)));
        Ok(InboxRow { id, new })
    }

    /// Wakes claims and watches that wait, on this node and on others.
    fn notify_of(&self, inbox_rows: &[InboxRow], promoted: &[JobId]) {
        let new = inbox_rows.iter().filter(|inbox_row| promoted.contains(&inbox_row.id));
        let work =
            new.filter_map(|inbox_row| inbox_row.new.as_ref().ok()).map(|new| new.job_type.clone());
        let notification = Notification {
            work: work.collect(),
            any_work: false,
            touched: !promoted.is_empty(),
            ..Notification::default()
        };
        self.notifications.incoming.put(notification.clone());
        self.notifications.outgoing.put(notification);
    }
}

/// Fails if one of these jobs, which the caller did not find, is in the inbox or has just been
/// promoted. The caller then repeats its transaction, and finds the job.
pub(super) async fn expect_none(db: &PooledConnection, ids: &[JobId]) -> Result<()> {
    let mut found = ids_in_inbox(db, ids).await?;
    found.extend(load::read(db, ids).await?.into_keys());
    if found.is_empty() { Ok(()) } else { Err(TransactionError::InInbox(found)) }
}

/// Which of these ids are rows of the inbox.
pub(super) async fn ids_in_inbox(db: &PooledConnection, ids: &[JobId]) -> Result<Vec<JobId>> {
    let rows = db.rows_about(sql::INBOX_IDS_OF, &uuids(ids)).await?;
    rows.iter().map(|row| Ok(id_of(row, 0)?)).collect()
}

async fn unlocked_ids(db: &PooledConnection, limit: usize) -> Result<Vec<JobId>> {
    let rows = db.rows(sql::INBOX_PEEK, &[&to_i64(limit)]).await?;
    rows.iter().map(|row| Ok(id_of(row, 0)?)).collect()
}

async fn lock_rows(db: &PooledConnection, selection: RowSelection<'_>) -> Result<Vec<Row>> {
    match selection {
        RowSelection::Next(limit) => db.rows(sql::INBOX_NEXT, &[&to_i64(limit)]).await,
        RowSelection::ByIds(ids) => db.rows_about(sql::INBOX_LOCK, &uuids(ids)).await,
    }
}

fn draft(row: &Row) -> Result<JobDraft> {
    let number = |column: usize| -> Result<Option<i64>> {
        Ok(row.try_get::<_, Option<i32>>(column)?.map(i64::from))
    };
    let version: Option<String> = row.try_get(7)?;
    let parent: Option<Uuid> = row.try_get(12)?;
    Ok(JobDraft {
        job_type: row.try_get(2)?,
        subject_id: row.try_get(3)?,
        correlation_id: row.try_get(4)?,
        idempotency_key: row.try_get(5)?,
        payload: row.try_get(6)?,
        payload_version: version.map(payload_version),
        priority: number(8)?,
        // Always absolute times: `consign.enqueue` checked them when it wrote the row.
        run_at: row.try_get(9)?,
        delay_seconds: None,
        expires_at: row.try_get(10)?,
        max_attempts: number(11)?,
        parent_id: parent.map(|parent| from_uuid(parent).to_string()),
        traceparent: row.try_get(13)?,
        on_ended: None,
    })
}

/// A version of digits only is a number: the text column does not keep the type.
fn payload_version(text: String) -> PayloadVersion {
    match text.parse::<u32>() {
        Ok(number) if number.to_string() == text => PayloadVersion::Number(number),
        Ok(_) | Err(_) => PayloadVersion::Text(text.into()),
    }
}

/// The rows that became jobs, and those that cannot, each with the reason. The replies belong to
/// the valid rows only.
fn partition(inbox_rows: &[InboxRow], replies: &[Reply]) -> (Vec<JobId>, Vec<(JobId, String)>) {
    let (mut promoted, mut refused) = (Vec::new(), Vec::new());
    let mut replies = replies.iter();
    for inbox_row in inbox_rows {
        let reason = match inbox_row.new.as_ref().map(|_| replies.next()) {
            Ok(Some(Ok(Answer::Submitted(all))))
                if all.iter().all(|job| job.job_id == inbox_row.id) =>
            {
                promoted.push(inbox_row.id);
                continue;
            }
            Err(refusal) | Ok(Some(Err(refusal))) => refusal.to_string(),
            Ok(Some(Ok(_)) | None) => "its key belongs to another job".into(),
        };
        refused.push((inbox_row.id, reason));
    }
    (promoted, refused)
}

async fn refuse(db: &PooledConnection, refused: &[(JobId, String)]) -> Result<()> {
    for (id, reason) in refused {
        warn!(job.id = %id, reason, "an inbox row cannot become a job; see its column refused");
    }
    let ids = uuids(refused.iter().map(|(id, _)| id));
    let rows: Rows<_> =
        refused.iter().map(|(id, reason)| (to_uuid(*id), reason.as_str())).collect();
    tokio::try_join!(
        biased; db.run_about(sql::INBOX_KEYS_DROP, &ids), db.put(sql::INBOX_REFUSE, &rows)
    )
    .map(drop)
}
