//! Repeats a request, where that is safe and worth it.

use super::{Session, print_trying_again};
use client::ClientError;
use engine::Backoff;
use std::time::Duration;

const TRIES_MAX: u32 = 4;
/// With a longer Retry-After, the user gets the error instead.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Without jitter: a person at a terminal is a single client.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(250), WAIT_MAX);

/// Repeats the request until the answer is final, up to a limit. Only for requests that have a key
/// or change nothing.
pub(crate) async fn repeat_until_final<T>(
    session: &Session,
    send: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    for failures in 1..TRIES_MAX {
        let error = match send().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_worth_repeating() => error,
            Err(error) => return Err(error),
        };
        let pause = error.retry_after().unwrap_or(BACKOFF.ceiling(failures));
        if pause > WAIT_MAX {
            return Err(error);
        }
        if !session.show.is_json() {
            print_trying_again(&error.to_string());
        }
        tokio::time::sleep(pause).await;
    }
    send().await
}
