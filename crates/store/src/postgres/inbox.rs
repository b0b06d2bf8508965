//! What came in by `consign.enqueue`, in somebody else's transaction, and is not a job yet.
//!
//! Any node makes jobs of the rows of the inbox, soon after their commit: it is told by NOTIFY, and looks by itself
//! now and then. The jobs and the end of their rows are one transaction, and a row that somebody has in hand is
//! passed by, so each becomes one job however many nodes there are. Whoever asks for one of these jobs before that has it
//! taken in at once: an answer never lags behind a commit.

use super::{
    Inner,
    batch_plan::BatchPlan,
    error::TransactionError,
    execute::ATTEMPTS_MAX,
    load,
    pool::PooledConnection,
    sql,
    uuid::{Uuid, from_uuid, id_of, to_uuid, uuids},
    values::{Rows, to_i64},
};
use crate::{
    Notification,
    store::{Answer, Reply, Request},
};
use engine::{
    JobDraft, JobId, NewJob, PAYLOAD_BYTES_HARD_MAX, PayloadVersion, Refusal, SubmitContext, Tenant,
};
use std::{error::Error, iter::successors, sync::Arc, time::Duration};
use tokio::time::timeout;
use tokio_postgres::Row;
use tracing::{debug, warn};

/// So many rows become jobs in one transaction.
const TAKEN_MAX: usize = 500;
/// A round ends after so many of those, and the next begins.
const ROUNDS_MAX: usize = 100;
/// How often a node looks by itself: between this and half as long again.
const LOOK_EVERY_MS: u64 = 200;

/// Which rows are to be taken in.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// So many, the oldest first, of those that nobody has in hand.
    Next(usize),
    /// These, whoever has them in hand.
    These(&'a [JobId]),
}

/// A row that somebody is to make a job of.
struct InboxRow {
    id: JobId,
    new: Result<NewJob, Refusal>,
}

/// Takes in what comes, for as long as the store is there.
pub(super) async fn run(inner: Arc<Inner>) {
    let (mut entropy, mut told) = (inner.post.own, true);
    loop {
        if let Err(trouble) = inner.empty_inbox(told).await {
            let error: &dyn Error = &trouble;
            debug!(error, "what was enqueued by SQL could not be taken in");
        }
        // Not the store's dice: looks that find nothing must not change what a seed brings.
        entropy = entropy.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let wait = LOOK_EVERY_MS + (entropy >> 33) % (LOOK_EVERY_MS / 2);
        let enqueued = inner.post.enqueued.notified();
        told = timeout(Duration::from_millis(wait), enqueued).await.is_ok();
    }
}

impl Inner {
    /// Takes in what is there. Who was not told that there is something looks first.
    async fn empty_inbox(&self, told: bool) -> Result<(), TransactionError> {
        if !told && peek(&self.readers.lend().await?, 1).await?.is_empty() {
            return Ok(());
        }
        for _ in 0..ROUNDS_MAX {
            let taken = match self.take_in(Wanted::Next(TAKEN_MAX)).await {
                Err(trouble) if trouble.is_about_data() => self.take_in_singly().await?,
                other => other?,
            };
            if taken < TAKEN_MAX {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Something is wrong with one of the next rows: each for itself, so that it does not keep the others out.
    async fn take_in_singly(&self) -> Result<usize, TransactionError> {
        let ids = peek(&self.readers.lend().await?, TAKEN_MAX).await?;
        for id in &ids {
            match self.take_in(Wanted::These(&[*id])).await {
                Err(trouble) if trouble.is_about_data() => self.set_aside(*id, &trouble).await?,
                other => drop(other?),
            }
        }
        Ok(ids.len())
    }

    /// Keeps a row of which no job can be made, to be seen, and frees its key.
    async fn set_aside(&self, id: JobId, why: &TransactionError) -> Result<(), TransactionError> {
        let refused = [(id, with_causes(why))];
        let mut db = self.writers.lend().await?;
        db.within(async |db| {
            let refusing = refuse(db, &refused);
            tokio::try_join!(biased; db.begin(), refusing, db.script(sql::COMMIT)).map(drop)
        })
        .await
    }

    /// Takes these in at once, if they are there.
    pub(super) async fn let_in(&self, ids: &[JobId]) -> Result<(), TransactionError> {
        self.take_in(Wanted::These(ids)).await.map(drop)
    }

    /// Makes jobs of rows, and says of how many.
    async fn take_in(&self, wanted: Wanted<'_>) -> Result<usize, TransactionError> {
        let mut pessimistic = false;
        for attempt in 1..=ATTEMPTS_MAX {
            match self.try_take_in(wanted, pessimistic).await {
                Ok(taken) => return Ok(taken),
                Err(trouble) => self.recover(trouble, attempt, &mut pessimistic).await?,
            }
        }
        Err(TransactionError::Contended(None))
    }

    async fn try_take_in(
        &self,
        wanted: Wanted<'_>,
        pessimistic: bool,
    ) -> Result<usize, TransactionError> {
        let mut db = self.writers.lend().await?;
        db.within(async |db| {
            let ((), rows) = tokio::try_join!(biased; db.begin(), take(db, wanted))?;
            if rows.is_empty() {
                return db.script(sql::COMMIT).await.map(|()| 0);
            }
            let slips = rows.iter().map(|row| self.slip(row)).collect::<Result<Vec<_>, _>>()?;
            let lawful = slips.iter().filter_map(|slip| slip.new.as_ref().ok());
            let batch: Vec<_> = lawful.map(|new| Request::Submit(vec![new.clone()])).collect();
            let plan = BatchPlan { from_inbox: true, ..BatchPlan::of(&batch, pessimistic) };
            let known = self.make_queues(&mut self.readers.lend().await?, &plan).await?;
            let ready = self.transaction(db, &plan, known).await?;
            let (taken, refused) = sorted(&slips, &ready.replies);
            let ids = uuids(&taken);
            tokio::try_join!(
                biased;
                refuse(db, &refused),
                db.run_about(sql::INBOX_DELETE, &ids),
            )?;
            self.commit(db, ready, &Notification::default()).await?;
            self.tell_of(&slips, &taken);
            Ok(slips.len())
        })
        .await
    }

    /// Checks a row as the door checks a draft.
    fn slip(&self, row: &Row) -> Result<InboxRow, TransactionError> {
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

    /// Wakes those who wait for work or watch, here and elsewhere.
    fn tell_of(&self, slips: &[InboxRow], taken: &[JobId]) {
        let new = slips.iter().filter(|slip| taken.contains(&slip.id));
        let work = new.filter_map(|slip| slip.new.as_ref().ok()).map(|new| new.job_type.clone());
        let notification = Notification {
            work: work.collect(),
            any_work: false,
            touched: !taken.is_empty(),
            ..Notification::default()
        };
        self.post.inbox.put(notification.clone());
        self.post.out.put(notification);
    }
}

/// Fails where one of these jobs is in the inbox, or has just come out of it: whoever did not find it is to look again
/// when it is a job.
pub(super) async fn expect_none(
    db: &PooledConnection,
    ids: &[JobId],
) -> Result<(), TransactionError> {
    let mut coming = waiting(db, ids).await?;
    coming.extend(load::read(db, ids).await?.into_keys());
    if coming.is_empty() { Ok(()) } else { Err(TransactionError::InInbox(coming)) }
}

/// Those of these that are in the inbox.
pub(super) async fn waiting(
    db: &PooledConnection,
    ids: &[JobId],
) -> Result<Vec<JobId>, TransactionError> {
    let rows = db.rows_about(sql::INBOX_AMONG, &uuids(ids)).await?;
    rows.iter().map(|row| Ok(id_of(row, 0)?)).collect()
}

async fn peek(db: &PooledConnection, limit: usize) -> Result<Vec<JobId>, TransactionError> {
    let rows = db.rows(sql::INBOX_PEEK, &[&to_i64(limit)]).await?;
    rows.iter().map(|row| Ok(id_of(row, 0)?)).collect()
}

async fn take(db: &PooledConnection, wanted: Wanted<'_>) -> Result<Vec<Row>, TransactionError> {
    match wanted {
        Wanted::Next(limit) => db.rows(sql::INBOX_NEXT, &[&to_i64(limit)]).await,
        Wanted::These(ids) => db.rows_about(sql::INBOX_THESE, &uuids(ids)).await,
    }
}

fn draft(row: &Row) -> Result<JobDraft, TransactionError> {
    let number = |column: usize| -> Result<Option<i64>, TransactionError> {
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
        // Always a moment: it was settled when the row was written that it may start then and expires later.
        run_at: row.try_get(9)?,
        delay_seconds: None,
        expires_at: row.try_get(10)?,
        max_attempts: number(11)?,
        parent_id: parent.map(|parent| from_uuid(parent).to_string()),
        traceparent: row.try_get(13)?,
    })
}

/// Digits are a number, which a column of text cannot tell; all else is a text.
fn payload_version(text: String) -> PayloadVersion {
    match text.parse::<u32>() {
        Ok(number) if number.to_string() == text => PayloadVersion::Number(number),
        Ok(_) | Err(_) => PayloadVersion::Text(text.into()),
    }
}

/// The rows that are jobs now, and those that cannot be, each with the reason. Replies are those to the lawful ones.
fn sorted(slips: &[InboxRow], replies: &[Reply]) -> (Vec<JobId>, Vec<(JobId, String)>) {
    let (mut taken, mut refused) = (Vec::new(), Vec::new());
    let mut replies = replies.iter();
    for slip in slips {
        let reason = match slip.new.as_ref().map(|_| replies.next()) {
            Ok(Some(Ok(Answer::Submitted(all)))) if all.iter().all(|job| job.job_id == slip.id) => {
                taken.push(slip.id);
                continue;
            }
            Err(refusal) | Ok(Some(Err(refusal))) => refusal.to_string(),
            Ok(Some(Ok(_)) | None) => "its key means another job".into(),
        };
        refused.push((slip.id, reason));
    }
    (taken, refused)
}

/// What went wrong, and why, and why that.
fn with_causes(trouble: &TransactionError) -> String {
    let causes = successors(trouble.source(), |&cause| cause.source());
    causes.fold(trouble.to_string(), |text, cause| format!("{text}: {cause}"))
}

async fn refuse(
    db: &PooledConnection,
    refused: &[(JobId, String)],
) -> Result<(), TransactionError> {
    for (id, reason) in refused {
        warn!(job.id = %id, reason, "a job that was enqueued by SQL could not be taken in");
    }
    let ids = uuids(refused.iter().map(|(id, _)| id));
    let rows: Rows<_> =
        refused.iter().map(|(id, reason)| (to_uuid(*id), reason.as_str())).collect();
    tokio::try_join!(
        biased; db.run_about(sql::INBOX_KEYS_DROP, &ids), db.put(sql::INBOX_REFUSE, &rows)
    )
    .map(drop)
}
