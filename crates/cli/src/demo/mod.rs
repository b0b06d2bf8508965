//! Consign at work, for people who see it for the first time: a small shop's jobs in a store of its own.
//!
//! Nothing is played: handlers fail, panic and stop for real, and every state that is shown was read
//! from the store a moment before.

mod board;
mod handlers;
mod plain;
mod snapshot;
mod stage;
mod story;
mod summary;
mod view;

use crate::{
    args::DemoArgs,
    ink::{Line, Tone},
    signals::{INTERRUPTED, Signals},
};
use anyhow::{Context, Result};
use snapshot::Snapshot;
use stage::Stage;
use std::{
    fs::Permissions,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::ExitCode,
    time::Duration,
};
use story::Shop;
use summary::Summary;
use tempfile::TempDir;

/// How often the store is asked and the picture drawn.
const FRAME: Duration = Duration::from_millis(80);

pub(crate) fn run(args: &DemoArgs) -> Result<ExitCode> {
    be_quiet_about_handlers();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let _inside = runtime.enter();
    let signals = Signals::new()?; // from here on nobody can end us and leave a folder behind
    let mut folder = tempfile::Builder::new();
    folder.prefix("consign-demo-").permissions(Permissions::from_mode(0o700));
    let folder = folder.tempdir();
    let folder = folder.context("no temporary folder could be made")?;
    let path = folder.path().join("shop.db");
    let played = runtime.block_on(play(args, &path, signals));
    // The store is closed by now. Whatever came of the story, the folder goes, or is kept.
    leave(folder, args.keep)?;
    let closed = played.and_then(|summary| {
        close(args, &path, summary.as_deref())?;
        Ok(summary.map_or(ExitCode::from(INTERRUPTED), |_| ExitCode::SUCCESS))
    });
    closed.or_else(|error| if nobody_looks(&error) { Ok(ExitCode::SUCCESS) } else { Err(error) })
}

/// Tells the story and shows it; gives the summary, or nothing where somebody had seen enough.
async fn play(args: &DemoArgs, path: &Path, mut signals: Signals) -> Result<Option<Vec<Line>>> {
    let shop = Shop::open(path)?;
    let mut stage = Stage::choose(args)?;
    let told = tokio::select! {
        told = story::tell(&shop) => Some(told?),
        error = show(&shop, &mut stage) => return Err(error),
        () = signals.any() => None,
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
fn close(args: &DemoArgs, path: &Path, summary: Option<&[Line]>) -> Result<()> {
    let kept = args.keep.then(|| path.display().to_string());
    let mut lines = match summary {
        Some(summary) => summary.to_vec(),
        None => vec![Line::of(Tone::Strong, "Stopped before the end.")],
    };
    lines.extend([Line::new(), summary::left(kept.as_deref())]);
    if summary.is_some() {
        lines.push(Line::new());
        lines.extend(summary::next(&program(), kept.as_deref()));
    }
    let coloured = stage::is_coloured(args);
    let text = |line: &Line| if coloured { line.coloured() } else { line.text() };
    let mut out = io::stdout().lock();
    for line in &lines {
        writeln!(out, "{}", text(line).trim_end())?;
    }
    Ok(())
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
