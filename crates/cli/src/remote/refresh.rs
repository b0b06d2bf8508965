//! Repeats a request and draws its answer in place.

use super::{
    Session,
    show::{Rendering, Show, clean, trying_again},
};
use crate::{
    args::WatchArgs,
    screen::Screen,
    signals::{INTERRUPTED, Signals},
    style::{Style, StyledLine},
};
use anyhow::Result;
use client::ClientError;
use std::{process::ExitCode, time::Duration};

const PERIOD: Duration = Duration::from_secs(2);
/// So many failures in a row end the watch: ten minutes.
const SILENCES_MAX: u32 = 300;

/// Shows the answers of `ask`: once, or until the user stops it.
pub(crate) async fn shown(
    session: &Session,
    watch: WatchArgs,
    ask: impl AsyncFn() -> Result<Rendering>,
) -> Result<ExitCode> {
    if !watch.watch {
        session.show.put(&ask().await?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut signals = Signals::new()?;
    let first = ask().await?; // an error of the first request is final
    let show = session.show;
    let mut place = ScreenPosition { show, screen: show.screen()?, last: None };
    place.show(first)?;
    tokio::select! {
        ended = again(&mut place, ask) => ended,
        () = signals.any() => Ok(ExitCode::from(INTERRUPTED)),
    }
}

async fn again(
    place: &mut ScreenPosition,
    ask: impl AsyncFn() -> Result<Rendering>,
) -> Result<ExitCode> {
    let mut silences = 0;
    loop {
        tokio::time::sleep(PERIOD).await;
        match ask().await {
            Ok(view) => {
                silences = 0;
                place.show(view)?;
            }
            Err(error) if silences < SILENCES_MAX && may_come_back(&error) => {
                silences += 1;
                place.complain(&error.to_string())?;
            }
            Err(error) => return Err(error),
        }
    }
}

fn may_come_back(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ClientError>().is_some_and(ClientError::is_worth_repeating)
}

/// A terminal that is drawn over, or one page after the other.
struct ScreenPosition {
    show: Show,
    screen: Option<Screen>,
    last: Option<Rendering>,
}

impl ScreenPosition {
    fn show(&mut self, view: Rendering) -> Result<()> {
        match (&mut self.screen, &view) {
            (Some(screen), Rendering::Lines(lines)) => draw(screen, lines)?,
            (_, view) => {
                if self.last.is_some() && !self.show.is_json() {
                    self.show.lines(&[StyledLine::new()])?;
                }
                self.show.put(view)?;
            }
        }
        self.last = Some(view);
        Ok(())
    }

    /// Notes below the last answer that the server does not answer.
    fn complain(&mut self, why: &str) -> Result<()> {
        let (Some(screen), Some(Rendering::Lines(last))) = (&mut self.screen, &self.last) else {
            trying_again(why);
            return Ok(());
        };
        let told = StyledLine::of(Style::Bad, format!("{}; trying again", clean(why)));
        draw(screen, &[&last[..], &[told]].concat())
    }
}

/// Draws lines, no higher and no wider than the terminal.
fn draw(screen: &mut Screen, lines: &[StyledLine]) -> Result<()> {
    let size = screen.size();
    let seen = lines.iter().take(size.rows.saturating_sub(1)).cloned();
    let seen: Vec<StyledLine> = seen.map(|line| line.cut(size.columns.saturating_sub(1))).collect();
    Ok(screen.draw(&seen)?)
}
