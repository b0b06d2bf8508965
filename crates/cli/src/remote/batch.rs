//! Submits many jobs from JSON lines.

use super::{
    Session, UsageError,
    enqueue::{line, new_key},
    repeat::repeat_until_final,
};
use anyhow::{Context, Result};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Lines},
    path::Path,
    process::ExitCode,
};
use wire::{BatchItem, SubmitRequest};

/// The most jobs that the contract takes in one request.
const PAGE_MAX: usize = 1_000;
/// Half of what the server takes in one body, so that there is space for what surrounds the jobs.
const BYTES_MAX: usize = 8 << 20;

/// Submits the jobs of all lines, page by page. The server takes a page as a whole or not at all.
pub(crate) async fn enqueue(
    session: &Session,
    source: &Path,
    job_type: Option<&str>,
) -> Result<ExitCode> {
    let mut reader = BatchReader { lines: open(source)?.lines(), number: 0, job_type };
    let mut submitted_count = 0;
    loop {
        let context = || format!("{submitted_count} jobs were taken before that");
        let page = reader.page(session).with_context(context)?;
        if page.is_empty() {
            break;
        }
        let result =
            repeat_until_final(session, async || session.client.submit_all(&page).await).await;
        let last = reader.number;
        let context = || {
            format!(
                "{submitted_count} jobs were taken, and none of the page that ends with line {last}"
            )
        };
        let answer = result.with_context(context)?;
        submitted_count += answer.items.len();
        for item in &answer.items {
            match item {
                BatchItem::Submitted(job) => session.answer(item, || vec![line(job)])?,
                BatchItem::Refused { .. } => session.show.json(item)?,
            }
        }
    }
    if !session.show.is_json() {
        eprintln!("consign: {submitted_count} jobs were taken");
    }
    Ok(ExitCode::SUCCESS)
}

fn open(source: &Path) -> Result<Box<dyn BufRead>> {
    if source == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(source);
    let file = file.with_context(|| format!("{} cannot be read", source.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

struct BatchReader<'a> {
    lines: Lines<Box<dyn BufRead>>,
    number: usize,
    job_type: Option<&'a str>,
}

impl BatchReader<'_> {
    /// The next page; empty at the end.
    fn page(&mut self, session: &Session) -> Result<Vec<SubmitRequest>> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        while page.len() < PAGE_MAX && bytes < BYTES_MAX {
            let Some(line) = self.lines.next() else { break };
            self.number += 1;
            let line = line.with_context(|| format!("line {} cannot be read", self.number))?;
            if line.trim().is_empty() {
                continue;
            }
            bytes += line.len();
            page.push(self.job(&line, new_key(session.now()))?);
        }
        Ok(page)
    }

    fn job(&self, line: &str, new_key: String) -> Result<SubmitRequest> {
        let number = self.number;
        let mut job: SubmitRequest = serde_json::from_str(line)
            .map_err(|error| UsageError::new(format!("line {number} is no job: {error}")))?;
        if job.job_type.is_empty() {
            let none =
                || UsageError::new(format!("line {number} has no jobType, and no TYPE was given"));
            job.job_type = self.job_type.ok_or_else(none)?.to_owned();
        }
        job.idempotency_key.get_or_insert(new_key);
        Ok(job)
    }
}
