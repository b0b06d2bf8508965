//! Steps: they complete once.

use super::house::{House, email, token};
use crate::Claimed;
use engine::{Answer, Command, Refusal, STEPS_MAX, StepAnswer, StepName, check_step_result};

fn begin(house: &House, claimed: &Claimed) -> Result<StepAnswer, Refusal> {
    let name = StepName::parse("charge").unwrap();
    step(house, claimed, Command::BeginStep { token: token(claimed), name })
}

fn finish(house: &House, claimed: &Claimed, result: &str) -> Result<StepAnswer, Refusal> {
    let (token, name) = (token(claimed), StepName::parse("charge").unwrap());
    let result = check_step_result(result).unwrap();
    step(house, claimed, Command::FinishStep { token, name, result })
}

fn step(house: &House, claimed: &Claimed, command: Command) -> Result<StepAnswer, Refusal> {
    let Answer::Step(answer) = house.command(claimed.job.id(), command)? else {
        panic!("a step is answered as one");
    };
    Ok(answer)
}

fn done(result: &str) -> Result<StepAnswer, Refusal> {
    Ok(StepAnswer::Done(check_step_result(result).unwrap()))
}

pub(crate) fn a_step_completes_once(house: &House) {
    house.submit(email());
    let claimed = house.take();
    assert_eq!(finish(house, &claimed, "1"), Err(Refusal::StepNotBegun));
    assert_eq!(begin(house, &claimed), Ok(StepAnswer::New));
    let again = begin(house, &claimed);
    assert_eq!(again, Ok(StepAnswer::Unfinished), "it may have died in the middle");
    assert_eq!(finish(house, &claimed, "1"), done("1"));
    assert_eq!(finish(house, &claimed, "2"), done("1"), "the first result stands");
    assert_eq!(begin(house, &claimed), done("1"));
}

pub(crate) fn steps_survive_attempts_and_redrives(house: &House) {
    let id = house.submit(email());
    let first = house.take();
    begin(house, &first).unwrap();
    house.fail(&first).unwrap();
    let second = house.take();
    assert_eq!(begin(house, &first), Err(Refusal::LeaseLost), "fenced like everything");
    assert_eq!(finish(house, &first, "0"), Err(Refusal::LeaseLost));
    assert_eq!(begin(house, &second), Ok(StepAnswer::Unfinished));
    assert_eq!(finish(house, &second, "{\"paid\": true}"), done("{\"paid\": true}"));
    house.poison(&second);
    house.redrive(id);
    assert_eq!(begin(house, &house.take()), done("{\"paid\": true}"));
}

pub(crate) fn steps_can_be_forgotten(house: &House) {
    let id = house.submit(email());
    let first = house.take();
    begin(house, &first).unwrap();
    finish(house, &first, "1").unwrap();
    house.poison(&first);
    house.must(id, Command::Redrive { max_attempts: None, reset_steps: true });
    assert_eq!(begin(house, &house.take()), Ok(StepAnswer::New));
}

pub(crate) fn steps_are_bounded(house: &House) {
    let id = house.submit(email());
    let claimed = house.take();
    let begin = |n: u64| {
        let name = StepName::parse(&format!("s{n}")).unwrap();
        house.command(id, Command::BeginStep { token: token(&claimed), name })
    };
    (0..STEPS_MAX).for_each(|n| assert!(begin(n).is_ok()));
    assert_eq!(begin(STEPS_MAX), Err(Refusal::StepLimit { steps_max: STEPS_MAX }));
    assert_eq!(begin(0), Ok(Answer::Step(StepAnswer::Unfinished)), "what was begun is still there");
}
