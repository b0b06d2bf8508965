//! The story as lines, one per event, for files and pipes.

use super::{
    board::{DemoSnapshot, ShownJob},
    story::Demo,
    view::{about, kind, seconds},
};
use anyhow::Result;
use consign::{HistoryEntry, JobId};
use engine::{Scope, Timestamp};
use std::{
    collections::HashMap,
    io::{self, Write},
    time::Duration,
};

#[derive(Default)]
pub(crate) struct Plain {
    said: usize,
    /// The last history row of each job that was printed, and its last duplicate submit.
    jobs: HashMap<JobId, (u64, Option<Timestamp>)>,
    /// When the other jobs were last counted.
    counted: Duration,
}

/// The many jobs of the waves are not printed one by one, but counted in this interval.
const COUNT_EVERY: Duration = Duration::from_secs(2);

impl Plain {
    /// Prints what is new. All reads come before any state changes: if the caller drops this future
    /// during a read, the next call finds the same events.
    pub(crate) async fn tell(&mut self, demo: &Demo, snapshot: &DemoSnapshot) -> Result<()> {
        let mut moves = Vec::new();
        for exhibit in &snapshot.exhibits {
            let id = exhibit.shown.id;
            let (told, _) = self.jobs.get(&id).copied().unwrap_or_default();
            let rows = match exhibit.job.seq > told {
                true => demo.consign.node().history(&Scope::All, id, told).await?,
                false => Vec::new(),
            };
            moves.push((exhibit, rows));
        }
        let mut news = self.news(&moves, snapshot);
        news.sort_by_key(|(at, _)| *at);
        for (at, line) in news {
            let offset = seconds(at.since(demo.board.began_at));
            writeln!(io::stdout(), "{offset:>7}  {line}")?;
        }
        Ok(())
    }

    fn news(&mut self, moves: &[Moves<'_>], snapshot: &DemoSnapshot) -> Vec<(Timestamp, String)> {
        let mut news = Vec::new();
        for (exhibit, rows) in moves {
            let (seq, told) = self.jobs.entry(exhibit.shown.id).or_default();
            *seq = rows.last().map_or(*seq, |row| row.seq);
            news.extend(rows.iter().map(|row| (row.at, moved(exhibit, row))));
            let again = exhibit.shown.again_at.filter(|at| *told != Some(*at));
            *told = exhibit.shown.again_at;
            let text = "submitted again: the same job, duplicate: true";
            news.extend(again.map(|at| (at, format!("{} {text}", name(exhibit)))));
        }
        let said = snapshot.said.iter().skip(self.said);
        news.extend(said.map(|said| (said.at, format!("* {}", said.text))));
        self.said = snapshot.said.len();
        if snapshot.elapsed >= self.counted + COUNT_EVERY {
            self.counted = snapshot.elapsed;
            news.extend(count(snapshot).map(|line| (snapshot.now, line)));
        }
        news
    }
}

/// A job and its history since the last call.
type Moves<'a> = (&'a ShownJob, Vec<HistoryEntry>);

fn moved(exhibit: &ShownJob, row: &HistoryEntry) -> String {
    let transition = match row.from {
        Some(from) => format!("{from} → {}", row.to),
        None => row.to.to_string(),
    };
    let attempt = match row.attempt {
        0 => String::new(),
        attempt => format!("attempt {attempt}/{}", exhibit.job.max_attempts),
    };
    let code = row.error_code.as_ref().map(ToString::to_string);
    let reason = [code, row.message.as_deref().map(str::to_owned)];
    let reason: Vec<String> = reason.into_iter().flatten().collect();
    let (reason, wait) = (reason.join(": "), wait(exhibit, row));
    let line = format!("{} {transition:<19} {attempt:<11}  {reason}{wait}", name(exhibit));
    line.trim_end().to_owned()
}

/// The wait that follows this history row, while the job waits.
fn wait(exhibit: &ShownJob, row: &HistoryEntry) -> String {
    let run_at = exhibit.job.run_at().filter(|run_at| *run_at > row.at);
    match run_at.filter(|_| exhibit.job.seq == row.seq) {
        Some(run_at) => format!(" (retry in {})", seconds(run_at.since(row.at))),
        None => String::new(),
    }
}

fn name(exhibit: &ShownJob) -> String {
    format!("{:<10} {:<13}", kind(&exhibit.job), about(&exhibit.job))
}

fn count(snapshot: &DemoSnapshot) -> Option<String> {
    let mut queues = snapshot.queues.iter();
    let many = queues.find(|depth| depth.queue.job_type.as_str() == "email")?.counts;
    let (queued, running, completed) = (many.queued, many.running, many.completed);
    Some(format!(
        "email      all of them   Queued {queued}, Running {running}, Completed {completed}"
    ))
}
