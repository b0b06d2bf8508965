//! What accompanies the life of a job: its steps and its events.

use crate::situation::*;
use engine::*;
use std::time::Duration;

#[test]
fn events_of_erased_jobs_are_redacted() {
    let subject_id = Some("ada@example.org".into());
    let job = claimed(&queued_from(JobDraft { subject_id, ..draft() }), at(-10));
    let ending = EndingDraft {
        message: Some("to ada".into()),
        result: Some("\"ada\"".into()),
        result_url: Some("https://example.org/ada".into()),
        ..completed()
    };
    let done = change(&job, &settle(&job, ending)).job;
    let event = Event { kind: EventKind::Completed, at: now(), job: done };
    let redacted = event.redacted();
    assert_eq!((redacted.id(), redacted.kind, redacted.at), (event.id(), event.kind, event.at));
    assert!(!format!("{redacted:?}").contains("ada"), "{redacted:?}");
    assert!(redacted.job.life.result.is_none() && redacted.job.envelope.key.is_none());

    let progress = ProgressReport::check(10, Some("writing to ada")).ok();
    let job = after(&job, &Command::Heartbeat { token: token(&job), progress }, at(-9));
    let ending = EndingDraft { error_message: Some("ada is unknown".into()), ..failed_for_good() };
    let lost = change(&job, &settle(&job, ending)).job;
    let redacted = Event { kind: EventKind::Failed, at: now(), job: lost }.redacted();
    assert!(!format!("{redacted:?}").contains("ada"), "{redacted:?}");
    assert_eq!(
        redacted.job.life.last_failure.unwrap().code.as_str(),
        "SMTP_DOWN",
        "the code stays"
    );
}

#[test]
fn a_step_completes_once() {
    let job = running();
    let begin = |token| Command::BeginStep { token, name: step("charge") };
    let finish = |token, text| Command::FinishStep {
        token,
        name: step("charge"),
        result: check_step_result(text).unwrap(),
    };
    let policy = Policy::default();
    let answer = |command: &Command, step: Option<&Step>| {
        let facts = Facts { step, ..facts(&policy, now()) };
        decide(&job, command, &facts).map(|decided| (decided.answer, decided.effect))
    };
    let own = token(&job);
    let (new, effect) = answer(&begin(own), None).unwrap();
    assert_eq!(new, Answer::Step(StepAnswer::New));
    let Effect::Change(change) = effect else { panic!("the marker is written") };
    let StepsChange::Put(begun) = change.steps else { panic!("the marker is written") };
    assert_eq!(change.job.seq, job.seq, "a step is no transition");

    let (again, effect) = answer(&begin(own), Some(&begun)).unwrap();
    assert_eq!(again, Answer::Step(StepAnswer::Unfinished), "it may have died in the middle");
    assert_eq!(effect, Effect::Nothing);

    let done = Step { result: check_step_result("1").ok(), ..begun };
    let first = Answer::Step(StepAnswer::Done(check_step_result("1").unwrap()));
    assert_eq!(answer(&begin(own), Some(&done)).unwrap().0, first);
    assert_eq!(answer(&finish(own, "2"), Some(&done)).unwrap(), (first, Effect::Nothing));
    assert_eq!(answer(&finish(own, "2"), None).unwrap_err(), Refusal::StepNotBegun);
    let stale = LeaseToken { fence: 0, ..own };
    assert_eq!(answer(&begin(stale), None).unwrap_err(), Refusal::LeaseLost);
    assert_eq!(answer(&finish(stale, "2"), Some(&done)).unwrap_err(), Refusal::LeaseLost);
    let full = Facts { steps: STEPS_MAX, ..facts(&policy, now()) };
    let refused = decide(&job, &begin(own), &full).unwrap_err();
    assert_eq!(refused.code(), "STEP_LIMIT");
}

#[test]
fn events_have_waits_and_durations() {
    let job = running();
    let done = change(&job, &settle(&job, completed())).job;
    let event = Event { kind: EventKind::Completed, at: now(), job: done };
    assert_eq!(event.waited(), Some(Duration::from_secs(1_990)));
    assert_eq!(event.took(), Some(Duration::from_secs(10)));
}
