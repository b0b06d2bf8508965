//! The first look: it starts, answers, and starts again.

use super::House;
use serde_json::json;

#[test]
fn a_house_starts_and_answers_and_starts_again() {
    let house = House::start();
    let job = json!({"jobType": "email", "payload": {"to": "you"}});
    let taken = house.admin().post("/api/jobs").json(&job).send().ok(202);
    let status_url = taken["statusUrl"].as_str().unwrap().to_owned();
    house.kill();
    house.restart();
    let status = house.admin().get(&status_url).send().ok(200);
    assert_eq!((&status["jobId"], &status["status"]), (&taken["jobId"], &json!("Queued")));
    assert!(house.stop().success(), "{}", house.log());
}
