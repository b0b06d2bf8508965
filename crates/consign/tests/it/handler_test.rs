//! The handler test that docs/workers.md shows.

use consign::{Context, Fail, JobRequest, Status, on, testing::TestHarness};

#[tokio::test]
async fn a_report_waits_for_its_data() {
    let harness = TestHarness::new().with(on("report", |_: (), context: Context| async move {
        if context.attempt() < 3 {
            let days = std::time::Duration::from_secs(2 * 86_400);
            return Err(Fail::retry("NOT_READY", "the data is not there yet").after(days));
        }
        Ok("done")
    }));
    let job = harness.submit(JobRequest::new("report", &())).await;
    let took = harness.run_until_idle().await;
    assert_eq!(harness.job(job).await.status(), Status::Completed);
    assert_eq!(took.as_secs(), 4 * 86_400); // by the clock of the test
}
