//! The log lines about jobs: what was decided here and is no success.
//!
//! Every batch passes here after its commit, on the thread that executed it. So a failed attempt
//! has one line, in the log of the node that decided it, whether a worker reported it or the
//! sweeper found it, and also where the caller is gone. The worker's own message stays out: it may
//! quote the payload, and the job's history has it.

use engine::Setback;
use store::{Answer, Reply};
use tracing::{info, warn};

/// Logs the setbacks among the replies of a batch. Jobs that succeed cost one comparison.
pub(crate) fn log_setbacks(replies: &[Reply]) {
    replies.iter().flatten().for_each(log_answer);
}

fn log_answer(answer: &Answer) {
    match answer {
        Answer::Job(engine::Answer::Setback(setback)) => log_setback(setback),
        Answer::All(answers) => answers.iter().for_each(log_answer),
        Answer::Job(_) | Answer::Submitted(_) | Answer::Claimed(_) | Answer::Done => {}
    }
}

fn log_setback(setback: &Setback) {
    let Setback { job, entry } = setback;
    let (envelope, summary) = (&job.envelope, setback.summary());
    let worker = entry.worker.as_ref().map(tracing::field::display);
    let code = entry.error_code.as_ref().map(tracing::field::display);
    macro_rules! line {
        ($level:ident) => {
            $level!(
                jobId = %envelope.id,
                jobType = %envelope.job_type,
                tenant = %envelope.tenant,
                attempt = entry.attempt,
                maxAttempts = job.max_attempts,
                worker,
                code,
                correlation = %envelope.correlation,
                "{summary}"
            )
        };
    }
    if setback.needs_person() { line!(warn) } else { line!(info) }
}
