//! What people write: a handler for one job type.

use crate::{context::Context, fail::Fail};
use engine::{JsonText, PolicyDraft};
use serde::{Serialize, de::DeserializeOwned};
use std::{pin::Pin, sync::Arc, time::Duration};

/// Does the work of one job type.
///
/// A handler must expect to run a job twice: when its process dies, another worker runs the job
/// again. [`Context::step`] helps to do a part of it once. A handler may block: that costs one
/// thread, and no other handler waits.
pub trait Handler: Send + Sync + 'static {
    /// The payload that the job was submitted with. A payload that does not fit poisons the job.
    type Payload: DeserializeOwned + Send;
    /// The job's `result`; kept if it is not `null` and at most 4 KiB.
    type Output: Serialize + Send;

    /// Runs one attempt.
    fn run(
        &self,
        payload: Self::Payload,
        context: Context,
    ) -> impl Future<Output = Result<Self::Output, Fail>> + Send;
}

/// One job type, its handler, and how many of its jobs run at once.
#[must_use = "it does nothing until a runner has it"]
pub struct Registration {
    pub(crate) job_type: String,
    pub(crate) handler: HandlerFn,
    pub(crate) slots: usize,
    pub(crate) lease: Option<Duration>,
    pub(crate) policy: Option<PolicyDraft>,
}

/// A handler whose payload and output types are erased.
pub(crate) type HandlerFn = Arc<dyn Fn(JsonText, Context) -> Running + Send + Sync>;
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Option<String>, Fail>> + Send>>;

/// How many jobs of a type a runner runs at once by default.
pub const SLOTS_DEFAULT: usize = 10;
/// More slots than this are a mistake.
pub const SLOTS_MAX: usize = 10_000;

/// Registers a closure as the handler of a job type.
///
/// ```
/// use worker::{Context, Fail, on};
///
/// #[derive(serde::Deserialize)]
/// struct Email {
///     to: String,
/// }
///
/// let registration = on("email", |email: Email, context: Context| async move {
///     context.progress(50, "half of it");
///     if email.to.is_empty() {
///         return Err(Fail::for_good("NO_ADDRESS", "an email needs an address"));
///     }
///     Ok(())
/// });
/// # drop(registration.slots(4));
/// ```
pub fn on<P, O, F, A>(job_type: &str, handler: F) -> Registration
where
    P: DeserializeOwned + Send,
    O: Serialize,
    F: Fn(P, Context) -> A + Send + Sync + 'static,
    A: Future<Output = Result<O, Fail>> + Send + 'static,
{
    let handler: HandlerFn = Arc::new(move |payload, context| match read_payload::<P>(&payload) {
        Ok(payload) => {
            let running = handler(payload, context);
            Box::pin(async move { running.await.and_then(|output| write_result(&output)) })
        }
        Err(fail) => Box::pin(std::future::ready(Err(fail))),
    });
    Registration {
        job_type: job_type.to_owned(),
        handler,
        slots: SLOTS_DEFAULT,
        lease: None,
        policy: None,
    }
}

/// Registers a [`Handler`] for a job type.
pub fn on_handler<H: Handler>(job_type: &str, handler: H) -> Registration {
    let handler = Arc::new(handler);
    on(job_type, move |payload: H::Payload, context| {
        let handler = handler.clone();
        async move { handler.run(payload, context).await }
    })
}

impl Registration {
    /// How many jobs of this type run at once in this runner; [`SLOTS_DEFAULT`] by default.
    pub fn slots(self, slots: usize) -> Self {
        Registration { slots, ..self }
    }

    /// How long this process may send no heartbeat before another takes its jobs; by default the
    /// policy's lease.
    pub fn lease(self, lease: Duration) -> Self {
        Registration { lease: Some(lease), ..self }
    }

    /// Sets the whole policy of the type, for all nodes, when the runner starts. What the draft
    /// leaves out gets its default; this resets a schema or a handler that an operator has set.
    pub fn policy(self, policy: PolicyDraft) -> Self {
        Registration { policy: Some(policy), ..self }
    }
}

fn read_payload<P: DeserializeOwned>(payload: &JsonText) -> Result<P, Fail> {
    serde_json::from_str(payload.as_str())
        .map_err(|error| Fail::poison("PAYLOAD_UNREADABLE", describe_read_error(&error)))
}

/// Says where the payload does not fit, and not with which value: payloads do not go into messages.
/// The names of missing fields and expected types come from the handler's types, not from the
/// client.
fn describe_read_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let what = match text.rsplit_once(", expected ") {
        _ if text.starts_with("missing field `") => text.to_owned(),
        Some((_, expected)) => format!("a value is not what the handler expects: {expected}"),
        None => "a value is not what the handler expects".to_owned(),
    };
    format!("the payload cannot be read: {what} (line {}, column {})", error.line(), error.column())
}

/// The result as it is kept: none for `null`.
fn write_result<O: Serialize>(output: &O) -> Result<Option<String>, Fail> {
    // Not retried: the work is done, and a retry would do it again.
    let unwritable = |error| format!("the result cannot be written as JSON: {error}");
    let text = serde_json::to_string(output)
        .map_err(|error| Fail::for_good("RESULT_UNWRITABLE", unwritable(error)))?;
    Ok((text != "null").then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Card {
        #[expect(dead_code, reason = "only read")]
        number: u32,
    }

    fn message(payload: &str) -> String {
        let payload = JsonText::parse("payload", payload, 1_000).unwrap();
        read_payload::<Card>(&payload).unwrap_err().message.unwrap()
    }

    #[test]
    fn a_payload_error_does_not_reveal_the_payload() {
        let text = message(r#"{"number": "4111-1111"}"#);
        assert_eq!(
            text,
            "the payload cannot be read: a value is not what the handler expects: u32 \
             (line 1, column 22)"
        );
        assert!(message("{}").contains("missing field `number`"));
    }

    #[test]
    fn null_is_no_result() {
        assert_eq!(write_result(&()), Ok(None));
        assert_eq!(write_result(&7), Ok(Some("7".into())));
    }
}
