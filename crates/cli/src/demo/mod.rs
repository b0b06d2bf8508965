//! Consign at work, for people who see it for the first time: a small shop's jobs in a store of its own.
//!
//! Nothing is played: handlers fail, panic and stop for real, and every state that is shown was read
//! from the store a moment before.

mod board;
mod handlers;
mod ink;
mod plain;
mod screen;
mod snapshot;
mod stage;
mod story;
mod summary;
mod view;

use crate::args::DemoArgs;
use anyhow::{Context, Result};
use ink::Line;
use snapshot::Snapshot;
use stage::Stage;
use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};
use story::Shop;
use summary::Summary;
use tempfile::TempDir;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often the store is asked and the picture drawn.
const FRAME: Duration = Duration::from_millis(80);
/// What shells say of a process that was ended with Ctrl-C.
const INTERRUPTED: u8 = 130;

pub(crate) fn run(args: &DemoArgs) -> Result<ExitCode> {
    let folder = tempfile::Builder::new().prefix("consign-demo-").tempdir();
    let folder = folder.context("no temporary folder could be made")?;
    let path = folder.path().join("shop.db");
    be_quiet_about_handlers();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let played = runtime.block_on(play(args, &path));
    // The store is closed by now. Whatever came of the story, the folder goes, or is kept.
    leave(folder, args.keep)?;
    let closed = played.and_then(|summary| {
        close(args, &path, summary.as_deref().unwrap_or_default())?;
        Ok(summary.map_or(ExitCode::from(INTERRUPTED), |_| ExitCode::SUCCESS))
    });
    closed.or_else(|error| if nobody_looks(&error) { Ok(ExitCode::SUCCESS) } else { Err(error) })
}

/// Tells the story and shows it; gives the summary, or nothing where somebody had seen enough.
async fn play(args: &DemoArgs, path: &Path) -> Result<Option<Vec<Line>>> {
    let (mut interrupt, mut terminate, mut hang_up) = signals()?;
    let shop = Shop::open(path)?;
    let mut stage = Stage::choose(args)?;
    let told = tokio::select! {
        told = story::tell(&shop) => Some(told?),
        error = show(&shop, &mut stage) => return Err(error),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
        _ = hang_up.recv() => None,
    };
    let summary = match told {
        Some(worth_reading) => {
            stage.show(&shop, &Snapshot::take(&shop).await?).await?;
            Some(Summary::gather(&shop, worth_reading).await?.lines())
        }
        None => None,
    };
    stage.close()?;
    Ok(summary)
}

fn signals() -> io::Result<(Signal, Signal, Signal)> {
    let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
    Ok((signal(interrupt)?, signal(terminate)?, signal(SignalKind::hangup())?))
}

/// Shows what the store says, again and again, until that fails.
async fn show(shop: &Shop, stage: &mut Stage) -> anyhow::Error {
    let mut frames = tokio::time::interval(FRAME);
    loop {
        frames.tick().await;
        let shown = async { stage.show(shop, &Snapshot::take(shop).await?).await };
        if let Err(error) = shown.await {
            return error;
        }
    }
}

/// Removes the folder, or leaves it where it is.
fn leave(folder: TempDir, keep: bool) -> Result<()> {
    if keep {
        let _path = folder.keep();
        return Ok(());
    }
    let path = folder.path().to_owned();
    folder.close().with_context(|| format!("{} could not be removed", path.display()))
}

/// The last words: the summary where there is one, where the store is, and what to try next.
fn close(args: &DemoArgs, path: &Path, summary: &[Line]) -> Result<()> {
    let kept = args.keep.then(|| path.display().to_string());
    let mut lines = summary.to_vec();
    if summary.is_empty() {
        lines.push(Line::of(ink::Tone::Strong, "Stopped before the end."));
    }
    lines.push(Line::new());
    lines.extend(summary::left(kept.as_deref()));
    if !summary.is_empty() {
        lines.push(Line::new());
        lines.extend(summary::next(&program(), kept.as_deref()));
    }
    let coloured = stage::is_coloured(args);
    let text =
        |line: &Line| if coloured { line.coloured() } else { line.text().trim_end().to_owned() };
    let text: Vec<String> = lines.iter().map(text).collect();
    Ok(writeln!(io::stdout(), "{}", text.join("\n"))?)
}

/// What was typed to start us, so that the commands we suggest can be typed too.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "consign".into())
}

/// Handlers panic here on purpose; what they say is in the job's history and must not tear the picture.
fn be_quiet_about_handlers() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some("consign-handler") {
            usual(panic);
        }
    }));
}

/// Whether the reader of our output is gone, as with `consign demo | head`: nothing is wrong then.
fn nobody_looks(error: &anyhow::Error) -> bool {
    let told = error.downcast_ref::<io::Error>();
    told.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
