//! The binary `consign`: the only code that reads arguments and environment. It wires the crates
//! together.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for people")]

mod args;
mod audit;
mod backup;
mod banner;
mod bench;
mod config_command;
mod data_folder;
mod demo;
mod doctor;
mod help;
mod keys;
mod listen;
mod log;
mod manual;
mod migrate;
mod open_files;
mod open_store;
mod ready_made;
mod remote;
mod restore;
mod restored;
mod screen;
mod serve;
mod settings;
mod signals;
mod style;
mod tls;

use args::Command;
use std::process::ExitCode;

/// Jobs are allocated on one thread and freed on another, and the system's allocator is slow at
/// that: draining a queue takes a quarter less time with mimalloc (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tls::install_provider();
    let done = match help::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Work(args) => remote::work::run(&args),
        Command::Enqueue(args) => remote::enqueue::run(&args),
        Command::Status(args) => remote::status::run(&args),
        Command::List(args) => remote::list::run(&args),
        Command::Show(args) => remote::job::show(&args),
        Command::History(args) => remote::job::history(&args),
        Command::Explain(args) => remote::explain::run(&args),
        Command::Events(args) => remote::watch::events(&args),
        Command::Cancel(args) => remote::cancel::run(&args),
        Command::Redrive(args) => remote::redrive::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
        Command::Queues(args) => remote::queues::run(&args),
        Command::Poison(args) => remote::poison::run(&args),
        Command::Workers(args) => remote::workers::workers(&args),
        Command::Nodes(args) => remote::workers::nodes(&args),
        Command::Types(args) => remote::types::run(&args),
        Command::Profile(command) => remote::profile::run(&command),
        Command::Audit(args) => audit::run(&args),
        Command::Keys(args) => keys::run(&args),
        Command::Config(command) => config_command::run(&command),
        Command::Demo(args) => demo::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Restored(args) => restored::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Migrate(command) => migrate::run(&command),
    };
    done.unwrap_or_else(|error| {
        eprintln!("consign: {error:#}");
        ExitCode::FAILURE
    })
}
