//! §2: a token decides, and a repeated report gets the same answer.

use crate::serve::{Customer, customer::fresh, customer::id_of};
use serde_json::json;

/// Whatever happened to the job since.
#[test]
fn a_report_that_is_repeated_is_answered_as_the_first_time() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let job = customer.running(&job_type);
    let failed = json!({"outcome": "failed", "errorCode": "BUSY", "retryAfterSeconds": 0});
    let first = customer.settle(&job, failed.clone());
    assert_eq!(first["status"], "Queued");
    assert_eq!(customer.settle(&job, failed.clone()), first, "before it is claimed again");
    let second = customer.claim(&job_type);
    assert_eq!(customer.settle(&job, failed.clone()), first, "while another attempt runs");
    customer.settle(&second, json!({"outcome": "completed"}));
    assert_eq!(customer.settle(&job, failed), first, "after its end");
    let done = customer.settle(&second, json!({"outcome": "completed"}));
    assert_eq!(done["status"], "Completed");
    assert_eq!(customer.history(&id_of(&job)).len(), 5, "nothing happened twice");
}

#[test]
fn another_ending_is_refused_and_what_stands_is_shown() {
    let customer = Customer::new();
    let job = customer.running(&fresh("type"));
    customer.settle(&job, json!({"outcome": "completed"}));
    let other = customer.settle(&job, json!({"outcome": "failed", "retryable": false}));
    let problem = &other["problem"];
    assert_eq!((&problem["errorCode"], &problem["status"]), (&json!("ALREADY_ENDED"), &json!(409)));
    assert!(problem["detail"].as_str().unwrap().contains("Completed"), "{problem}");
    assert_eq!(customer.status(&id_of(&job))["status"], "Completed");
}

#[test]
fn an_old_or_forged_lease_token_changes_nothing() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let old = customer.running(&job_type);
    customer.release(&old, json!({}));
    let new = customer.claim(&job_type);
    assert_ne!(old["lease"]["token"], new["lease"]["token"]);
    // The release ended the attempt of that token.
    let answer = customer.settle(&old, json!({"outcome": "failed", "errorCode": "OLD"}));
    assert_eq!(answer["problem"]["errorCode"], "ALREADY_ENDED", "{answer}");
    assert_eq!(customer.heartbeat(&old, json!({}))["state"], "lost");
    let mut forged = new.clone();
    let token = new["lease"]["token"].as_str().unwrap();
    let (head, last) = token.split_at(token.len() - 1);
    forged["lease"]["token"] = json!(format!("{head}{}", if last == "0" { "1" } else { "0" }));
    let answer = customer.settle(&forged, json!({"outcome": "completed"}));
    let code = answer["problem"]["errorCode"].as_str().unwrap();
    assert!(["LEASE_LOST", "INVALID_FIELD"].contains(&code), "{answer}");
    assert_eq!(customer.settle(&new, json!({"outcome": "completed"}))["status"], "Completed");
}

/// A repeated claim with the same id gets the same leases.
#[test]
fn a_claim_that_is_repeated_gets_the_same_leases() {
    let customer = Customer::new();
    let job_type = fresh("type");
    for _ in 0..3 {
        customer.queued(&job_type);
    }
    let name = fresh("claim");
    let first = customer.claim_with(&job_type, json!({"claimId": name, "max": 2}));
    let again = customer.claim_with(&job_type, json!({"claimId": name, "max": 2}));
    let tokens = |jobs: &[serde_json::Value]| -> Vec<serde_json::Value> {
        let mut tokens: Vec<_> = jobs.iter().map(|job| job["lease"]["token"].clone()).collect();
        tokens.sort_by_key(ToString::to_string);
        tokens
    };
    assert_eq!((first.len(), tokens(&first)), (2, tokens(&again)));
    assert!(again.iter().all(|job| job["attempt"] == 1));
    customer.settle(&first[0], json!({"outcome": "completed"}));
    let rest = customer.claim_with(&job_type, json!({"claimId": name, "max": 2}));
    assert_eq!(tokens(&rest), tokens(&first[1..]), "while they are held");
}

/// One bad item does not affect the others.
#[test]
fn each_report_of_a_page_has_an_answer_of_its_own() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let (one, two) = (customer.running(&job_type), customer.running(&job_type));
    let item = |job: &serde_json::Value| json!({"jobId": job["jobId"], "token": job["lease"]["token"], "outcome": "completed"});
    let mut wrong = item(&one);
    wrong["outcome"] = json!("perhaps");
    let unknown = json!({"jobId": "018f0000-0000-7000-8000-000000000000", "token": one["lease"]["token"], "outcome": "completed"});
    let items = json!({"items": [item(&one), wrong, unknown, item(&two)]});
    let answer = customer.owner.post("/api/work/settle").json(&items).send().ok(200);
    let codes: Vec<_> = answer["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["problem"]["errorCode"].clone())
        .collect();
    assert_eq!(codes, [json!(null), json!("INVALID_FIELD"), json!("JOB_NOT_FOUND"), json!(null)]);
    assert_eq!(answer["items"][3]["status"], "Completed");
}

#[test]
fn a_heartbeat_extends_and_reports_and_never_shortens() {
    let customer = Customer::new();
    let job_type = fresh("type");
    customer.queued(&job_type);
    let job = customer.claim_with(&job_type, json!({"leaseSeconds": 600})).pop().unwrap();
    let beat = customer.heartbeat(&job, json!({"progress": {"percent": 40, "note": "half way"}}));
    assert_eq!(beat["state"], "extended");
    assert!(beat["expiresAt"].as_str() >= job["lease"]["expiresAt"].as_str(), "{beat} {job}");
    let status = customer.status(&id_of(&job));
    assert_eq!(
        (&status["progress"]["percent"], &status["progress"]["note"]),
        (&json!(40), &json!("half way"))
    );
    let long = customer.heartbeat(&job, json!({"progress": {"percent": 101}}));
    assert_eq!(long["state"], "extended", "a bad progress does not cost the lease");
    assert!(long["problem"].is_object());
}

/// Longer text is cut, longer JSON is refused.
#[test]
fn texts_are_cut_and_results_are_not() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let job = customer.running(&job_type);
    let ending =
        json!({"outcome": "failed", "retryable": false, "errorMessage": "ä".repeat(5_000)});
    customer.settle(&job, ending);
    let message = customer.status(&id_of(&job))["errorMessage"].as_str().unwrap().to_owned();
    assert!(message.len() <= 1_024 && message.ends_with('…'), "{}", message.len());
    let job = customer.running(&job_type);
    let answer =
        customer.settle(&job, json!({"outcome": "completed", "result": "x".repeat(5_000)}));
    assert_eq!(answer["problem"]["errorCode"], "INVALID_FIELD");
    let answer = customer.settle(&job, json!({"outcome": "failed", "errorCode": "not a code"}));
    assert_eq!(answer["problem"]["errorCode"], "INVALID_FIELD");
    assert_eq!(customer.status(&id_of(&job))["status"], "Running");
}
