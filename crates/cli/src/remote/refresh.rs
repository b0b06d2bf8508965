//! An answer that is asked for again and again, drawn in place.

use super::{
    Session,
    show::{Show, View, clean},
};
use crate::{
    args::WatchArgs,
    ink::{Line, Tone},
    screen::Screen,
    signals::{INTERRUPTED, Signals},
};
use anyhow::Result;
use client::ClientError;
use std::{process::ExitCode, time::Duration};

/// How often it is asked.
const PERIOD: Duration = Duration::from_secs(2);
/// So often in a row may nobody answer: ten minutes.
const SILENCES_MAX: u32 = 300;

/// Shows what `ask` brings, once or until somebody has seen enough.
pub(crate) async fn shown(
    session: &Session,
    watch: WatchArgs,
    ask: impl AsyncFn() -> Result<View>,
) -> Result<ExitCode> {
    if !watch.watch {
        session.show.put(&ask().await?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut signals = Signals::new()?;
    let first = ask().await?; // what is wrong from the beginning is an error
    let mut place = Place::open(&session.show)?;
    place.show(&first)?;
    tokio::select! {
        ended = again(&mut place, ask) => ended,
        () = signals.any() => Ok(ExitCode::from(INTERRUPTED)),
    }
}

async fn again(place: &mut Place, ask: impl AsyncFn() -> Result<View>) -> Result<ExitCode> {
    let mut silences = 0;
    loop {
        tokio::time::sleep(PERIOD).await;
        match ask().await {
            Ok(view) => {
                silences = 0;
                place.show(&view)?;
            }
            Err(error) if silences < SILENCES_MAX && may_come_back(&error) => {
                silences += 1;
                place.complain(&error)?;
            }
            Err(error) => return Err(error),
        }
    }
}

fn may_come_back(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ClientError>().is_some_and(ClientError::is_worth_repeating)
}

/// A terminal that is drawn over, or a page after the other.
enum Place {
    Screen { screen: Screen, last: Vec<Line> },
    Pages { show: Show, many: bool },
}

impl Place {
    fn open(show: &Show) -> Result<Self> {
        if show.draws() {
            let screen = Screen::open(show.colours())?;
            return Ok(Place::Screen { screen, last: Vec::new() });
        }
        Ok(Place::Pages { show: *show, many: false })
    }

    fn show(&mut self, view: &View) -> Result<()> {
        match (self, view) {
            (Place::Screen { screen, last }, View::Lines(lines)) => {
                *last = lines.clone();
                draw(screen, lines)
            }
            (Place::Pages { show, many }, view) => {
                if std::mem::replace(many, true) && !show.is_json() {
                    show.lines(&[Line::new()])?;
                }
                show.put(view)
            }
            (Place::Screen { .. }, View::Json(_)) => unreachable!("JSON is never drawn"),
        }
    }

    /// That nobody answers, under what was seen last.
    fn complain(&mut self, error: &anyhow::Error) -> Result<()> {
        let told = format!("{}; trying again", clean(&error.to_string()));
        match self {
            Place::Screen { screen, last } => {
                let mut lines = last.clone();
                lines.push(Line::of(Tone::Bad, told));
                draw(screen, &lines)
            }
            Place::Pages { .. } => {
                eprintln!("consign: {told}");
                Ok(())
            }
        }
    }
}

/// No higher and no wider than the terminal.
fn draw(screen: &mut Screen, lines: &[Line]) -> Result<()> {
    let size = screen.size();
    let seen = lines.iter().take(size.rows.saturating_sub(1));
    let seen: Vec<Line> =
        seen.map(|line| line.clone().cut(size.columns.saturating_sub(1))).collect();
    Ok(screen.draw(&seen)?)
}
