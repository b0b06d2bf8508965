//! Pages of jobs.

use super::fixture::{Fixture, email, ending, job_type, only};
use crate::Query;
use engine::{
    Command, Comparison, CorrelationId, EndingDraft, ErrorCode, Field, Filter, JobDraft, JobId,
    Outcome, Status, SubjectId, Tenant,
};
use pollster::block_on;
use std::collections::BTreeSet;

pub(crate) fn pages_are_newest_first_and_complete(fixture: &Fixture) {
    let mut submitted = Vec::new();
    for _ in 0..25 {
        submitted.push(fixture.submit(email()));
        fixture.pass(1);
    }
    submitted.reverse();
    for limit in [1, 7, 25, 26] {
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = fixture.page(Filter::Everything, before, limit);
            assert!(page.jobs.len() <= limit);
            seen.extend(page.jobs.iter().map(engine::Job::id));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, submitted, "in pages of {limit}");
    }
}

fn three_different_jobs(fixture: &Fixture) -> [JobId; 3] {
    let parent = fixture.submit(JobDraft { correlation_id: Some("c-1".into()), ..email() });
    fixture.complete(&fixture.take()).unwrap();
    fixture.pass(10);
    let scan = JobDraft {
        job_type: "scan".into(),
        subject_id: Some("s-1".into()),
        parent_id: Some(parent.to_string()),
        ..email()
    };
    let failed = fixture.submit(scan);
    let claimed = fixture.take_from("scan");
    let (error_code, retryable) = (Some("NO_FILE".into()), Some(false));
    let draft = EndingDraft { error_code, retryable, ..ending(Outcome::Failed) };
    fixture.settle(&claimed, &draft).unwrap();
    fixture.pass(10);
    [parent, failed, fixture.submit(email())]
}

pub(crate) fn every_filter_field_filters(fixture: &Fixture) {
    let [parent, failed, waiting] = three_different_jobs(fixture);
    let is = |field| fixture.list(Filter::eq(field));
    assert_eq!(is(Field::Status(Status::Failed)), [failed]);
    assert_eq!(is(Field::JobType(job_type("email"))), [waiting, parent]);
    assert_eq!(is(Field::SubjectId(SubjectId::parse("s-1").unwrap())), [failed]);
    assert_eq!(is(Field::CorrelationId(CorrelationId::parse("c-1").unwrap())), [parent]);
    assert_eq!(is(Field::ErrorCode(ErrorCode::parse("NO_FILE").unwrap())), [failed]);
    assert_eq!(is(Field::ParentId(parent)), [failed]);
    let created = fixture.job(failed).envelope.created_at;
    assert_eq!(is(Field::CreatedAt(created)), [failed]);
    let completed = fixture.job(parent).ended_at().unwrap();
    assert_eq!(is(Field::CompletedAt(completed)), [parent]);
    let compare = |comparison, field| fixture.list(Filter::Compare(comparison, field));
    assert_eq!(compare(Comparison::Gt, Field::CreatedAt(created)), [waiting]);
    assert_eq!(compare(Comparison::Ge, Field::CreatedAt(created)), [waiting, failed]);
    assert_eq!(compare(Comparison::Lt, Field::CreatedAt(created)), [parent]);
    assert_eq!(compare(Comparison::Le, Field::CreatedAt(created)), [failed, parent]);
    assert_eq!(
        compare(Comparison::Le, Field::CompletedAt(completed)),
        [parent],
        "absent is no time"
    );
    let not_parent = Field::ParentId(parent);
    assert_eq!(compare(Comparison::Ne, not_parent), [waiting, parent], "absent differs from all");
}

pub(crate) fn a_filter_by_tenant_shows_what_that_tenant_sees(fixture: &Fixture) {
    let acme = fixture.submit_as(email(), "acme");
    fixture.pass(1);
    let birch = fixture.submit_as(JobDraft { job_type: "scan".into(), ..email() }, "birch");
    fixture.pass(1);
    let later = fixture.submit_as(email(), "birch");
    let of = |tenant: &str| Filter::eq(Field::Tenant(Tenant::parse(tenant).unwrap()));
    let emails = Filter::eq(Field::JobType(job_type("email")));
    assert_eq!(fixture.list(of("acme")), [acme]);
    assert_eq!(fixture.list(of("birch")), [later, birch]);
    assert_eq!(fixture.list(of("cedar")), []);
    assert_eq!(fixture.list(Filter::And(vec![emails, of("birch")])), [later]);
    assert_eq!(fixture.list(Filter::Or(vec![of("acme"), of("birch")])), [later, birch, acme]);
    assert_eq!(fixture.list(Filter::And(vec![of("acme"), of("birch")])), []);
    assert_eq!(fixture.list(Filter::Not(Box::new(of("birch")))), [acme]);
    let foreign = Query { scope: only("acme"), filter: of("birch"), before: None, limit: 10 };
    let foreign = block_on(fixture.store().list(&foreign)).unwrap().jobs;
    assert!(foreign.is_empty(), "a filter never widens the scope");
}

pub(crate) fn filters_combine(fixture: &Fixture) {
    let [parent, failed, waiting] = three_different_jobs(fixture);
    let email = || Filter::eq(Field::JobType(job_type("email")));
    let done = || Filter::eq(Field::Status(Status::Completed));
    assert_eq!(fixture.list(Filter::And(vec![email(), done()])), [parent]);
    let not_done = Filter::Not(Box::new(done()));
    assert_eq!(fixture.list(Filter::And(vec![email(), not_done])), [waiting]);
    let scan = Filter::eq(Field::JobType(job_type("scan")));
    assert_eq!(fixture.list(Filter::Or(vec![scan, done()])), [failed, parent]);
    assert!(fixture.list(Filter::Or(Vec::new())).is_empty());
    assert_eq!(fixture.list(Filter::And(Vec::new())).len(), 3);
}

pub(crate) fn a_page_is_never_longer_than_its_bound(fixture: &Fixture) {
    for _ in 0..2 {
        fixture.submit_many(600, "acme");
    }
    assert_eq!(fixture.page(Filter::Everything, None, usize::MAX).jobs.len(), crate::PAGE_MAX);
    assert_eq!(fixture.page(Filter::Everything, None, 0).jobs.len(), 1, "and never empty by wish");
}

pub(crate) fn a_page_goes_on_when_its_last_job_is_erased(fixture: &Fixture) {
    let jobs: Vec<JobId> = (0..4).map(|_| fixture.submit(email())).collect();
    let first = fixture.page(Filter::Everything, None, 2);
    for job in &first.jobs {
        fixture.must(job.id(), Command::Cancel);
        fixture.must(job.id(), Command::Erase);
    }
    let second = fixture.page(Filter::Everything, first.next, 2);
    let seen = first.jobs.iter().chain(&second.jobs).map(engine::Job::id);
    assert_eq!(seen.collect::<BTreeSet<_>>(), jobs.into_iter().collect());
    assert_eq!(second.next, None);
}
