//! One file, one process.

use crate::process::Start;

#[test]
fn a_second_process_is_refused_by_name_until_the_first_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let start = Start::on(folder.path().join("store"));
    let first = start.run();
    let mut second = start.launch();
    assert_eq!(second.end().code(), Some(1));
    let (words, first_name) = (second.words(), format!("process {}", first.id()));
    assert!(words.contains(&format!("is in use by {first_name};")), "{words}");
    first.kill();
    let third = start.run();
    assert!(third.id() != second.id());
}
