//! Somebody who looks at jobs at all nodes, and never sees anything go back.

use crate::serve::storm::{Luck, book::Book};
use std::{collections::HashMap, thread, time::Duration};

const LOOKS_APART: Duration = Duration::from_millis(5);

/// I15: whoever is asked, the version of a status never goes back.
pub(super) fn read(seed: u64, book: &Book) {
    let mut luck = Luck::new(seed as usize + 900);
    let mut seen: HashMap<String, u64> = HashMap::new();
    while !book.is_over() {
        thread::sleep(LOOKS_APART);
        let Some(id) = a_job(book, &mut luck) else { continue };
        let ask = book.any_door().get(&format!("/api/jobs/{id}/status"));
        let Ok(answer) = book.try_ask(ask) else { continue };
        assert_eq!(answer.status, 200, "it was acknowledged: {}", answer.text());
        let tag = answer.header("etag").unwrap().trim_matches('"');
        let version: u64 = tag.parse().unwrap();
        let before = seen.insert(id.clone(), version).unwrap_or(0);
        assert!(before <= version, "{id} went from version {before} back to {version}");
        book.pages().counts.reads += 1;
    }
}

/// One of the last: those have not ended yet.
fn a_job(book: &Book, luck: &mut Luck) -> Option<String> {
    const LAST: usize = 40;
    let pages = book.pages();
    let all = &pages.acknowledged;
    let last = &all[all.len().saturating_sub(LAST)..];
    (!last.is_empty()).then(|| last[luck.below(last.len() as u64) as usize].clone())
}
