//! Repeats a request and draws its answer in place.

use super::{Rendering, Session, Show, Style, StyledLine, clean, print_trying_again};
use crate::{
    args::WatchArgs,
    screen::{self, Screen},
    signals::{INTERRUPTED, Signals},
};
use anyhow::Result;
use client::ClientError;
use std::{process::ExitCode, time::Duration};

const PERIOD: Duration = Duration::from_secs(2);
/// So many failures in a row end the watch: ten minutes.
const FAILURES_MAX: u32 = 300;

/// Shows the answers of `ask`: once, or until the user stops it.
pub(crate) async fn show_repeatedly(
    session: &Session,
    watch: WatchArgs,
    fetch: impl AsyncFn() -> Result<Rendering>,
) -> Result<ExitCode> {
    if !watch.watch {
        session.show.put(&fetch().await?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut signals = Signals::new()?;
    let first = fetch().await?; // an error of the first request is final
    let show = session.show;
    let mut output = WatchOutput { show, screen: show.screen()?, last: None };
    output.show(first)?;
    tokio::select! {
        exit_code = refresh_on(&mut output, fetch) => exit_code,
        () = signals.any() => Ok(ExitCode::from(INTERRUPTED)),
    }
}

async fn refresh_on(
    output: &mut WatchOutput,
    fetch: impl AsyncFn() -> Result<Rendering>,
) -> Result<ExitCode> {
    let mut failures = 0;
    loop {
        tokio::time::sleep(PERIOD).await;
        match fetch().await {
            Ok(view) => {
                failures = 0;
                output.show(view)?;
            }
            Err(error) if failures < FAILURES_MAX && may_come_back(&error) => {
                failures += 1;
                output.show_error(&error.to_string())?;
            }
            Err(error) => return Err(error),
        }
    }
}

fn may_come_back(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ClientError>().is_some_and(ClientError::is_worth_repeating)
}

/// A terminal that is drawn over, or one page after the other.
struct WatchOutput {
    show: Show,
    screen: Option<Screen>,
    last: Option<Rendering>,
}

impl WatchOutput {
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
    fn show_error(&mut self, error: &str) -> Result<()> {
        let (Some(screen), Some(Rendering::Lines(last))) = (&mut self.screen, &self.last) else {
            print_trying_again(error);
            return Ok(());
        };
        let error_line = StyledLine::of(Style::Bad, format!("{}; trying again", clean(error)));
        draw(screen, &[&last[..], &[error_line]].concat())
    }
}

/// Draws lines, no higher and no wider than the terminal.
fn draw(screen: &mut Screen, lines: &[StyledLine]) -> Result<()> {
    let size = screen::size();
    let visible = lines.iter().take(size.rows.saturating_sub(1)).cloned();
    let visible: Vec<StyledLine> =
        visible.map(|line| line.cut(size.columns.saturating_sub(1))).collect();
    Ok(screen.draw(&visible)?)
}
