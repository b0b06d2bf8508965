//! The story as lines, one per event, for files and pipes.

use super::{
    Demo, DemoSnapshot, ShownJob,
    view::{about, kind, seconds},
};
use anyhow::Result;
use consign::JobId;
use engine::{HistoryEntry, Scope, Timestamp};
use std::{
    collections::HashMap,
    io::{self, Write},
    time::Duration,
};

#[derive(Default)]
pub(crate) struct Plain {
    captions_printed: usize,
    /// The last history row of each job that was printed, and its last duplicate submit.
    jobs: HashMap<JobId, (u64, Option<Timestamp>)>,
    /// When the other jobs were last counted.
    counted_at: Duration,
}

/// The many jobs of the waves are not printed one by one, but counted in this interval.
const COUNT_EVERY: Duration = Duration::from_secs(2);

impl Plain {
    /// Prints what is new. All reads come before any state changes: if the caller drops this future
    /// during a read, the next call finds the same events.
    pub(crate) async fn print_new(&mut self, demo: &Demo, snapshot: &DemoSnapshot) -> Result<()> {
        let mut new_rows = Vec::new();
        for shown_job in &snapshot.shown_jobs {
            let id = shown_job.showcase.id;
            let (printed_seq, _) = self.jobs.get(&id).copied().unwrap_or_default();
            let rows = match shown_job.job.seq > printed_seq {
                true => demo.node().history(&Scope::All, id, printed_seq).await?,
                false => Vec::new(),
            };
            new_rows.push((shown_job, rows));
        }
        let mut new_lines = self.new_lines(&new_rows, snapshot);
        new_lines.sort_by_key(|(at, _)| *at);
        for (at, line) in new_lines {
            let offset = seconds(at.since(demo.state.started_at));
            writeln!(io::stdout(), "{offset:>7}  {line}")?;
        }
        Ok(())
    }

    fn new_lines(
        &mut self,
        new_rows: &[NewRows<'_>],
        snapshot: &DemoSnapshot,
    ) -> Vec<(Timestamp, String)> {
        let mut new_lines = Vec::new();
        for (shown_job, rows) in new_rows {
            let (seq, printed_duplicate) = self.jobs.entry(shown_job.showcase.id).or_default();
            *seq = rows.last().map_or(*seq, |row| row.seq);
            new_lines.extend(rows.iter().map(|row| (row.at, transition_line(shown_job, row))));
            let again =
                shown_job.showcase.duplicate_at.filter(|at| *printed_duplicate != Some(*at));
            *printed_duplicate = shown_job.showcase.duplicate_at;
            let text = "submitted again: the same job, duplicate: true";
            new_lines.extend(again.map(|at| (at, format!("{} {text}", name(shown_job)))));
        }
        let captions = snapshot.captions.iter().skip(self.captions_printed);
        new_lines.extend(captions.map(|caption| (caption.at, format!("* {}", caption.text))));
        self.captions_printed = snapshot.captions.len();
        if snapshot.elapsed >= self.counted_at + COUNT_EVERY {
            self.counted_at = snapshot.elapsed;
            new_lines.extend(count(snapshot).map(|line| (snapshot.now, line)));
        }
        new_lines
    }
}

/// A job and its history since the last call.
type NewRows<'a> = (&'a ShownJob, Vec<HistoryEntry>);

fn transition_line(shown_job: &ShownJob, row: &HistoryEntry) -> String {
    let transition = match row.from {
        Some(from) => format!("{from} → {}", row.to),
        None => row.to.to_string(),
    };
    let attempt = match row.attempt {
        0 => String::new(),
        attempt => format!("attempt {attempt}/{}", shown_job.job.max_attempts),
    };
    let code = row.error_code.as_ref().map(ToString::to_string);
    let reason = [code, row.message.as_deref().map(str::to_owned)];
    let reason: Vec<String> = reason.into_iter().flatten().collect();
    let (reason, wait) = (reason.join(": "), wait(shown_job, row));
    let line = format!("{} {transition:<19} {attempt:<11}  {reason}{wait}", name(shown_job));
    line.trim_end().to_owned()
}

/// The wait that follows this history row, while the job waits.
fn wait(shown_job: &ShownJob, row: &HistoryEntry) -> String {
    let run_at = shown_job.job.run_at().filter(|run_at| *run_at > row.at);
    match run_at.filter(|_| shown_job.job.seq == row.seq) {
        Some(run_at) => format!(" (retry in {})", seconds(run_at.since(row.at))),
        None => String::new(),
    }
}

fn name(shown_job: &ShownJob) -> String {
    format!("{:<10} {:<13}", kind(&shown_job.job), about(&shown_job.job))
}

fn count(snapshot: &DemoSnapshot) -> Option<String> {
    let mut queues = snapshot.queues.iter();
    let counts = queues.find(|depth| depth.queue.job_type.as_str() == "email")?.counts;
    let (queued, running, completed) = (counts.queued, counts.running, counts.completed);
    Some(format!(
        "email      all of them   Queued {queued}, Running {running}, Completed {completed}"
    ))
}
