//! A reader that asks all nodes, and never sees a status go back.

use crate::serve::storm::{TestRandom, client_log::ClientLog};
use std::{collections::HashMap, thread, time::Duration};

const READ_EVERY: Duration = Duration::from_millis(5);

/// I15: on every node, the version of a status never decreases.
pub(super) fn read(seed: u64, client_log: &ClientLog) {
    let mut random = TestRandom::new(seed as usize + 900);
    let mut versions: HashMap<String, u64> = HashMap::new();
    while !client_log.is_over() {
        thread::sleep(READ_EVERY);
        let Some(id) = a_job(client_log, &mut random) else { continue };
        let ask = client_log.any_client().get(&format!("/api/jobs/{id}/status"));
        let Ok(answer) = client_log.try_ask(ask) else { continue };
        assert_eq!(answer.status, 200, "it was acknowledged: {}", answer.text());
        let tag = answer.header("etag").unwrap().trim_matches('"');
        let version: u64 = tag.parse().unwrap();
        let before = versions.insert(id.clone(), version).unwrap_or(0);
        assert!(before <= version, "{id} went from version {before} back to {version}");
        client_log.records().counts.reads += 1;
    }
}

/// One of the latest jobs, which have not ended yet.
fn a_job(client_log: &ClientLog, random: &mut TestRandom) -> Option<String> {
    const LAST: usize = 40;
    let pages = client_log.records();
    let all = &pages.acknowledged;
    let last = &all[all.len().saturating_sub(LAST)..];
    (!last.is_empty()).then(|| last[random.below(last.len() as u64) as usize].clone())
}
