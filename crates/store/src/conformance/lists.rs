//! Lists: all of their parts are executed, or none.

use super::{
    audit::note,
    fixture::{Fixture, email, ending, job_type, keyed, settling, token},
};
use crate::{Answer, Clock, Request};
use engine::{
    Command, JobId, Outcome, Policy, Refusal, Scope, Status, StepAnswer, StepName, TenantLimits,
    check_step_result,
};
use pollster::block_on;

fn about(id: JobId, command: Command) -> Request {
    Request::Command { scope: Scope::All, id, command }
}

fn redrive(id: JobId) -> Request {
    about(id, Command::redrive())
}

fn parts(answer: Answer) -> Vec<Answer> {
    match answer {
        Answer::All(parts) => parts,
        other => panic!("a list is answered as one, not by {other:?}"),
    }
}

pub(crate) fn a_request_list_with_a_refused_part_changes_nothing(fixture: &Fixture) {
    let (existing, missing) = (fixture.submit(email()), JobId::from_bytes([1; 16]));
    let new = fixture.new_job(keyed("k", "1"), "acme");
    let report = Policy { max_attempts: 9, ..Policy::default() };
    let list = Request::All(vec![
        Request::Submit(vec![new.clone()]),
        about(existing, Command::Cancel),
        Request::Pause {
            scope: Scope::All,
            job_type: job_type("email"),
            note: engine::PauseNote::default(),
        },
        Request::set_policy(&job_type("email"), &report),
        Request::Audit(note(Scope::All, "list")),
        about(missing, Command::Cancel),
    ]);
    let before = fixture.job(existing);
    assert_eq!(fixture.one(list), Err(Refusal::JobNotFound));
    assert_eq!(fixture.job(existing), before);
    let store = fixture.store();
    assert_eq!(block_on(store.job(&Scope::All, new.id)).unwrap(), None);
    assert!(block_on(store.pauses()).unwrap().is_empty());
    assert!(block_on(store.policies()).unwrap().is_empty());
    assert!(block_on(store.audit(&Scope::All, None, 9)).unwrap().is_empty());
    let again = fixture.one(Request::Submit(vec![fixture.new_job(keyed("k", "2"), "acme")]));
    assert!(again.is_ok(), "the key is free: {again:?}");
}

pub(crate) fn a_part_sees_what_the_parts_before_it_do(fixture: &Fixture) {
    let new = fixture.new_job(email(), "default");
    let policy = Policy { max_attempts: 7, ..Policy::default() };
    let list = Request::All(vec![
        Request::set_policy(&job_type("email"), &policy),
        Request::Submit(vec![new.clone()]),
        about(new.id, Command::Cancel),
        redrive(new.id),
        Request::Audit(note(Scope::All, "list")),
    ]);
    let answers = parts(fixture.one(list).expect("each follows from the one before"));
    assert!(matches!(&answers[1], Answer::Submitted(all) if all[0].job_id == new.id));
    assert!(matches!(&answers[2], Answer::Job(engine::Answer::Job(job))
        if job.status() == Status::Cancelled));
    let job = fixture.job(new.id);
    assert_eq!((job.status(), job.max_attempts), (Status::Queued, 7));
    let history = fixture.history(new.id);
    let seqs: Vec<u64> = history.iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, [1, 2, 3], "every transition is written");
    assert_eq!(fixture.depth("email").counts.queued, 1);
    fixture.complete(&fixture.take()).unwrap();
}

pub(crate) fn keys_change_hands_within_a_list(fixture: &Fixture) {
    let first = fixture.submit(keyed("k", "1"));
    let [second, third] = ["2", "2"].map(|payload| fixture.new_job(keyed("k", payload), "default"));
    let list = Request::All(vec![
        about(first, Command::Cancel),
        about(first, Command::Erase),
        Request::Submit(vec![second.clone()]),
        Request::Submit(vec![third]),
    ]);
    let answers = parts(fixture.one(list).expect("the key is free when its job is gone"));
    assert!(
        matches!(&answers[3], Answer::Submitted(all)
        if all[0].duplicate && all[0].job_id == second.id),
        "{answers:?}"
    );
    assert_eq!(fixture.submit(keyed("k", "2")), second.id);
    let other = fixture.new_job(keyed("k", "3"), "default");
    let refused = fixture.one(Request::All(vec![redrive(second.id), Request::Submit(vec![other])]));
    let not_ended = Refusal::NotEnded { status: Status::Queued };
    assert_eq!(refused, Err(not_ended), "a waiting job is not redriven");
}

/// The job waits as before, but it no longer expires: every stored copy of it must say so.
pub(crate) fn a_job_that_ends_and_begins_again_within_a_list_is_written_anew(fixture: &Fixture) {
    let expires_at = Some(fixture.clock.read().wall.unix_ms() + 60_000);
    let id = fixture.submit(engine::JobDraft { expires_at, ..email() });
    fixture.one(Request::All(vec![about(id, Command::Cancel), redrive(id)])).unwrap();
    fixture.pass(61);
    assert_eq!(fixture.depth("email").due, 1);
    assert_eq!(fixture.take().job.id(), id);
}

/// A key that another job has taken stays with that job, whatever a list does to the job before it.
pub(crate) fn a_key_of_another_job_is_not_freed_by_a_list(fixture: &Fixture) {
    let first = fixture.submit(keyed("k", "1"));
    fixture.poison(&fixture.take());
    fixture.pass(8 * 86_400);
    let second = fixture.submit(keyed("k", "2"));
    let again = || Request::Submit(vec![fixture.new_job(keyed("k", "2"), "default")]);
    let redriven = parts(fixture.one(Request::All(vec![redrive(first), again()])).unwrap());
    let is_second = |answer: &Answer| matches!(answer, Answer::Submitted(all) if all[0].duplicate && all[0].job_id == second);
    assert!(is_second(&redriven[1]), "{redriven:?}");
    fixture.must(first, Command::Cancel);
    let erased =
        parts(fixture.one(Request::All(vec![about(first, Command::Erase), again()])).unwrap());
    assert!(is_second(&erased[1]), "{erased:?}");
    assert_eq!(fixture.submit(keyed("k", "2")), second);
}

pub(crate) fn a_request_list_submits_a_job_once(fixture: &Fixture) {
    let new = fixture.new_job(email(), "default");
    let submit = || Request::Submit(vec![new.clone()]);
    let twice = parts(fixture.one(Request::All(vec![submit(), submit()])).unwrap());
    assert_eq!(twice[0], twice[1], "the same submit again is the same job");
    assert_eq!(fixture.depth("email").counts.submitted, 1);
    fixture.must(new.id, Command::Cancel);
    let missing = fixture.one(Request::All(vec![about(new.id, Command::Erase), submit()]));
    assert_eq!(missing, Err(Refusal::JobNotFound), "the list itself has erased it");
    assert_eq!(fixture.status(new.id), Status::Cancelled);
}

/// A list runs in the latest phase of its parts, so submits may come after commands in one batch.
pub(crate) fn lists_of_one_batch_share_a_bounded_queue(fixture: &Fixture) {
    fixture.set_policy("email", Policy { max_queued: Some(2), ..Policy::default() });
    let waiting = [fixture.submit(email()), fixture.submit(email())];
    let swap = |id| {
        let new = Request::Submit(vec![fixture.new_job(email(), "default")]);
        Request::All(vec![about(id, Command::Cancel), new])
    };
    let replies = fixture.run(waiting.map(swap).to_vec());
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    assert_eq!(fixture.depth("email").counts.queued, 2);
    let more = Request::Submit(vec![fixture.new_job(email(), "default")]);
    let full = fixture.run(vec![redrive(waiting[0]).audited(note(Scope::All, "x")), more]);
    assert!(matches!(full[1], Err(Refusal::QueueFull { .. })), "{full:?}");
}

/// A type that a list declares is not counted among the undeclared ones of the tenant.
pub(crate) fn a_list_declares_a_type_before_its_first_job(fixture: &Fixture) {
    let max = TenantLimits::default().job_types_max;
    let of_type = |name: String| {
        let draft = engine::JobDraft { job_type: name, ..email() };
        fixture.new_job(draft, "acme")
    };
    let jobs = (0..max).map(|number| of_type(format!("type-{number}"))).collect();
    fixture.one(Request::Submit(jobs)).expect("the store accepts them");
    let submit = || Request::Submit(vec![of_type("one-more".into())]);
    assert!(matches!(fixture.one(submit()), Err(Refusal::TenantLimit { .. })));
    let declared = Request::set_policy(&job_type("one-more"), &Policy::default());
    let accepted = fixture.one(Request::All(vec![declared, submit()]));
    assert!(accepted.is_ok(), "{accepted:?}");
}

pub(crate) fn an_attempt_ends_once_within_a_list(fixture: &Fixture) {
    fixture.submit(email());
    let claimed = fixture.take();
    let id = claimed.job.id();
    let ends = |word| about(id, settling(&claimed, &ending(word)));
    let both = Request::All(vec![ends(Outcome::Completed), ends(Outcome::Failed)]);
    assert!(fixture.one(both).is_err(), "another ending stands");
    assert_eq!(fixture.status(id), Status::Running, "and nothing has happened");
    let again = Request::All(vec![ends(Outcome::Completed), ends(Outcome::Completed)]);
    let completed =
        Answer::Job(engine::Answer::Settled { status: Status::Completed, parent: None });
    assert_eq!(fixture.one(again), Ok(Answer::All(vec![completed.clone(), completed])));
    assert_eq!(fixture.status(id), Status::Completed);
}

pub(crate) fn steps_are_seen_within_a_list(fixture: &Fixture) {
    fixture.submit(email());
    let claimed = fixture.take();
    let (id, token) = (claimed.job.id(), token(&claimed));
    let name = StepName::parse("charge").expect("lawful");
    let result = check_step_result("42").expect("lawful");
    let begin = || about(id, Command::BeginStep { token, name: name.clone() });
    let finish = Command::FinishStep { token, name: name.clone(), result: result.clone() };
    let list = Request::All(vec![begin(), about(id, finish), begin()]);
    let answers = parts(fixture.one(list).expect("a step is finished after it was begun"));
    let done = Answer::Job(engine::Answer::Step(StepAnswer::Done(result)));
    assert_eq!(answers[2], done);
    assert_eq!(fixture.one(begin()), Ok(done));
}

pub(crate) fn a_bounded_queue_is_counted_within_a_list(fixture: &Fixture) {
    let policy = Policy { max_queued: Some(2), ..Policy::default() };
    let submit = || Request::Submit(vec![fixture.new_job(email(), "default")]);
    let bound = || Request::set_policy(&job_type("email"), &policy);
    let full = fixture.one(Request::All(vec![bound(), submit(), submit(), submit()]));
    assert!(matches!(full, Err(Refusal::QueueFull { max_queued: 2, .. })), "{full:?}");
    let first = fixture.new_job(email(), "default");
    let list = Request::All(vec![
        bound(),
        Request::Submit(vec![first.clone()]),
        submit(),
        about(first.id, Command::Cancel),
        submit(),
    ]);
    assert!(fixture.one(list).is_ok(), "a cancelled job makes room");
    assert_eq!(fixture.depth("email").counts.queued, 2);
}

pub(crate) fn types_are_counted_within_a_list(fixture: &Fixture) {
    let submit = |number: u64| {
        let draft = engine::JobDraft { job_type: format!("type-{number}"), ..email() };
        Request::Submit(vec![fixture.new_job(draft, "acme")])
    };
    let max = TenantLimits::default().job_types_max;
    let too_many = (0..=max).map(submit).collect();
    let refused = fixture.one(Request::All(too_many));
    assert!(matches!(refused, Err(Refusal::TenantLimit { .. })), "{refused:?}");
    let twice = (0..max).chain(0..max).map(submit).collect();
    assert!(fixture.one(Request::All(twice)).is_ok(), "a type counts once");
}

/// A list runs in the latest phase of its parts, so it sees the effects of earlier single requests.
pub(crate) fn a_list_has_the_turn_of_its_last_part(fixture: &Fixture) {
    let new = fixture.new_job(email(), "default");
    let cancel = about(new.id, Command::Cancel).audited(note(Scope::All, "cancel"));
    let replies = fixture.run(vec![cancel, Request::Submit(vec![new.clone()])]);
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    assert_eq!(fixture.status(new.id), Status::Cancelled);
}

pub(crate) fn lists_within_lists_are_one_list(fixture: &Fixture) {
    let new = fixture.new_job(email(), "default");
    let inner = Request::All(vec![Request::Submit(vec![new.clone()])]);
    let missing = about(JobId::from_bytes([1; 16]), Command::Cancel);
    let refused = fixture.one(Request::All(vec![inner.clone(), missing]));
    assert_eq!(refused, Err(Refusal::JobNotFound));
    assert_eq!(block_on(fixture.store().job(&Scope::All, new.id)).unwrap(), None);
    assert_eq!(fixture.one(Request::All(Vec::new())), Ok(Answer::All(Vec::new())));
    assert!(fixture.one(Request::All(vec![inner])).is_ok());
    assert_eq!(fixture.status(new.id), Status::Queued);
}
