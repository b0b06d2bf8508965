//! What an HTTP answer means for the job.

use crate::{
    fetch::{is_json, read},
    outcome::{HandlerEnding, HandlerFailure, HandlerOutcome},
};
use engine::{JsonText, RESULT_BYTES_MAX};
use reqwest::{
    Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER},
};
use std::time::{Duration, UNIX_EPOCH};
use tokio::time::timeout;
use wire::Json;

/// The longest `Retry-After` that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);
/// The status already says that the work is done; its result is not waited for much longer.
const RESULT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn outcome(response: Response, now: u64) -> HandlerOutcome {
    let status = response.status();
    let message = format!("the address answered with status {}", status.as_u16());
    if status.is_success() {
        let ending = HandlerEnding::Completed { result: result(response).await };
        return HandlerOutcome { ending, message: Some(message) };
    }
    let failure = HandlerFailure::new(&format!("HTTP_STATUS_{}", status.as_u16()), message);
    if !is_worth_another_try(status) {
        return HandlerEnding::ForGood(failure).into();
    }
    HandlerEnding::Retry { failure, after: retry_after(response.headers(), now) }.into()
}

fn is_worth_another_try(status: StatusCode) -> bool {
    status.is_server_error() || [408, 425, 429].contains(&status.as_u16())
}

/// In seconds, or as a date.
fn retry_after(headers: &HeaderMap, now: u64) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        text.parse().unwrap_or(u64::MAX)
    } else {
        let at = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        at.as_secs().saturating_sub(now)
    };
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// The body, where it is JSON small enough to be kept with the job.
async fn result(response: Response) -> Option<Json> {
    let kind = response.headers().get(CONTENT_TYPE)?;
    if !is_json(kind.to_str().ok()?) {
        return None;
    }
    let body = timeout(RESULT_TIMEOUT, read(response, RESULT_BYTES_MAX)).await.ok()?.ok()?;
    let text =
        JsonText::parse("result", std::str::from_utf8(&body).ok()?, RESULT_BYTES_MAX).ok()?;
    (text.as_str() != "null").then(|| Json::from(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 784_111_777; // Sun, 06 Nov 1994 08:49:37 GMT

    #[track_caller]
    fn check(text: &str, seconds: Option<u64>) {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
        assert_eq!(retry_after(&headers, NOW), seconds.map(Duration::from_secs), "{text}");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_at_most_a_day() {
        check("0", Some(0));
        check(" 120 ", Some(120));
        check("86401", Some(86_400));
        check("99999999999999999999999", Some(86_400));
        check("Sun, 06 Nov 1994 08:50:37 GMT", Some(60));
        check("Sunday, 06-Nov-94 08:50:37 GMT", Some(60));
        check("Sun Nov  6 08:50:37 1994", Some(60));
        check("Sun, 06 Nov 1994 08:00:00 GMT", Some(0));
        check("Sat, 06 Nov 2094 08:00:00 GMT", Some(86_400));
        for nothing in ["", "-1", "1.5", "soon", "Sun, 31 Feb 1994 08:00:00 GMT"] {
            check(nothing, None);
        }
    }
}
