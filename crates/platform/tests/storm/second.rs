//! One file, one process.

use crate::process::Start;

#[test]
fn a_second_process_is_refused_by_name_until_the_first_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let start = Start::on(folder.path().join("store"));
    let first = start.start_and_wait();
    let mut second = start.launch();
    assert_eq!(second.wait_for_end().code(), Some(1));
    let (stderr, first_name) = (second.stderr(), format!("process {}", first.id()));
    assert!(stderr.contains(&format!("is in use by {first_name};")), "{stderr}");
    first.kill();
    let third = start.start_and_wait();
    assert!(third.id() != second.id());
}
