//! Asking again, where that is safe and worth it.

use super::{Session, show::trying_again};
use client::ClientError;
use engine::Backoff;
use std::time::Duration;

/// So often is a request sent that may be sent again.
const TRIES: u32 = 4;
/// A server that wants to be left alone longer than this is told to the user instead.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// A person who waits at a terminal is alone: nothing is left to chance.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(250), WAIT_MAX);

/// Asks until there is an answer that asking again would not change, a few times at most. Only for what has a key
/// or changes nothing.
pub(crate) async fn repeated<T>(
    session: &Session,
    ask: impl AsyncFn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    for failures in 1..TRIES {
        let error = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_worth_repeating() => error,
            Err(error) => return Err(error),
        };
        let pause = error.retry_after().unwrap_or(BACKOFF.ceiling(failures));
        if pause > WAIT_MAX {
            return Err(error);
        }
        if !session.show.is_json() {
            trying_again(&error.to_string());
        }
        tokio::time::sleep(pause).await;
    }
    ask().await
}
