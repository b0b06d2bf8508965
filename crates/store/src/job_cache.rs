//! A cache of live jobs that the writer read or wrote lately, so that it need not read them again.
//!
//! Most jobs are claimed soon after they came and settled soon after that. Where there is one
//! writer, the cache equals the file, or what the file will hold once the transaction under way is
//! written. Where others write as well, an entry was true when it was written, and a reader must
//! have the store verify it.

use crate::codec::stored::Stored;
use engine::{Job, JobId};
use std::{collections::HashMap, mem};

/// The bound on the cache, as an estimate in bytes.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// A job without its texts, and its entries in the maps.
const JOB_BYTES: usize = 1_024;

/// A cache bounded in bytes, in two generations. When the young generation holds half of the bound,
/// it replaces the old one, whose jobs are dropped. A job that is used moves to the young
/// generation, so only jobs that were not used for long are dropped.
///
/// Cache crates have one key for a value; here two keys lead to one job, within one bound on bytes.
pub(crate) struct JobCache<M> {
    young: Generation<M>,
    old: Generation<M>,
}

struct Generation<M> {
    jobs: HashMap<i64, M, IdHasher>,
    numbers: HashMap<JobId, i64, IdHasher>,
    bytes: usize,
}

/// Numbers and ids are ours: no client can choose them so that they collide, so the hash need not
/// resist attacks.
type IdHasher = foldhash::fast::FixedState;

/// A cached job.
pub(crate) trait CachedSize {
    fn stored(&self) -> &Stored;

    /// The bytes that the entry takes beside the job.
    fn extra_bytes(&self) -> usize {
        0
    }

    fn bytes(&self) -> usize {
        let stored = self.stored();
        JOB_BYTES + stored.recent.len_bytes() + text_bytes(&stored.job) + self.extra_bytes()
    }
}

impl<M> Default for JobCache<M> {
    fn default() -> Self {
        JobCache { young: Generation::default(), old: Generation::default() }
    }
}

impl<M> Default for Generation<M> {
    fn default() -> Self {
        Generation { jobs: HashMap::default(), numbers: HashMap::default(), bytes: 0 }
    }
}

impl<M: CachedSize> JobCache<M> {
    pub(crate) fn put(&mut self, entry: M) {
        let Some(entry) = self.young.replace(entry) else { return };
        self.old.take(entry.stored().no);
        if self.young.bytes >= BYTES_MAX / 2 {
            self.old = mem::take(&mut self.young);
        }
        self.young.put(entry);
    }

    pub(crate) fn forget(&mut self, no: i64) -> Option<M> {
        self.young.take(no).or_else(|| self.old.take(no))
    }

    pub(crate) fn forget_all(&mut self) {
        *self = JobCache::default();
    }

    pub(crate) fn get(&self, no: i64) -> Option<&M> {
        self.young.jobs.get(&no).or_else(|| self.old.jobs.get(&no))
    }

    pub(crate) fn by_id(&self, id: JobId) -> Option<&M> {
        let no = self.young.numbers.get(&id).or_else(|| self.old.numbers.get(&id))?;
        self.get(*no)
    }
}

impl<M: CachedSize> Generation<M> {
    /// Returns the job if it is not in this generation.
    fn replace(&mut self, entry: M) -> Option<M> {
        let Some(present) = self.jobs.get_mut(&entry.stored().no) else { return Some(entry) };
        self.bytes = self.bytes - present.bytes() + entry.bytes();
        *present = entry;
        None
    }

    fn put(&mut self, entry: M) {
        let no = entry.stored().no;
        self.bytes += entry.bytes();
        self.numbers.insert(entry.stored().job.id(), no);
        self.jobs.insert(no, entry);
    }

    fn take(&mut self, no: i64) -> Option<M> {
        let entry = self.jobs.remove(&no)?;
        self.numbers.remove(&entry.stored().job.id());
        self.bytes -= entry.bytes();
        Some(entry)
    }
}

/// The bytes of a job's texts that may be long.
fn text_bytes(job: &Job) -> usize {
    let length = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
    let failure = job.life.last_failure.as_ref().map_or(0, |failure| length(&failure.message));
    let result = job.life.result.as_ref().map_or(0, |result| result.as_str().len());
    length(&job.life.message) + failure + result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::inline_history::InlineHistory;
    use engine::{Entropy, JobDraft, Policy, SubmitContext, Tenant, Timestamp, submit};
    use std::sync::Arc;

    /// A job and the bytes beside it.
    #[derive(Clone)]
    struct CacheEntry(Arc<Stored>, usize);

    impl CachedSize for CacheEntry {
        fn stored(&self) -> &Stored {
            &self.0
        }

        fn extra_bytes(&self) -> usize {
            self.1
        }
    }

    fn entry(no: i64, bytes: usize) -> CacheEntry {
        let draft = JobDraft { job_type: "email".into(), ..JobDraft::default() };
        let new = draft.check(SubmitContext {
            id: JobId::new(Timestamp::from_unix_ms(no), Entropy(1)),
            tenant: Tenant::default_tenant(),
            entropy: Entropy(2),
            payload_bytes_max: 1_024,
        });
        let now = Timestamp::from_unix_ms(1);
        let job = submit(&new.unwrap(), &Policy::default(), 0, now).unwrap().job;
        CacheEntry(Arc::new(Stored { no, queue: 1, job, recent: InlineHistory::default() }), bytes)
    }

    #[test]
    fn the_job_cache_is_bounded_and_keeps_used_jobs() {
        let mut job_cache = JobCache::default();
        for no in 1..=1_000 {
            job_cache.put(entry(no, 100_000));
            let first = job_cache.get(1).cloned().unwrap();
            job_cache.put(first);
            let bytes = job_cache.young.bytes + job_cache.old.bytes;
            assert!(bytes <= BYTES_MAX + 2 * 101_024, "{bytes}");
        }
        assert!(job_cache.get(2).is_none(), "it was not used");
        assert!(job_cache.by_id(entry(1_000, 0).0.job.id()).is_some());
        for no in 1..=1_000 {
            job_cache.forget(no);
        }
        let left = [&job_cache.young, &job_cache.old];
        let left = left.map(|all| (all.bytes, all.jobs.len(), all.numbers.len()));
        assert_eq!(left, [(0, 0, 0); 2]);
    }
}
