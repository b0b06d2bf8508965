//! Submits many jobs from JSON lines.

use super::{
    Session, UsageError,
    enqueue::{line, new_key},
    repeat::repeat_until_final,
};
use anyhow::{Context, Result};
use client::ClientError;
use engine::counted;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Lines},
    path::Path,
    process::ExitCode,
};
use wire::{BatchItem, FieldError, Problem, SubmitRequest};

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
    let name = name_of(source);
    let mut reader = BatchReader { lines: open(source)?.lines(), number: 0, name: &name, job_type };
    let mut submitted_count = 0;
    loop {
        let taken = || counted(submitted_count, "job was taken", "jobs were taken");
        let page = reader.page(session).with_context(|| format!("{} before that", taken()))?;
        let (Some(first), Some(last)) = (page.lines.first(), page.lines.last()) else { break };
        let result =
            repeat_until_final(session, async || session.client.submit_all(&page.jobs).await).await;
        let result = result.map_err(|error| page.at_line(error, &name));
        let refused = || match first == last {
            true => format!("not line {first}"),
            false => format!("none of lines {first} to {last}"),
        };
        let context = || format!("{}, and {}", taken(), refused());
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
        eprintln!("consign: {}", counted(submitted_count, "job was taken", "jobs were taken"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The input in messages.
fn name_of(source: &Path) -> String {
    if source == Path::new("-") {
        return "the standard input".into();
    }
    source.display().to_string()
}

fn open(source: &Path) -> Result<Box<dyn BufRead>> {
    if source == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(source);
    let file = file.with_context(|| format!("{} cannot be read", source.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

/// The jobs of one request, and the line of each.
#[derive(Default)]
struct BatchPage {
    jobs: Vec<SubmitRequest>,
    lines: Vec<usize>,
}

impl BatchPage {
    /// The same refusal with the line of the job that it is about. The user knows lines of a file,
    /// and neither pages nor positions in them.
    fn at_line(&self, error: ClientError, name: &str) -> ClientError {
        let ClientError::Refused { problem, retry_after } = error else { return error };
        let problem = match self.refused_item(&problem) {
            Some(index) => Box::new(about_line(*problem, index, self.lines[index], name)),
            None => problem,
        };
        ClientError::Refused { problem, retry_after }
    }

    /// The position of the refused job. The server names none where the page has a single job.
    fn refused_item(&self, problem: &Problem) -> Option<usize> {
        let is_about_job = self.jobs.len() == 1 && matches!(problem.status, 400 | 413 | 422);
        let pointer = problem.errors.first().map(|error| error.pointer.as_str());
        let index = pointer.and_then(|pointer| pointer.strip_prefix("/jobs/")).and_then(|rest| {
            let digits = rest.split('/').next()?;
            digits.parse().ok()
        });
        index.or(is_about_job.then_some(0)).filter(|index| *index < self.lines.len())
    }
}

/// The problem with pointers into the line instead of the request.
fn about_line(problem: Problem, index: usize, line: usize, name: &str) -> Problem {
    let prefix = format!("/jobs/{index}");
    let errors: Vec<FieldError> = problem
        .errors
        .into_iter()
        .map(|error| FieldError {
            pointer: error.pointer.strip_prefix(&prefix).unwrap_or(&error.pointer).to_owned(),
            ..error
        })
        .collect();
    let sentence = |error: &FieldError| match error.pointer.strip_prefix('/') {
        Some(field) => format!("{field}: {}", error.detail),
        None => error.detail.clone(),
    };
    let reasons: Vec<String> = errors.iter().map(sentence).collect();
    let reason = if reasons.is_empty() { problem.detail } else { reasons.join("; ") };
    // A pointer to the whole line says nothing that the sentence does not say.
    let errors = errors.into_iter().filter(|error| !error.pointer.is_empty()).collect();
    Problem { detail: format!("line {line} of {name}: {reason}"), errors, ..problem }
}

struct BatchReader<'a> {
    lines: Lines<Box<dyn BufRead>>,
    number: usize,
    /// The input in messages.
    name: &'a str,
    job_type: Option<&'a str>,
}

impl BatchReader<'_> {
    /// The next page; empty at the end.
    fn page(&mut self, session: &Session) -> Result<BatchPage> {
        let (mut page, mut bytes) = (BatchPage::default(), 0);
        while page.jobs.len() < PAGE_MAX && bytes < BYTES_MAX {
            let Some(line) = self.lines.next() else { break };
            self.number += 1;
            let line = line.with_context(|| format!("{} cannot be read", self.place()))?;
            if line.trim().is_empty() {
                continue;
            }
            bytes += line.len();
            page.jobs.push(self.job(&line, new_key(session.now()))?);
            page.lines.push(self.number);
        }
        Ok(page)
    }

    fn place(&self) -> String {
        format!("line {} of {}", self.number, self.name)
    }

    fn job(&self, line: &str, new_key: String) -> Result<SubmitRequest> {
        let place = self.place();
        let mut job: SubmitRequest = serde_json::from_str(line).map_err(|error| {
            // The parser saw one line alone, and calls it the first.
            let reason = error.to_string().replace("at line 1 column", "at column");
            UsageError::new(format!("{place} is no job: {reason}"))
        })?;
        if job.job_type.is_empty() {
            let none = || UsageError::new(format!("{place} has no jobType, and no TYPE was given"));
            job.job_type = self.job_type.ok_or_else(none)?.to_owned();
        }
        job.idempotency_key.get_or_insert(new_key);
        Ok(job)
    }
}
