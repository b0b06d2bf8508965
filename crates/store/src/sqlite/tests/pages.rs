//! Listings of many jobs.

use super::*;
use crate::News;

/// Enough jobs that most of them are in the listing, some are not yet, and pages are cut short.
#[test]
fn listings_are_complete_with_many_jobs() {
    let house = open();
    let rare = JobDraft { subject_id: Some("rare".into()), ..email() };
    let first = house.submit(rare.clone());
    house.pass(1);
    for round in 0..30 {
        house.submit_many(1_000, if round % 2 == 0 { "acme" } else { "birch" });
        house.pass(1);
    }
    let last = house.submit(rare);
    let subject =
        || Filter::eq(engine::Field::SubjectId(engine::SubjectId::parse("rare").unwrap()));
    assert_eq!(house.list(subject()), [last, first], "one by the listing, one ahead of it");
    let created = Filter::Compare(
        engine::Comparison::Le,
        engine::Field::CreatedAt(house.job(first).envelope.created_at),
    );
    assert!(house.list(created).contains(&first), "found without walking all that came later");
    // Nothing tells where these are: the page looks at so many jobs and no more.
    let neither = Filter::Not(Box::new(Filter::Not(Box::new(subject()))));
    let (mut seen, mut before, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = house.page(neither.clone(), before, 100);
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
            scope: Scope::One(crate::conformance::house::tenant(tenant)),
            filter: Filter::Everything,
            before: None,
            limit: 1_000,
        };
        let page = block_on(house.store().list(&query)).unwrap();
        assert!(page.jobs.iter().all(|job| job.envelope.tenant.as_str() == tenant));
        assert_eq!(page.jobs.len(), 1_000);
    }
}

#[test]
fn a_match_on_the_edge_of_what_a_page_looks_at_is_not_lost() {
    const LOOKED_AT_MAX: usize = 10_000;
    let house = open();
    let rare = || JobDraft { subject_id: Some("rare".into()), ..email() };
    let edges: Vec<_> = (0..3).map(|_| house.submit(rare())).collect();
    for _ in 0..9 {
        house.submit_many(1_000, "acme");
    }
    house.submit_many(999, "acme"); // so that the last of the three is the ten thousandth
    let subject = engine::SubjectId::parse("rare").unwrap();
    let unclear = Filter::Or(vec![Filter::eq(engine::Field::SubjectId(subject))]);
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = house.page(unclear.clone(), before, 1);
        seen.extend(page.jobs.iter().map(engine::Job::id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    seen.reverse();
    assert_eq!(seen, edges, "of {LOOKED_AT_MAX} and three jobs");
}

#[test]
fn live_jobs_are_found_without_walking_all_that_have_ended() {
    let house = open();
    let (running, waiting) = (house.submit(email()), house.submit(email()));
    assert_eq!(house.take().job.id(), running);
    for _ in 0..11 {
        house.submit_many(1_000, "acme");
        let newest = house.list(Filter::Everything).into_iter();
        let cancel = |id| Request::Job { scope: Scope::All, id, command: Command::Cancel };
        house.store().execute(newest.map(cancel).collect(), News::default()).unwrap();
    }
    let is = |status| Filter::eq(engine::Field::Status(status));
    let live = Filter::Or(vec![is(engine::Status::Queued), is(engine::Status::Running)]);
    let emails = Filter::eq(engine::Field::JobType(engine::JobType::parse("email").unwrap()));
    let page = house.page(Filter::And(vec![emails, live]), None, 10);
    assert_eq!(page.jobs.iter().map(engine::Job::id).collect::<Vec<_>>(), [waiting, running]);
    assert!(page.next.is_none(), "more than a page looks at have ended");
}
