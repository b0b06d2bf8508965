//! Removes jobs with all that belongs to them. Their events stay, without the jobs' data.

use super::{error::Result, load::history_rows, pool::PooledConnection, sql};
use crate::codec::{
    body::{event_from_row, event_to_row, to_row},
    outbox_page::{OutboxEntry, OutboxPages, entries},
    stored::Stored,
};
use engine::Envelope;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Erases jobs that have ended.
pub(super) async fn erase(db: &PooledConnection, erased: &[Arc<Stored>]) -> Result<()> {
    if erased.is_empty() {
        return Ok(());
    }
    redact(db, erased).await?;
    let numbers: Vec<i64> = erased.iter().map(|stored| stored.no).collect();
    tokio::try_join!(
        biased;
        db.run_about(sql::JOB_DELETE, &numbers),
        db.run_about(sql::ENDED_DELETE, &numbers),
        db.run_about(sql::HISTORY_DELETE, &numbers),
        db.run_about(sql::STEPS_FORGET, &numbers),
        db.run_about(sql::SUBMISSION_DELETE, &numbers),
    )
    .map(drop)
}

/// Redacts the events of these jobs, and keeps the parts of their envelopes that events may still
/// show.
async fn redact(db: &PooledConnection, erased: &[Arc<Stored>]) -> Result<()> {
    let events = events_of(db, erased).await?;
    let event_seqs: Vec<i64> = events.keys().copied().collect();
    let rows = db.rows_about(sql::OUTBOX_PAGES_LOCK, &event_seqs).await?;
    let mut kept: BTreeMap<i64, (i64, Arc<Envelope>)> = BTreeMap::new();
    for row in rows {
        let (first, page): (i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
        let (written, redacted_events) = redacted(first, page, &events)?;
        for (event_seq, stored, envelope) in redacted_events {
            let last = kept.entry(stored.no).or_insert((event_seq, envelope));
            last.0 = last.0.max(event_seq);
        }
        db.run(sql::OUTBOX_PAGE_PUT, &[&first, &written]).await?;
    }
    let rows = kept.iter().map(|(no, (last, of))| (*no, *last, to_row(*no, &**of)));
    db.put(sql::ERASED_INSERT, &rows.collect()).await
}

type JobsByEvent<'a> = BTreeMap<i64, &'a Arc<Stored>>;

/// The outbox positions of these jobs' events.
async fn events_of<'a>(
    db: &PooledConnection,
    erased: &'a [Arc<Stored>],
) -> Result<JobsByEvent<'a>> {
    let numbers: Vec<i64> = erased.iter().map(|stored| stored.no).collect();
    let by_no: BTreeMap<i64, &Arc<Stored>> =
        erased.iter().map(|stored| (stored.no, stored)).collect();
    let mut events = JobsByEvent::new();
    for (no, event_seq, _) in history_rows(db, &numbers, 0).await? {
        events.extend(event_seq.zip(by_no.get(&no).copied()));
    }
    for stored in erased {
        let recent = stored.recent.rows(stored.no)?.into_iter().filter_map(|noted| noted.event);
        events.extend(recent.map(|event_seq| (event_seq, stored)));
    }
    Ok(events)
}

type RedactedEvent<'a> = (i64, &'a Stored, Arc<Envelope>);

/// An outbox page with the events at these positions redacted.
fn redacted<'a>(
    first: i64,
    page: &[u8],
    events: &JobsByEvent<'a>,
) -> Result<(Vec<u8>, Vec<RedactedEvent<'a>>)> {
    let mut redacted_events = Vec::new();
    let mut written: Vec<(i64, Vec<u8>)> = Vec::new();
    let mut seen = BTreeSet::new();
    for line in entries(first, page)? {
        let sealed = match events.get(&line.number) {
            Some(stored) if seen.insert(line.number) => {
                let envelope = stored.job.envelope.clone();
                let event = event_from_row(line.number, line.sealed, envelope)?.redacted();
                redacted_events.push((line.number, &***stored, event.job.envelope.clone()));
                event_to_row(line.number, stored.no, &event)
            }
            Some(_) | None => line.sealed.to_vec(),
        };
        written.push((line.number, sealed));
    }
    let lines: Vec<OutboxEntry<'_>> =
        written.iter().map(|(number, sealed)| OutboxEntry { number: *number, sealed }).collect();
    Ok((OutboxPages::one(&lines), redacted_events))
}
