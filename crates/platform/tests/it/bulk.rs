//! Verbs about many jobs, the poison queue, and queues by type.

use crate::{
    controlled_store::ControlledStore,
    fixture::{Fixture, refused_fields},
};
use engine::{
    ClaimRequest, EndingDraft, ErrorCode, Field, Filter, Grant, Job, JobDraft, JobId, JobType,
    Outcome, Pattern, Right, Scope, Status, Tenant, WorkerId,
};
use platform::{
    BulkExtent, BulkResult, BulkVerb, Error, JobPermission, JobSelection, Platform, PoisonQuery,
    QueueSummary, Report, Settings,
};
use pollster::block_on;
use std::{collections::BTreeMap, time::Duration};
use store::StoreError;

const ANY_JOB: JobPermission<'static> = &|_| true;

/// Servers run these futures on any thread, so they must be `Send`.
fn block_on_send<T>(future: impl Future<Output = T> + Send) -> T {
    block_on(future)
}

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).unwrap()
}

fn job_type(name: &str) -> JobType {
    JobType::parse(name).unwrap()
}

fn is_type(name: &str) -> Filter {
    Filter::eq(Field::JobType(job_type(name)))
}

fn submit(platform: &Platform, tenant_name: &str, name: &str, count: usize) -> Vec<JobId> {
    let draft = JobDraft { job_type: name.into(), ..JobDraft::default() };
    let mut ids = Vec::new();
    for page in vec![draft; count].chunks(1_000) {
        let submitted = block_on(platform.submit_all(&tenant(tenant_name), page.to_vec())).unwrap();
        ids.extend(submitted.into_iter().map(|submitted| submitted.job_id));
    }
    ids
}

fn claim(platform: &Platform, name: &str, max: usize) -> Vec<store::Claimed> {
    let claim_request = ClaimRequest {
        job_types: vec![job_type(name)],
        ..crate::fixture::claim_request(name, max)
    };
    block_on(platform.claim(&Scope::All, claim_request)).unwrap()
}

/// Jobs that were tried and are now poisoned with this code.
fn poison(
    platform: &Platform,
    tenant_name: &str,
    name: &str,
    code: &str,
    count: usize,
) -> Vec<JobId> {
    let ids = submit(platform, tenant_name, name, count);
    for page in 0..count.div_ceil(1_000) {
        let claim_request = crate::fixture::claim_request(&format!("{code}-{page}"), 1_000);
        let claim_request = ClaimRequest { job_types: vec![job_type(name)], ..claim_request };
        let claimed = block_on(platform.claim(&Scope::All, claim_request)).unwrap();
        settle_as_poisoned(platform, &claimed, code);
    }
    ids
}

fn settle_as_poisoned(platform: &Platform, claimed: &[store::Claimed], code: &str) {
    let unreadable =
        EndingDraft { error_code: Some(code.into()), ..EndingDraft::new(Outcome::Poisoned) };
    let ending = unreadable.check().unwrap();
    let report = |claimed: &store::Claimed| Report {
        id: claimed.job.id(),
        token: claimed.job.lease().unwrap().token,
        ending: ending.clone(),
    };
    let reports = claimed.iter().map(report).collect();
    let results = block_on(platform.settle(&Scope::All, reports)).unwrap();
    assert!(results.iter().all(|result| matches!(result, Ok(Status::Poisoned))));
}

fn job(platform: &Platform, id: JobId) -> Job {
    block_on(platform.job(&Scope::All, id)).unwrap()
}

fn statuses(platform: &Platform, ids: &[JobId]) -> BTreeMap<&'static str, usize> {
    let mut tally = BTreeMap::new();
    ids.iter().for_each(|id| *tally.entry(job(platform, *id).status().as_str()).or_default() += 1);
    tally
}

fn try_bulk(
    platform: &Platform,
    verb: BulkVerb,
    selection: JobSelection,
) -> impl Future<Output = Result<BulkResult, Error>> {
    platform.bulk(&Scope::All, verb, selection, BulkExtent::default(), ANY_JOB)
}

/// How many jobs the verb changed, and how many it passed over.
fn bulk(platform: &Platform, verb: BulkVerb, selection: JobSelection) -> (u64, u64) {
    let result = block_on(try_bulk(platform, verb, selection)).unwrap();
    assert_eq!(result.next, None, "nothing is left to do");
    (result.matched, result.passed_over)
}

#[test]
fn all_live_jobs_of_a_filter_are_cancelled_and_no_others() {
    let platform = Fixture::new().platform;
    let ended = poison(&platform, "acme", "email", "BAD", 2);
    let emails = submit(&platform, "acme", "email", 2_500);
    let scans = submit(&platform, "acme", "scan", 3);
    let running = claim(&platform, "email", 2);
    let selection = JobSelection::Matching(is_type("email"));
    assert_eq!(bulk(&platform, BulkVerb::Cancel, selection.clone()), (2_500, 0));
    assert_eq!(statuses(&platform, &emails), [("Cancelled", 2_498), ("Running", 2)].into());
    assert!(running.iter().all(|claimed| job(&platform, claimed.job.id()).life.cancel_requested));
    assert_eq!(statuses(&platform, &ended), [("Poisoned", 2)].into());
    assert_eq!(statuses(&platform, &scans), [("Queued", 3)].into());
    let again = bulk(&platform, BulkVerb::Cancel, selection);
    assert_eq!(again, (2, 0), "only running jobs are left to cancel");
}

#[test]
fn a_bulk_cancel_skips_jobs_the_caller_may_not_change() {
    let platform = Fixture::new().platform;
    let (acme, birch) =
        (submit(&platform, "acme", "email", 3), submit(&platform, "birch", "email", 3));
    let scope = Scope::One(tenant("acme"));
    let excluded = acme[1];
    let may = move |job: &Job| job.id() != excluded;
    let everything = JobSelection::Matching(Filter::Everything);
    let cancel = |selection| {
        let extent = BulkExtent::default();
        let work = platform.bulk(&scope, BulkVerb::Cancel, selection, extent, &may);
        let result = block_on_send(work).unwrap();
        (result.matched, result.passed_over)
    };
    assert_eq!(cancel(everything), (2, 0), "how many it may not see is not for it either");
    assert_eq!(cancel(JobSelection::Ids([acme, birch.clone()].concat())), (0, 6));
    assert_eq!(job(&platform, excluded).status(), Status::Queued);
    assert_eq!(statuses(&platform, &birch), [("Queued", 3)].into());
}

#[test]
fn bulk_redrive_and_discard_change_only_poisoned_jobs() {
    let platform = Fixture::new().platform;
    let poisoned = poison(&platform, "acme", "email", "BAD", 5);
    let cancelled = submit(&platform, "acme", "email", 1)[0];
    block_on(platform.cancel(&Scope::All, cancelled, None)).unwrap();
    let these = |ids: &[JobId]| JobSelection::Ids(ids.to_vec());
    let discard = |selection| bulk(&platform, BulkVerb::DiscardPoisoned, selection);
    let redrive = |selection| bulk(&platform, BulkVerb::RedrivePoisoned, selection);
    assert_eq!(discard(these(&[poisoned[0], cancelled])), (1, 1));
    assert_eq!(discard(these(&poisoned[..1])), (0, 1), "it is out of the poison queue");
    assert_eq!(redrive(these(&[poisoned[0], poisoned[1], cancelled])), (1, 2));
    assert_eq!(job(&platform, poisoned[1]).status(), Status::Queued);
    assert_eq!(redrive(JobSelection::Matching(is_type("scan"))), (0, 0));
    assert_eq!(redrive(JobSelection::Matching(Filter::Everything)), (3, 1), "one was discarded");
    assert_eq!(statuses(&platform, &poisoned), [("Poisoned", 1), ("Queued", 4)].into());
    assert_eq!(job(&platform, cancelled).status(), Status::Cancelled);
}

#[test]
fn bulk_redrive_is_for_every_dead_end() {
    let platform = Fixture::new().platform;
    let mut jobs = poison(&platform, "acme", "email", "BAD", 2);
    jobs.extend(submit(&platform, "acme", "email", 2));
    bulk(&platform, BulkVerb::Cancel, JobSelection::Ids(jobs[2..].to_vec()));
    jobs.extend(submit(&platform, "acme", "email", 1));
    let before = statuses(&platform, &jobs);
    assert_eq!(before, [("Cancelled", 2), ("Poisoned", 2), ("Queued", 1)].into());
    let everything = || JobSelection::Matching(Filter::Everything);
    let dry_run = BulkExtent { dry_run: true, ..BulkExtent::default() };
    let verb = BulkVerb::Redrive;
    let counted = block_on(platform.bulk(&Scope::All, verb, everything(), dry_run, ANY_JOB));
    assert_eq!(counted.unwrap().matched, 4);
    assert_eq!(statuses(&platform, &jobs), before, "a dry run changes nothing");
    assert_eq!(bulk(&platform, verb, everything()), (4, 0));
    assert_eq!(statuses(&platform, &jobs), [("Queued", 5)].into());
    assert_eq!(bulk(&platform, verb, JobSelection::Ids(jobs)), (0, 5), "none has ended");
}

#[test]
fn a_discarded_job_is_redriven_by_those_who_name_it() {
    let platform = Fixture::new().platform;
    let poisoned = poison(&platform, "acme", "email", "BAD", 1);
    let named = || JobSelection::Ids(poisoned.clone());
    assert_eq!(bulk(&platform, BulkVerb::DiscardPoisoned, named()), (1, 0));
    let everything = JobSelection::Matching(Filter::Everything);
    assert_eq!(bulk(&platform, BulkVerb::Redrive, everything), (0, 1));
    assert_eq!(bulk(&platform, BulkVerb::RedrivePoisoned, named()), (0, 1));
    assert_eq!(bulk(&platform, BulkVerb::Redrive, named()), (1, 0));
    assert_eq!(statuses(&platform, &poisoned), [("Queued", 1)].into());
}

#[test]
fn a_bulk_verb_goes_page_by_page_and_meets_each_job_once() {
    let platform = Fixture::new().platform;
    let jobs = poison(&platform, "acme", "email", "BAD", 5);
    let (mut before, mut pages) = (None, Vec::new());
    loop {
        let extent = BulkExtent { before, limit: Some(2), ..BulkExtent::default() };
        let everything = JobSelection::Matching(Filter::Everything);
        let work = platform.bulk(&Scope::All, BulkVerb::Redrive, everything, extent, ANY_JOB);
        let page = block_on(work).unwrap();
        pages.push(page.matched);
        // A job that fails again at once is behind the cursor.
        settle_as_poisoned(&platform, &claim(&platform, "email", 2), "BAD");
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(pages, [2, 2, 1]);
    assert_eq!(statuses(&platform, &jobs), [("Poisoned", 5)].into());
}

#[test]
fn lists_have_a_bound() {
    let platform = Fixture::new().platform;
    let id = submit(&platform, "acme", "email", 1)[0];
    let many = JobSelection::Ids(vec![id; 1_001]);
    assert_eq!(refused_fields(block_on(try_bulk(&platform, BulkVerb::Cancel, many))), ["jobIds"]);
}

#[test]
fn a_bulk_cancel_that_fails_halfway_has_an_unknown_outcome() {
    let store = ControlledStore::new();
    let platform = store.platform(Settings::default());
    submit(&platform, "acme", "email", 1_500);
    let cancel = || {
        let everything = JobSelection::Matching(Filter::Everything);
        block_on(try_bulk(&platform, BulkVerb::Cancel, everything)).map(|result| result.matched)
    };
    store.fail_after(1, || StoreError::Unavailable(None));
    let failed = cancel();
    assert!(matches!(failed, Err(Error::OutcomeUnknown { .. })), "{failed:?}");
    store.fail_after(0, || StoreError::Unavailable(None));
    let failed = cancel();
    assert!(matches!(failed, Err(Error::Store(StoreError::Unavailable(_)))), "{failed:?}");
    store.fail_after(2, || StoreError::Unavailable(None));
    assert_eq!(cancel().unwrap(), 500, "what was left");
}

fn unlimited() -> Grant {
    let rights = [Right::JobsRead].into_iter().collect();
    Grant { scope: Scope::All, rights, types: Vec::new(), subjects: Vec::new() }
}

fn default_query() -> PoisonQuery {
    PoisonQuery { scope: Scope::All, job_type: None, error_code: None, before: None, limit: 10 }
}

#[test]
fn the_poison_queue_is_shown_by_reason() {
    let platform = Fixture::new().platform;
    poison(&platform, "acme", "email", "BAD_PAYLOAD", 3);
    poison(&platform, "acme", "email", "SMTP_DOWN", 2);
    let other = poison(&platform, "birch", "scan", "NO_FILE", 1);
    let discarded = poison(&platform, "acme", "email", "GONE", 1);
    block_on(platform.discard(&Scope::All, discarded[0], None)).unwrap();
    let read_page = |query: PoisonQuery| block_on(platform.poisoned(&query, &unlimited())).unwrap();
    let counts = |page: &platform::PoisonPage| -> Vec<(String, u64)> {
        let reasons = page.reasons.as_ref().expect("with the first page");
        assert!(reasons.complete);
        reasons.counts.iter().map(|(code, count)| (code.to_string(), *count)).collect()
    };
    let expected_counts = |expected: &[(&str, u64)]| -> Vec<(String, u64)> {
        expected.iter().map(|(code, count)| ((*code).into(), *count)).collect()
    };
    let all = read_page(default_query());
    assert_eq!((all.jobs.len(), all.next), (6, None));
    assert_eq!(
        counts(&all),
        expected_counts(&[("BAD_PAYLOAD", 3), ("NO_FILE", 1), ("SMTP_DOWN", 2)])
    );
    let scans = read_page(PoisonQuery { job_type: Some(job_type("scan")), ..default_query() });
    assert_eq!(scans.jobs.iter().map(Job::id).collect::<Vec<_>>(), other);
    assert_eq!(counts(&scans), expected_counts(&[("NO_FILE", 1)]));
    let smtp = Some(ErrorCode::parse("SMTP_DOWN").unwrap());
    let down = read_page(PoisonQuery {
        error_code: smtp,
        job_type: Some(job_type("email")),
        ..default_query()
    });
    assert_eq!(down.jobs.len(), 2);
    assert_eq!(
        counts(&down),
        expected_counts(&[("BAD_PAYLOAD", 3), ("SMTP_DOWN", 2)]),
        "the counts include the other reasons"
    );
    let acme = Scope::One(tenant("acme"));
    assert_eq!(read_page(PoisonQuery { scope: acme, ..default_query() }).jobs.len(), 5);
    // Whether the store counts or the jobs are read, the counts cover what the caller may see.
    let pattern = |text| vec![Pattern::parse("types", text).unwrap()];
    let scans = Grant { types: pattern("scan"), ..unlimited() };
    let scans = block_on_send(platform.poisoned(&default_query(), &scans)).unwrap();
    assert_eq!((scans.jobs.len(), counts(&scans)), (1, expected_counts(&[("NO_FILE", 1)])));
    let about = Grant { subjects: pattern("order/*"), ..unlimited() };
    let no_jobs = block_on_send(platform.poisoned(&default_query(), &about)).unwrap();
    assert!(no_jobs.jobs.is_empty() && counts(&no_jobs).is_empty());
}

#[test]
fn poison_queue_pages_hold_every_poisoned_job() {
    let platform = Fixture::new().platform;
    let poisoned = poison(&platform, "acme", "email", "BAD", 30);
    // Most are discarded, so one page needs several reads.
    let kept: Vec<JobId> = poisoned.iter().copied().step_by(6).collect();
    let discarded = poisoned.iter().filter(|id| !kept.contains(id)).copied().collect();
    bulk(&platform, BulkVerb::DiscardPoisoned, JobSelection::Ids(discarded));
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let query = PoisonQuery { before, limit: 2, ..default_query() };
        let page = block_on(platform.poisoned(&query, &unlimited())).unwrap();
        assert!(page.jobs.len() <= 2);
        assert_eq!(page.reasons.is_some(), before.is_none());
        seen.extend(page.jobs.iter().map(Job::id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    seen.sort();
    let mut kept = kept;
    kept.sort();
    assert_eq!(seen, kept);
}

fn summaries(platform: &Platform, scope: &Scope) -> Vec<QueueSummary> {
    block_on(platform.queue_sums(scope, &|_| true)).unwrap().types
}

#[test]
fn queues_are_summed_up_by_type_and_each_worker_counts_once() {
    let fixture = Fixture::new();
    let platform = &fixture.platform;
    submit(platform, "acme", "email", 2);
    fixture.clock.pass(Duration::from_secs(7));
    submit(platform, "birch", "email", 3);
    submit(platform, "birch", "scan", 1);
    fixture.clock.pass(Duration::from_secs(3));
    let own = ClaimRequest {
        worker: WorkerId::parse("own").unwrap(),
        job_types: vec![job_type("email")],
        ..crate::fixture::claim_request("c", 1)
    };
    let acme = Scope::One(tenant("acme"));
    block_on(platform.claim(&acme, own)).unwrap();
    block_on(platform.claim(&Scope::All, crate::fixture::claim_request("d", 1))).unwrap();
    block_on(platform.pause(&Scope::One(tenant("birch")), job_type("email"), None, None)).unwrap();
    let all = summaries(platform, &Scope::All);
    assert_eq!(all.iter().map(|q| q.job_type.as_str()).collect::<Vec<_>>(), ["email", "scan"]);
    let email = &all[0];
    assert_eq!((email.queued + email.running, email.running), (5, 2));
    assert_eq!((email.live_workers, email.paused), (2, false));
    assert_eq!((all[1].live_workers, all[1].due), (0, 1));
    assert_eq!(all[1].oldest_age, Some(Duration::from_secs(3)));
    let birch = summaries(platform, &Scope::One(tenant("birch")));
    assert_eq!(
        (birch[0].live_workers, birch[0].paused),
        (1, true),
        "one worker claims for all tenants"
    );
    block_on(platform.pause(&Scope::All, job_type("email"), None, None)).unwrap();
    let all = summaries(platform, &Scope::All);
    assert!(all[0].paused && !all[1].paused);
}

#[test]
fn queues_are_summed_up_by_tenant() {
    let fixture = Fixture::new();
    let platform = &fixture.platform;
    submit(platform, "acme", "email", 2);
    submit(platform, "acme", "scan", 1);
    fixture.clock.pass(Duration::from_secs(7));
    submit(platform, "birch", "email", 3);
    block_on(platform.claim(&Scope::One(tenant("birch")), crate::fixture::claim_request("c", 1)))
        .unwrap();
    let sums = block_on(platform.queue_sums(&Scope::All, &|_| true)).unwrap();
    let tenants: Vec<_> = sums.tenants.iter().map(|sums| sums.tenant.as_str()).collect();
    assert_eq!(tenants, ["acme", "birch"]);
    let numbers = |at: usize| (sums.tenants[at].queued, sums.tenants[at].running);
    assert_eq!((numbers(0), numbers(1)), ((3, 0), (2, 1)));
    assert_eq!(sums.tenants[0].oldest_age, Some(Duration::from_secs(7)));
    let only_scans = |job_type: &JobType| job_type.as_str() == "scan";
    let sums = block_on(platform.queue_sums(&Scope::All, &only_scans)).unwrap();
    assert_eq!((sums.types.len(), sums.tenants.len(), sums.tenants[0].queued), (1, 1, 1));
}

#[test]
fn a_pause_of_all_tenants_tells_one_of_them_no_more_than_its_own_queues() {
    let platform = Fixture::new().platform;
    submit(&platform, "acme", "email", 1);
    submit(&platform, "birch", "scan", 1);
    for name in ["email", "scan", "print"] {
        block_on(platform.pause(&Scope::All, job_type(name), None, None)).unwrap();
    }
    let acme = Scope::One(tenant("acme"));
    block_on(platform.pause(&acme, job_type("letter"), None, None)).unwrap();
    let types = |scope: &Scope| -> Vec<String> {
        let paused = summaries(&platform, scope).into_iter().filter(|queue| queue.paused);
        paused.map(|queue| queue.job_type.to_string()).collect()
    };
    assert_eq!(types(&acme), ["email", "letter"], "nothing of birch, and its own before a job");
    assert_eq!(types(&Scope::All), ["email", "print", "scan"]);
}
