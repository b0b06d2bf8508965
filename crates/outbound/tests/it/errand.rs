//! An errand as others are.

use outbound::{Ended, Errand, Failure, How};

pub(crate) fn errand() -> Errand {
    Errand {
        json: r#"{"jobId":"j-1","payload":{"to":"ada"}}"#.into(),
        job_id: "j-1".into(),
        job_type: "email".into(),
        correlation_id: "c-1".into(),
        subject_id: Some("order/7".into()),
        traceparent: None,
        attempt: 2,
        redrive_count: 1,
    }
}

/// The result of what had to be done.
#[track_caller]
pub(crate) fn done(ended: Ended) -> Option<String> {
    match ended.how {
        How::Completed { result } => result.map(|json| json.as_str().to_owned()),
        other @ (How::Retry { .. } | How::ForGood(_) | How::Stopped) => panic!("{other:?}"),
    }
}

/// Why it failed, and whether another try may help.
#[track_caller]
pub(crate) fn failed(ended: Ended) -> (Failure, bool) {
    match ended.how {
        How::Retry { failure, .. } => (failure, true),
        How::ForGood(failure) => (failure, false),
        other @ (How::Completed { .. } | How::Stopped) => panic!("{other:?}"),
    }
}
