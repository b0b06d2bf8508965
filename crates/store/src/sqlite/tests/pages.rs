//! Listings of many jobs.

use super::*;
use crate::Notification;

/// Enough jobs that most are in the listing, some are not yet, and pages are cut short.
#[test]
fn listings_are_complete_with_many_jobs() {
    let fixture = open();
    let rare = JobDraft { subject_id: Some("rare".into()), ..email() };
    let first = fixture.submit(rare.clone());
    fixture.pass(1);
    for round in 0..30 {
        fixture.submit_many(1_000, if round % 2 == 0 { "acme" } else { "birch" });
        fixture.pass(1);
    }
    let last = fixture.submit(rare);
    let subject =
        || Filter::eq(engine::Field::SubjectId(engine::SubjectId::parse("rare").unwrap()));
    assert_eq!(fixture.list(subject()), [last, first], "one by the listing, one ahead of it");
    let created = Filter::Compare(
        engine::Comparison::Le,
        engine::Field::CreatedAt(fixture.job(first).envelope.created_at),
    );
    assert!(fixture.list(created).contains(&first), "found without walking all that came later");
    // No index finds these jobs: a page reads its maximum of jobs and stops.
    let neither = Filter::Not(Box::new(Filter::Not(Box::new(subject()))));
    let (mut seen, mut before, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = fixture.page(neither.clone(), before, 100);
        seen.extend(page.jobs.iter().map(engine::Job::id));
        pages += 1;
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, [last, first]);
    assert!(pages > 2, "{pages} pages");
    for tenant in ["acme", "birch"] {
        let query = Query {
            scope: Scope::One(crate::conformance::fixture::tenant(tenant)),
            filter: Filter::Everything,
            before: None,
            limit: 1_000,
        };
        let page = block_on(fixture.store().list(&query)).unwrap();
        assert!(page.jobs.iter().all(|job| job.envelope.tenant.as_str() == tenant));
        assert_eq!(page.jobs.len(), 1_000);
    }
}

#[test]
fn a_match_at_the_scan_limit_of_a_page_is_not_lost() {
    const JOBS_READ_MAX: usize = 10_000;
    let fixture = open();
    let rare = || JobDraft { subject_id: Some("rare".into()), ..email() };
    let edges: Vec<_> = (0..3).map(|_| fixture.submit(rare())).collect();
    for _ in 0..9 {
        fixture.submit_many(1_000, "acme");
    }
    fixture.submit_many(999, "acme"); // so that the last of the three is the ten thousandth
    let subject = engine::SubjectId::parse("rare").unwrap();
    let unclear = Filter::Or(vec![Filter::eq(engine::Field::SubjectId(subject))]);
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = fixture.page(unclear.clone(), before, 1);
        seen.extend(page.jobs.iter().map(engine::Job::id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    seen.reverse();
    assert_eq!(seen, edges, "of {JOBS_READ_MAX} and three jobs");
}

#[test]
fn live_jobs_are_found_without_walking_all_that_have_ended() {
    let fixture = open();
    let (running, waiting) = (fixture.submit(email()), fixture.submit(email()));
    assert_eq!(fixture.take().job.id(), running);
    for _ in 0..11 {
        fixture.submit_many(1_000, "acme");
        let newest = fixture.list(Filter::Everything).into_iter();
        let cancel = |id| Request::Command { scope: Scope::All, id, command: Command::Cancel };
        fixture.store().execute(newest.map(cancel).collect(), Notification::default()).unwrap();
    }
    let is = |status| Filter::eq(engine::Field::Status(status));
    let live = Filter::Or(vec![is(engine::Status::Queued), is(engine::Status::Running)]);
    let emails = Filter::eq(engine::Field::JobType(engine::JobType::parse("email").unwrap()));
    let page = fixture.page(Filter::And(vec![emails, live]), None, 10);
    assert_eq!(page.jobs.iter().map(engine::Job::id).collect::<Vec<_>>(), [waiting, running]);
    assert!(page.next.is_none(), "more than a page looks at have ended");
}
