//! A transaction that is held open beside a load: `cargo xtask soak`, or by hand
//!
//! ```sh
//! cargo run --release -p consign-bench --example soak -- --minutes 10
//! ```
//!
//! The PostgreSQL is one of its own, on a private port, which ends with this process.
#![allow(clippy::print_stdout, reason = "it is here to be looked at")]

use bench::{RunFolder, SOAK_JOBS_PER_SECOND, SOAK_RATIO_MAX, Soak, Times, soak};
use std::{error::Error, time::Duration};
use test_postgres::{Options, Server};

const MINUTES: u64 = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let minutes = match words[..] {
        [] => MINUTES,
        ["--minutes", minutes] => minutes.parse()?,
        _ => return Err("nothing, or --minutes <how many>".into()),
    };
    let server = Server::start(Options::default());
    let run_folder = RunFolder::in_database(&server.address())?;
    println!("{SOAK_JOBS_PER_SECOND} jobs a second, {minutes} minutes with a transaction open");
    let length = Duration::from_secs(60 * minutes);
    show(&soak(&run_folder, length, &mut |what| println!("{what}"))?);
    Ok(())
}

fn show(soak: &Soak) {
    let line = |name: &str, claims: Times| {
        let Times { count, p50, p99 } = claims;
        println!("{name:<24} {count:>8} claims   p50 {p50:>8.2} ms   p99 {p99:>8.2} ms");
    };
    line("before", soak.before);
    line("transaction held open", soak.during);
    line("  in the last minute", soak.last);
    let met = if soak.is_met() { "ok" } else { "missed" };
    println!("p99 is {:.2} × what it was; wanted: ≤ {SOAK_RATIO_MAX} ×: {met}", soak.ratio());
}
