//! How fast the embedded store is, beside SQL written by hand: both in one run, in turns.
//!
//! ```sh
//! cargo run --release -p consign-platform --example speed -- lives|drain|submits|latency|depth [rounds]
//! ```
#![allow(clippy::print_stdout, reason = "it is here to be looked at")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]
#![allow(clippy::unwrap_used, missing_docs, reason = "a tool for a day")]

use engine::*;
use platform::{Batcher, Limits, Platform, Settings, SystemClock, SystemDice};
use pollster::block_on;
use rusqlite::Connection;
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{Answer, Claimed, Clock, Dice, Options, Request, Sqlite, Store};

const BATCH: usize = 1_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds: usize = words.get(1).map_or(5, |w| w.parse().unwrap());
    match words.first().map(String::as_str) {
        Some("lives") => both("lives", rounds, |d| raw_lives(d, 20), |d| our_lives(d, 20)),
        Some("drain") => both("drain", rounds, |d| raw_drain(d, 20), |d| our_drain(d, 20)),
        Some("submits") => {
            both("submits of 64", rounds, |d| raw_inserts(d, 20), |d| submits(d, 64, 30_000))
        }
        Some("batches") => {
            both("batched submits", rounds, |d| raw_inserts(d, 20), |d| our_inserts(d, 20))
        }
        Some("latency") => latency(),
        Some("depth") => depth(),
        Some("ours") => drop(our_lives(folder().path(), rounds)),
        Some("ourdrain") => drop(our_drain(folder().path(), rounds)),
        Some("oursubmits") => drop(submits(folder().path(), 64, rounds * 1_000)),
        Some("raw") => drop(raw_lives(folder().path(), rounds)),
        _ => println!("lives, drain, submits, batches, latency, depth, ours, raw"),
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(".").unwrap()
}

fn both(name: &str, rounds: usize, raw: impl Fn(&Path) -> f64, ours: impl Fn(&Path) -> f64) {
    let mut ratios = Vec::new();
    let (mut raws, mut ourss) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let r = raw(folder().path());
        let o = ours(folder().path());
        println!("{name}: raw {r:.0}/s, ours {o:.0}/s, ratio {:.3}", o / r);
        ratios.push(o / r);
        raws.push(r);
        ourss.push(o);
    }
    let mid = |v: &mut Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    println!(
        "MEDIAN {name}: raw {:.0}/s, ours {:.0}/s, ratio {:.3}",
        mid(&mut raws),
        mid(&mut ourss),
        mid(&mut ratios)
    );
}

fn payload(number: usize) -> String {
    format!(
        r#"{{"order":{number},"to":"customer-{number}@example.org","lines":[{{"sku":"A-{number}","count":2}},{{"sku":"B-7","count":1}}],"note":"please deliver to the back door, the bell is broken since May","express":true}}"#
    )
}

// ---- raw

fn raw_open(folder: &Path) -> Connection {
    let db = Connection::open(folder.join("raw.db")).unwrap();
    db.execute_batch(
        "pragma journal_mode=wal; pragma synchronous=full; pragma wal_autocheckpoint=16000; \
         pragma cache_size=-32768;
         create table job (no integer primary key, id blob not null, status integer not null, \
           run_at integer not null, attempt integer not null, lease_until integer, token blob, ended_at integer) strict;
         create unique index job_id on job (id);
         create index job_ready on job (run_at) where status = 0;
         create table payload (no integer primary key, body text not null) strict;
         create table history (no integer not null, seq integer not null, at integer not null, \
           status integer not null, primary key (no, seq)) strict, without rowid;",
    )
    .unwrap();
    db
}

fn raw_insert(db: &Connection, first: usize) {
    let clock = SystemClock::new();
    let dice = SystemDice;
    db.execute_batch("begin immediate").unwrap();
    for number in first..first + BATCH {
        let now = clock.read().wall;
        let id = JobId::new(now, dice.roll()).to_bytes();
        let no = number as i64 + 1;
        db.prepare_cached(
            "insert into job (no, id, status, run_at, attempt) values (?1, ?2, 0, ?3, 0)",
        )
        .unwrap()
        .execute((no, &id[..], now.unix_ms()))
        .unwrap();
        db.prepare_cached("insert into payload (no, body) values (?1, ?2)")
            .unwrap()
            .execute((no, payload(number)))
            .unwrap();
        raw_history(db, no, 1, 0);
    }
    db.execute_batch("commit").unwrap();
}

fn raw_history(db: &Connection, no: i64, seq: i64, status: i64) {
    db.prepare_cached("insert into history (no, seq, at, status) values (?1, ?2, ?3, ?4)")
        .unwrap()
        .execute((no, seq, 1_700_000_000_000_i64, status))
        .unwrap();
}

fn raw_claim(db: &Connection) -> Vec<i64> {
    db.execute_batch("begin immediate").unwrap();
    let mut ready =
        db.prepare_cached("select no from job where status = 0 order by run_at limit ?1").unwrap();
    let rows = ready.query_map([BATCH as i64], |row| row.get(0)).unwrap();
    let numbers: Vec<i64> = rows.map(Result::unwrap).collect();
    let dice = SystemDice;
    for no in &numbers {
        let token = dice.roll().0.to_be_bytes();
        db.prepare_cached(
            "update job set status = 1, attempt = attempt + 1, lease_until = ?2, token = ?3 where no = ?1",
        )
        .unwrap()
        .execute((no, 1_700_000_000_000_i64, &token[..]))
        .unwrap();
        raw_history(db, *no, 2, 1);
    }
    drop(ready);
    db.execute_batch("commit").unwrap();
    numbers
}

fn raw_complete(db: &Connection, numbers: &[i64]) {
    db.execute_batch("begin immediate").unwrap();
    for no in numbers {
        db.prepare_cached("update job set status = 2, ended_at = ?2 where no = ?1 and status = 1")
            .unwrap()
            .execute((no, 1_700_000_000_000_i64))
            .unwrap();
        raw_history(db, *no, 3, 2);
    }
    db.execute_batch("commit").unwrap();
}

fn raw_inserts(folder: &Path, batches: usize) -> f64 {
    let db = raw_open(folder);
    let begun = Instant::now();
    for batch in 0..batches {
        raw_insert(&db, batch * BATCH);
    }
    rate(batches, begun)
}

fn raw_lives(folder: &Path, batches: usize) -> f64 {
    let db = raw_open(folder);
    let begun = Instant::now();
    for batch in 0..batches {
        raw_insert(&db, batch * BATCH);
        let numbers = raw_claim(&db);
        raw_complete(&db, &numbers);
    }
    rate(batches, begun)
}

fn raw_drain(folder: &Path, batches: usize) -> f64 {
    let db = raw_open(folder);
    for batch in 0..batches {
        raw_insert(&db, batch * BATCH);
    }
    let begun = Instant::now();
    for _ in 0..batches {
        let numbers = raw_claim(&db);
        raw_complete(&db, &numbers);
    }
    rate(batches, begun)
}

fn rate(batches: usize, begun: Instant) -> f64 {
    (batches * BATCH) as f64 / begun.elapsed().as_secs_f64()
}

// ---- ours

fn open(folder: &Path) -> Arc<Sqlite> {
    let path = folder.join("store.db");
    let (clock, dice) = (Arc::new(SystemClock::new()), Arc::new(SystemDice));
    let mut options = Options::default();
    if let Ok(pages) = std::env::var("LOG_PAGES") {
        options.log_pages = pages.parse().unwrap();
    }
    Arc::new(Sqlite::open(path, clock, dice, options).unwrap())
}

fn draft(number: usize) -> JobDraft {
    JobDraft { job_type: "email".into(), payload: Some(payload(number)), ..JobDraft::default() }
}

fn our_insert(store: &Sqlite, first: usize) {
    let (clock, dice) = (SystemClock::new(), SystemDice);
    let new = |number| {
        draft(number)
            .check(Intake {
                id: JobId::new(clock.read().wall, dice.roll()),
                tenant: Tenant::default_tenant(),
                chance: dice.roll(),
                payload_bytes_max: 65_536,
            })
            .unwrap()
    };
    let jobs = (first..first + BATCH).map(new).collect();
    for reply in block_on(store.execute(vec![Request::Submit(jobs)])).unwrap() {
        reply.unwrap();
    }
}

fn wish(name: usize) -> Wish {
    Wish {
        worker: WorkerId::parse("worker-1").unwrap(),
        host: None,
        claim: ClaimId::parse(&format!("claim-{name}")).unwrap(),
        job_types: vec![JobType::parse("email").unwrap()],
        max: BATCH,
        lease: None,
    }
}

fn our_claim(store: &Sqlite, name: usize) -> Vec<Claimed> {
    let request = Request::Claim { scope: Scope::All, wish: wish(name) };
    match block_on(store.execute(vec![request])).unwrap().pop().unwrap().unwrap() {
        Answer::Claimed(jobs) => jobs,
        _ => unreachable!(),
    }
}

fn our_settle(store: &Sqlite, jobs: Vec<Claimed>) {
    let ending = EndingDraft::new(OutcomeWord::Completed).check().unwrap();
    let settle = |claimed: Claimed| Request::Job {
        scope: Scope::All,
        id: claimed.job.id(),
        command: Command::Settle {
            token: claimed.job.lease().unwrap().token,
            ending: ending.clone(),
        },
    };
    let requests = jobs.into_iter().map(settle).collect();
    for reply in block_on(store.execute(requests)).unwrap() {
        reply.unwrap();
    }
}

fn our_inserts(folder: &Path, batches: usize) -> f64 {
    let store = open(folder);
    let begun = Instant::now();
    for batch in 0..batches {
        our_insert(&store, batch * BATCH);
    }
    rate(batches, begun)
}

fn our_lives(folder: &Path, batches: usize) -> f64 {
    let store = open(folder);
    let begun = Instant::now();
    for batch in 0..batches {
        our_insert(&store, batch * BATCH);
        let jobs = our_claim(&store, batch);
        assert_eq!(jobs.len(), BATCH);
        our_settle(&store, jobs);
    }
    rate(batches, begun)
}

fn our_drain(folder: &Path, batches: usize) -> f64 {
    let store = open(folder);
    for batch in 0..batches {
        our_insert(&store, batch * BATCH);
    }
    drop(store); // nothing is remembered of what was submitted
    let store = open(folder);
    drain(&store, batches)
}

fn drain(store: &Sqlite, batches: usize) -> f64 {
    drain_from(store, 0, batches)
}

fn drain_from(store: &Sqlite, first: usize, batches: usize) -> f64 {
    let begun = Instant::now();
    for batch in first..first + batches {
        let jobs = our_claim(store, batch);
        assert_eq!(jobs.len(), BATCH);
        our_settle(store, jobs);
    }
    rate(batches, begun)
}

/// Callers that submit one by one, each waiting for its answer; 64 futures polled by two threads.
fn submits(folder: &Path, callers: usize, jobs: usize) -> f64 {
    let (clock, dice) = (Arc::new(SystemClock::new()), Arc::new(SystemDice));
    let batcher = Arc::new(Batcher::start(open(folder), Limits::default()).unwrap());
    let platform = Arc::new(Platform::new(batcher, clock, dice, Settings::default()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let begun = Instant::now();
    let each = jobs / callers;
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let platform = platform.clone();
            runtime.spawn(async move {
                let tenant = Tenant::default_tenant();
                let mut took = Vec::with_capacity(each);
                for number in 0..each {
                    let at = Instant::now();
                    platform.submit(&tenant, draft(caller * each + number)).await.unwrap();
                    took.push(at.elapsed());
                }
                took
            })
        })
        .collect();
    let mut took: Vec<Duration> =
        tasks.into_iter().flat_map(|task| runtime.block_on(task).unwrap()).collect();
    let rate = (each * callers) as f64 / begun.elapsed().as_secs_f64();
    took.sort();
    println!(
        "  submit under load: p50 {:?}, p99 {:?}, max {:?}",
        took[took.len() / 2],
        took[took.len() * 99 / 100],
        took[took.len() - 1]
    );
    rate
}

/// An idle system: from submit to claimed, beside one raw durable commit.
fn latency() {
    let (folder, other) = (folder(), folder());
    let db = raw_open(other.path());
    let (clock, dice) = (Arc::new(SystemClock::new()), Arc::new(SystemDice));
    let batcher = Arc::new(Batcher::start(open(folder.path()), Limits::default()).unwrap());
    let platform = Platform::new(batcher.clone(), clock, dice, Settings::default());
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for number in 0..400 {
        let standing = batcher.stand(Scope::All, Wish { max: 1, ..wish(number) });
        std::thread::sleep(Duration::from_millis(2));
        let at = Instant::now();
        block_on(platform.submit(&Tenant::default_tenant(), draft(number))).unwrap();
        let jobs = block_on(standing).unwrap();
        ours.push(at.elapsed());
        assert_eq!(jobs.len(), 1);
        std::thread::sleep(Duration::from_millis(2));
        let at = Instant::now();
        db.execute_batch("begin immediate").unwrap();
        db.prepare_cached("insert into payload (no, body) values (?1, ?2)")
            .unwrap()
            .execute((number as i64 + 1, payload(number)))
            .unwrap();
        db.execute_batch("commit").unwrap();
        raws.push(at.elapsed());
    }
    ours.sort();
    raws.sort();
    let (o, r) = (ours[200], raws[200]);
    println!(
        "idle submit→claimed p50 {o:?}, raw commit p50 {r:?}, ratio {:.2}",
        o.as_secs_f64() / r.as_secs_f64()
    );
}

/// Draining from a short and from a long queue.
fn depth() {
    let mut rates = Vec::new();
    for jobs in [10_000, 1_000_000] {
        let folder = folder();
        let store = open(folder.path());
        let begun = Instant::now();
        for batch in 0..jobs / BATCH {
            our_insert(&store, batch * BATCH);
        }
        println!("{jobs} submitted at {:.0}/s", rate(jobs / BATCH, begun));
        drop(store);
        let store = open(folder.path());
        rates.push(drain(&store, 10));
        if jobs > 10_000 {
            println!("  and the next 100,000 at {:.0}/s", drain_from(&store, 10, 100));
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap().to_owned();
        println!("{jobs} queued: drained at {:.0}/s, {line}", rates.last().unwrap());
        let size = std::fs::metadata(folder.path().join("store.db")).unwrap().len();
        println!("  file {} MiB", size >> 20);
    }
    println!("depth ratio {:.3}", rates[1] / rates[0]);
}
