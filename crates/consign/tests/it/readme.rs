//! What the README shows of the test kit, as it stands there.

use consign::{Context, Fail, JobRequest, Status, on, testing::TestHarness};

#[tokio::test]
async fn a_report_waits_for_its_data() {
    let kit = TestHarness::new().with(on("report", |_: (), context: Context| async move {
        if context.attempt() < 3 {
            let days = std::time::Duration::from_secs(2 * 86_400);
            return Err(Fail::retry("NOT_READY", "the data is not there yet").after(days));
        }
        Ok("done")
    }));
    let job = kit.submit(JobRequest::new("report", &())).await;
    let took = kit.run_until_idle().await;
    assert_eq!(kit.job(job).await.status(), Status::Completed);
    assert_eq!(took.as_secs(), 4 * 86_400); // by the clock of the test
}
