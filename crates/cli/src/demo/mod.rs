//! The demo for new users: a small shop's jobs in a store of its own.
//!
//! Nothing is simulated: handlers fail, panic and stop for real, and every state that is shown was
//! read from the store a moment before.

mod demo_state;
mod handlers;
mod plain;
mod story;
mod summary;
mod view;

use crate::{
    args::DemoArgs,
    remote::{Show, is_broken_pipe},
    screen::{self, Screen},
    signals::{INTERRUPTED, Signals},
    style::StyledLine,
};
use anyhow::{Context, Result};
use consign::Consign;
use demo_state::{DemoSnapshot, DemoState, ShownJob};
use plain::Plain;
use std::{
    fs::Permissions, os::unix::fs::PermissionsExt, path::Path, process::ExitCode, time::Duration,
};
use story::{Demo, TYPES};
use tempfile::TempDir;

const FRAME_INTERVAL: Duration = Duration::from_millis(80);

pub(crate) fn run(args: &DemoArgs) -> Result<ExitCode> {
    silence_handler_panics();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let _runtime = runtime.enter();
    let signals = Signals::new()?; // a signal from here on removes the folder, too
    let show = Show::to_people(&args.terminal);
    let mut folder = tempfile::Builder::new();
    folder.prefix("consign-demo-").permissions(Permissions::from_mode(0o700));
    let folder = folder.tempdir();
    let folder = folder.context("no temporary folder could be made")?;
    let path = folder.path().join("shop.db");
    let result = runtime.block_on(play(&show, &path, signals));
    // The store is closed by now. Whatever the result of the story, the folder is removed or kept.
    close_folder(folder, args.keep)?;
    let exit_code = result.and_then(|summary| {
        let kept_path = args.keep.then(|| path.display().to_string());
        show.lines(&summary::closing_lines(summary.as_deref(), kept_path.as_deref()))?;
        Ok(summary.map_or(ExitCode::from(INTERRUPTED), |_| ExitCode::SUCCESS))
    });
    exit_code
        .or_else(|error| if is_broken_pipe(&error) { Ok(ExitCode::SUCCESS) } else { Err(error) })
}

/// Plays and shows the story. Returns the summary, or `None` where the user interrupted it.
async fn play(show: &Show, path: &Path, mut signals: Signals) -> Result<Option<Vec<StyledLine>>> {
    let demo = Demo::new(Consign::open(path)?);
    let mut output = show.screen()?.map_or(DemoOutput::Plain(Plain::default()), DemoOutput::Screen);
    let worth_reading = tokio::select! {
        job = story::play(&demo) => Some(job?),
        error = output.show_repeatedly(&demo) => return Err(error),
        () = signals.any() => None,
    };
    let mut summary = None;
    if let Some(worth_reading) = worth_reading {
        output.show(&demo).await?;
        summary = Some(summary::lines(&demo, worth_reading).await?);
    }
    if let DemoOutput::Screen(screen) = output {
        screen.close()?;
    }
    Ok(summary)
}

/// The output: a live frame on a terminal, lines elsewhere.
enum DemoOutput {
    Screen(Screen),
    Plain(Plain),
}

impl DemoOutput {
    async fn show(&mut self, demo: &Demo) -> Result<()> {
        let snapshot = DemoSnapshot::take(demo).await?;
        match self {
            DemoOutput::Screen(screen) => Ok(screen.draw(&view::frame(&snapshot, screen::size()))?),
            DemoOutput::Plain(plain) => plain.print_new(demo, &snapshot).await,
        }
    }

    async fn show_repeatedly(&mut self, demo: &Demo) -> anyhow::Error {
        let mut frames = tokio::time::interval(FRAME_INTERVAL);
        loop {
            frames.tick().await;
            if let Err(error) = self.show(demo).await {
                return error;
            }
        }
    }
}

fn close_folder(folder: TempDir, keep: bool) -> Result<()> {
    if keep {
        let _path = folder.keep();
        return Ok(());
    }
    let path = folder.path().to_owned();
    folder.close().with_context(|| format!("{} could not be removed", path.display()))
}

/// Silences panics of handlers, which happen here on purpose. Their messages are in the job's
/// history, and on stderr they would tear the frame.
fn silence_handler_panics() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some("consign-handler") {
            default_hook(panic);
        }
    }));
}
