//! A program for each job.

use super::{TestFolder, WAITS};
use crate::serve::wait_until;
use serde_json::{Value, json};
use std::{fs, path::Path};

#[test]
fn a_program_receives_the_job_and_its_output_is_the_outcome() {
    let test_folder = TestFolder::new("");
    let script = r#"cat > in.json; env > env.txt; ls -l /proc/$$/fd > fds.txt
        echo 'consign:result {"pages": 12}'; echo 12 pages were written"#;
    test_folder.declare_sh("report", script);
    let id = test_folder.customer.submit(json!({
        "jobType": "report", "subjectId": "order/7", "correlationId": "c-7", "payloadVersion": 2,
        "payload": {"month": 5}
    }));
    let status = test_folder.wait(&id, "Completed");
    assert_eq!(status["message"], "12 pages were written");
    assert_eq!(status["result"], json!({"pages": 12}));
    let text = fs::read_to_string(test_folder.file("in.json")).unwrap();
    let seen: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        seen,
        json!({
            "jobId": id, "jobType": "report", "tenant": test_folder.customer.tenant, "subjectId": "order/7",
            "correlationId": "c-7", "attempt": 1, "maxAttempts": 10, "redriveCount": 0, "priority": 4,
            "createdAt": status["createdAt"], "parentId": null, "traceparent": null, "payloadVersion": 2,
            "payload": {"month": 5}
        })
    );
    let env = fs::read_to_string(test_folder.file("env.txt")).unwrap();
    assert!(env.contains(&format!("CONSIGN_JOB_ID={id}\n")), "{env}");
    let open = fs::read_to_string(test_folder.file("fds.txt")).unwrap();
    assert!(open.contains("pipe:"), "{open}");
    let ours = ["socket:", "anon_inode:", "consign.db", "/err"];
    assert!(!ours.iter().any(|kind| open.contains(kind)), "the program holds ours open: {open}");
    let workers = test_folder.test_server().admin().get("/api/workers").send().ok(200);
    let name = workers["items"][0]["workerId"].as_str().unwrap();
    assert!(name.starts_with("serve-") && name.ends_with("/report"), "{workers}");
    assert_eq!(workers["items"][0]["state"], "live", "{workers}");
}

#[test]
fn the_exit_code_decides_between_another_try_and_none() {
    let test_folder = TestFolder::new("");
    let script = "[ $CONSIGN_ATTEMPT = 2 ] && echo got through && exit 0; echo busy >&2; exit 1";
    let handler = json!({"exec": ["sh", "-c", script]});
    test_folder.declare("mail", json!({"handler": handler, "backoff": {"base": "10ms"}}));
    let id = test_folder.customer.queued("mail");
    let status = test_folder.wait(&id, "Completed");
    assert_eq!((&status["message"], &status["attempt"]), (&json!("got through"), &json!(2)));
    let history = test_folder.customer.history(&id);
    assert!(history.iter().any(|row| row["errorCode"] == "EXEC_EXIT_1"), "{history:?}");
    test_folder.declare_sh("wrong", "echo no such month >&2; exit 65");
    let status = test_folder.wait(&test_folder.customer.queued("wrong"), "Failed");
    assert_eq!((&status["errorCode"], &status["attempt"]), (&json!("EXEC_EXIT_65"), &json!(1)));
    assert_eq!(status["errorMessage"], "the program ended with exit code 65: no such month");
    let own_codes = json!({"exec": ["sh", "-c", "exit 3"], "finalCodes": [3, 4]});
    test_folder.declare("picky", json!({"handler": own_codes}));
    let status = test_folder.wait(&test_folder.customer.queued("picky"), "Failed");
    assert_eq!((&status["errorCode"], &status["attempt"]), (&json!("EXEC_EXIT_3"), &json!(1)));
}

#[test]
fn a_cancelled_program_may_clean_up() {
    let test_folder = TestFolder::new("");
    test_folder.declare_sh(
        "long",
        "sleep 1000 & trap 'echo bye > bye; exit 0' TERM; echo 'consign:progress 1 x'; wait",
    );
    let id = test_folder.customer.queued("long");
    test_folder.wait_for_progress(&id);
    test_folder.customer.owner.post(&format!("/api/jobs/{id}/cancel")).send().ok(202);
    test_folder.wait(&id, "Cancelled");
    assert!(test_folder.file("bye").exists());
}

#[test]
fn a_program_that_takes_too_long_is_killed() {
    let test_folder = TestFolder::new("");
    let script = "trap 'echo bye > bye; exit 0' TERM; echo $$ > pid; sleep 1000 & wait";
    let handler = json!({"exec": ["sh", "-c", script]});
    test_folder.declare("slow", json!({"handler": handler, "timeout": "3s", "maxAttempts": 1}));
    let status = test_folder.wait(&test_folder.customer.queued("slow"), "Poisoned");
    assert_eq!(status["errorCode"], "HANDLER_TIMEOUT");
    let pid = fs::read_to_string(test_folder.file("pid")).unwrap();
    let process = Path::new("/proc").join(pid.trim());
    wait_until("the program is gone", || !process.exists());
    assert!(!test_folder.file("bye").exists(), "the next attempt may have begun");
}

#[test]
fn the_policy_limits_how_many_programs_run_at_once() {
    let test_folder = TestFolder::new("");
    let script = format!("echo x >> started; {WAITS}");
    let handler = json!({"exec": ["sh", "-c", script]});
    test_folder.declare("narrow", json!({"handler": handler, "concurrency": 2}));
    let jobs: Vec<String> = (0..3).map(|_| test_folder.customer.queued("narrow")).collect();
    let running =
        || jobs.iter().filter(|id| test_folder.customer.status(id)["status"] == "Running").count();
    wait_until("two run", || running() == 2);
    test_folder.touch("go");
    jobs.iter().for_each(|id| drop(test_folder.wait(id, "Completed")));
    assert_eq!(fs::read_to_string(test_folder.file("started")).unwrap().lines().count(), 3);
}
