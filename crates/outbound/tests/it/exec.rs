//! Well-behaved programs.

use crate::job_payload::{JSON, done, failed, job_payload};
use outbound::{Exec, HandlerOutcome, JobPayload};
use std::{ffi::OsString, fs, future::pending, sync::Mutex};

pub(crate) async fn run(words: &[&str], job_payload: &JobPayload) -> HandlerOutcome {
    Exec::new(words.iter().copied(), environment()).run(job_payload, &|_, _| (), pending()).await
}

pub(crate) async fn sh(script: &str) -> HandlerOutcome {
    run(&["sh", "-c", script], &job_payload()).await
}

pub(crate) fn environment() -> Vec<(OsString, OsString)> {
    let path = std::env::vars_os().filter(|(name, _)| name == "PATH");
    let secrets =
        [("CONSIGN_KEY", "csk_secret"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("TZ", "UTC")];
    path.chain(secrets.map(|(name, value)| (name.into(), value.into()))).collect()
}

#[tokio::test]
async fn the_job_is_on_standard_input_and_the_last_line_is_the_message() {
    let outcome = sh("echo first; cat; echo; echo").await;
    assert_eq!(outcome.message.as_deref(), Some(JSON));
    assert_eq!(done(outcome), None);
}

#[tokio::test]
async fn a_program_environment_has_the_job_but_no_server_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("env");
    let mut job_payload = job_payload();
    job_payload.traceparent = Some("00-1".into());
    done(run(&["sh", "-c", "env > \"$0\"", path.to_str().unwrap()], &job_payload).await);
    let seen = fs::read_to_string(path).unwrap();
    for expected in [
        "CONSIGN_JOB_ID=j-1",
        "CONSIGN_JOB_TYPE=email",
        "CONSIGN_ATTEMPT=2",
        "CONSIGN_CORRELATION_ID=c-1",
        "CONSIGN_SUBJECT_ID=order/7",
        "TRACEPARENT=00-1",
        "TZ=UTC",
    ] {
        assert!(seen.lines().any(|line| line == expected), "{expected}: {seen}");
    }
    assert!(!seen.to_lowercase().contains("secret"), "{seen}");
    let known = ["PATH", "HOME", "LANG", "TZ", "TRACEPARENT", "PWD", "OLDPWD", "SHLVL", "_"];
    for name in seen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name) {
        assert!(known.contains(&name) || name.starts_with("CONSIGN_"), "{name} was passed on");
    }
}

#[tokio::test]
async fn the_exit_code_decides_the_outcome() {
    done(sh("exit 0").await);
    let failure_of = |outcome| {
        let (failure, again) = failed(outcome);
        (failure.code, failure.message, again)
    };
    assert_eq!(
        failure_of(sh("echo busy >&2; exit 75").await),
        ("EXEC_EXIT_75".into(), "the program ended with exit code 75: busy".into(), true)
    );
    assert_eq!(
        failure_of(sh("echo 1 >&2; echo 2 >&2; echo >&2; echo 3 >&2; printf 4 >&2; exit 1").await),
        ("EXEC_EXIT_1".into(), "the program ended with exit code 1: 2 / 3 / 4".into(), true)
    );
    assert_eq!(
        failure_of(sh("exit 255").await),
        ("EXEC_EXIT_255".into(), "the program ended with exit code 255".into(), true)
    );
    assert_eq!(
        failure_of(sh("echo no such customer >&2; exit 65").await),
        (
            "EXEC_EXIT_65".into(),
            "the program ended with exit code 65: no such customer".into(),
            false
        )
    );
    assert_eq!(
        failure_of(sh("kill -9 $$").await),
        ("EXEC_KILLED".into(), "the program was killed by signal 9".into(), true)
    );
}

#[tokio::test]
async fn a_type_may_name_other_final_codes() {
    let is_retried = async |codes: &[u8], code: u8| {
        let exec = Exec::new(["sh", "-c", &format!("exit {code}")], environment());
        let exec = exec.with_final_codes(codes);
        failed(exec.run(&job_payload(), &|_, _| (), pending()).await).1
    };
    assert_eq!((is_retried(&[1, 78], 1).await, is_retried(&[1, 78], 78).await), (false, false));
    assert!(is_retried(&[1, 78], 65).await, "the list takes the place of the usual code");
    assert!(is_retried(&[], 65).await);
}

#[tokio::test]
async fn a_failure_has_a_message_as_well() {
    let outcome = sh("echo nobody was at home; exit 65").await;
    assert_eq!(outcome.message.as_deref(), Some("nobody was at home"));
    assert!(!failed(outcome).1);
}

#[tokio::test]
async fn a_program_that_is_not_there_may_be_there_later() {
    for words in [&["/nowhere/at-all"][..], &["/"], &[]] {
        let (failure, again) = failed(run(words, &job_payload()).await);
        assert_eq!((failure.code.as_str(), again), ("EXEC_NOT_STARTED", true), "{words:?}");
        assert!(failure.message.contains(words.first().unwrap_or(&"")), "{}", failure.message);
    }
}

#[tokio::test]
async fn lines_for_us_are_progress_and_a_result_and_no_message() {
    let reports = Mutex::new(Vec::new());
    let script = r#"echo working
        echo 'consign:progress 40 month 5 of 12'
        echo 'consign:progress 101 too much'
        echo 'consign:progress much'
        echo 'consign:progress 100'
        echo 'consign:result {"pages": 12}'"#;
    let note = |percent, note: &str| reports.lock().unwrap().push((percent, note.to_owned()));
    let exec = Exec::new(["sh", "-c", script], environment());
    let outcome = exec.run(&job_payload(), &note, pending()).await;
    assert_eq!(outcome.message.as_deref(), Some("working"));
    assert_eq!(done(outcome).as_deref(), Some(r#"{"pages": 12}"#));
    let reports = reports.into_inner().unwrap();
    assert_eq!(reports, [(40, "month 5 of 12".to_owned()), (100, String::new())]);
}

#[tokio::test]
async fn an_invalid_result_is_left_out_and_the_job_completes() {
    let outcome = sh("echo 'consign:result {'; echo done").await;
    let message = outcome.message.clone().unwrap();
    assert!(message.starts_with("done (left out: result"), "{message}");
    assert_eq!(done(outcome), None);
    let outcome =
        sh("printf 'consign:result \"'; head -c 5000 /dev/zero | tr '\\0' x; echo '\"'").await;
    assert!(outcome.message.clone().unwrap().starts_with("left out: result"), "{outcome:?}");
    assert_eq!(done(outcome), None);
}
