//! Honest clients beside hostile ones: `cargo xtask soak --attack`, or by hand
//!
//! ```sh
//! cargo build --release && \
//!     cargo run --release -p consign-bench --example attack -- target/release/consign 60
//! ```
//!
//! The server is a process of its own over a store in a new folder; both are gone afterwards.
#![allow(clippy::print_stdout, reason = "it is here to be looked at")]

use bench::{ATTACK_MEMORY_MIB_MAX, ATTACK_RATIO_MAX, AttackSoak, RunFolder, Times, attack_soak};
use std::{env, error::Error, path::Path, process::ExitCode, time::Duration};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [program, minutes] = &words[..] else {
        return Err("the path of the binary consign, and how many minutes".into());
    };
    let length = Duration::from_secs(60 * minutes.parse::<u64>()?);
    let run_folder = RunFolder::folder_in(&env::temp_dir())?;
    let soak =
        attack_soak(&run_folder, Path::new(program), length, &mut |what| println!("{what}"))?;
    show(&soak);
    Ok(if soak.is_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(soak: &AttackSoak) {
    for (name, count) in &soak.attacks {
        println!("{name:<32} {count:>8} times");
    }
    let line = |name: &str, Times { count, p50, p99 }: Times, repeated: usize| {
        println!(
            "{name:<12} {count:>8} requests, {repeated} repeated, p50 {p50:.2} ms, p99 {p99:.2} ms"
        );
    };
    line("alone", soak.baseline, soak.repeated[0]);
    line("attacked", soak.attacked, soak.repeated[1]);
    let verdict = |met: bool| if met { "ok" } else { "missed" };
    let slower = verdict(soak.ratio() <= ATTACK_RATIO_MAX);
    println!("p99 is {:.2} × its baseline; wanted: ≤ {ATTACK_RATIO_MAX} ×: {slower}", soak.ratio());
    let memory: Vec<String> = soak.memory_mib.iter().map(|mib| format!("{mib:.0}")).collect();
    let (memory, flat) = (memory.join(" "), verdict(soak.is_memory_flat()));
    println!("memory in MiB: {memory}; wanted: flat, and ≤ {ATTACK_MEMORY_MIB_MAX}: {flat}");
    let AttackSoak { acknowledged, lost, .. } = soak;
    println!("{acknowledged} jobs acknowledged, {lost} lost; wanted: 0: {}", verdict(*lost == 0));
}
