//! Steps: each completes once.

use super::fixture::{Fixture, email, token};
use crate::Claimed;
use engine::{Answer, Command, Refusal, STEPS_MAX, StepAnswer, StepName, check_step_result};

fn begin(fixture: &Fixture, claimed: &Claimed) -> Result<StepAnswer, Refusal> {
    let name = StepName::parse("charge").unwrap();
    step(fixture, claimed, Command::BeginStep { token: token(claimed), name })
}

fn finish(fixture: &Fixture, claimed: &Claimed, result: &str) -> Result<StepAnswer, Refusal> {
    let (token, name) = (token(claimed), StepName::parse("charge").unwrap());
    let result = check_step_result(result).unwrap();
    step(fixture, claimed, Command::FinishStep { token, name, result })
}

fn step(fixture: &Fixture, claimed: &Claimed, command: Command) -> Result<StepAnswer, Refusal> {
    let Answer::Step(answer) = fixture.command(claimed.job.id(), command)? else {
        panic!("a step is answered as one");
    };
    Ok(answer)
}

fn done(result: &str) -> Result<StepAnswer, Refusal> {
    Ok(StepAnswer::Done(check_step_result(result).unwrap()))
}

pub(crate) fn a_step_completes_once(fixture: &Fixture) {
    fixture.submit(email());
    let claimed = fixture.take();
    assert_eq!(finish(fixture, &claimed, "1"), Err(Refusal::StepNotBegun));
    assert_eq!(begin(fixture, &claimed), Ok(StepAnswer::New));
    let again = begin(fixture, &claimed);
    assert_eq!(again, Ok(StepAnswer::Unfinished), "it may have died in the middle");
    assert_eq!(finish(fixture, &claimed, "1"), done("1"));
    assert_eq!(finish(fixture, &claimed, "2"), done("1"), "the first result stands");
    assert_eq!(begin(fixture, &claimed), done("1"));
}

pub(crate) fn steps_survive_attempts_and_redrives(fixture: &Fixture) {
    let id = fixture.submit(email());
    let first = fixture.take();
    begin(fixture, &first).unwrap();
    fixture.fail(&first).unwrap();
    let second = fixture.take();
    assert_eq!(begin(fixture, &first), Err(Refusal::LeaseLost), "fenced like everything");
    assert_eq!(finish(fixture, &first, "0"), Err(Refusal::LeaseLost));
    assert_eq!(begin(fixture, &second), Ok(StepAnswer::Unfinished));
    assert_eq!(finish(fixture, &second, "{\"paid\": true}"), done("{\"paid\": true}"));
    fixture.poison(&second);
    fixture.redrive(id);
    assert_eq!(begin(fixture, &fixture.take()), done("{\"paid\": true}"));
}

pub(crate) fn steps_can_be_forgotten(fixture: &Fixture) {
    let id = fixture.submit(email());
    let first = fixture.take();
    begin(fixture, &first).unwrap();
    finish(fixture, &first, "1").unwrap();
    fixture.poison(&first);
    fixture.must(id, Command::Redrive { max_attempts: None, reset_steps: true, payload: None });
    assert_eq!(begin(fixture, &fixture.take()), Ok(StepAnswer::New));
}

pub(crate) fn steps_are_bounded(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.take();
    let begin = |n: u64| {
        let name = StepName::parse(&format!("s{n}")).unwrap();
        fixture.command(id, Command::BeginStep { token: token(&claimed), name })
    };
    (0..STEPS_MAX).for_each(|n| assert!(begin(n).is_ok()));
    assert_eq!(begin(STEPS_MAX), Err(Refusal::StepLimit { steps_max: STEPS_MAX }));
    assert_eq!(begin(0), Ok(Answer::Step(StepAnswer::Unfinished)), "what was begun is still there");
}
