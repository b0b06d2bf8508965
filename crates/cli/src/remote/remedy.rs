//! Remedies for the reasons that `explain` reports: the command to type.

use wire::ExplainReason;

pub(crate) fn remedy(reason: &ExplainReason, job: &str) -> Option<String> {
    let job_type = reason.job_type.as_deref().unwrap_or("TYPE");
    Some(match reason.code.as_str() {
        "NO_LIVE_WORKER" => {
            format!(
                "start a worker for it, such as: consign work --type {job_type} --exec ./handler"
            )
        }
        "QUEUE_PAUSED" => format!("consign queues resume {job_type}"),
        "NOT_DUE" => "none is needed: it starts by itself then".into(),
        "RETRY_WAIT" => format!(
            "it is tried again by itself; consign history {job} says why it failed, in case that must be mended"
        ),
        "BEHIND_OTHERS" => "more workers, or a higher --priority for the next one".into(),
        "LIMIT_REACHED" => "wait, or raise `concurrency` of the type: consign types".into(),
        "CANCEL_REQUESTED" => "wait: its worker was asked to stop".into(),
        "RUNNING" => format!("none is needed: consign status {job} --watch"),
        "ENDED" if matches!(reason.status.as_deref()?, "Poisoned" | "Failed" | "Cancelled") => {
            format!(
                "consign history {job} says why; once that is mended, consign redrive {job} gives it another life"
            )
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &str) -> ExplainReason {
        let (job_type, status) = (Some("email".into()), Some("Poisoned".into()));
        ExplainReason { code: code.into(), job_type, status, ..ExplainReason::default() }
    }

    #[test]
    fn every_reason_of_the_contract_has_a_cure() {
        for code in wire::REASON_CODES {
            assert!(remedy(&of(code), "j").is_some(), "{code}");
        }
        assert_eq!(remedy(&of("NEW_IN_A_LATER_SERVER"), "j"), None);
    }

    #[test]
    fn cures_can_be_typed_as_they_are() {
        assert_eq!(
            remedy(&of("QUEUE_PAUSED"), "j").as_deref(),
            Some("consign queues resume email")
        );
        assert!(remedy(&of("ENDED"), "j-1").unwrap().starts_with("consign history j-1 "));
    }
}
