//! Where the story is shown: on a terminal as a picture, anywhere else as lines.

use super::{plain::Plain, snapshot::Snapshot, story::Shop, view};
use crate::{args::DemoArgs, screen::Screen};
use anyhow::Result;
use std::io::{self, IsTerminal};

pub(crate) enum Stage {
    Screen(Screen),
    Plain(Plain),
}

impl Stage {
    pub(crate) fn choose(args: &DemoArgs) -> Result<Self> {
        if io::stdout().is_terminal() && args.terminal.can_draw() {
            return Ok(Stage::Screen(Screen::open(args.terminal.colours())?));
        }
        Ok(Stage::Plain(Plain::default()))
    }

    pub(crate) async fn show(&mut self, shop: &Shop, snapshot: &Snapshot) -> Result<()> {
        match self {
            Stage::Screen(screen) => {
                let picture = view::picture(snapshot, screen.size());
                Ok(screen.draw(&picture)?)
            }
            Stage::Plain(plain) => plain.tell(shop, snapshot).await,
        }
    }

    /// Takes away what must not stay.
    pub(crate) fn close(self) -> Result<()> {
        match self {
            Stage::Screen(screen) => Ok(screen.close()?),
            Stage::Plain(_) => Ok(()),
        }
    }
}

/// Whether what is printed at the end has colours.
pub(crate) fn is_coloured(args: &DemoArgs) -> bool {
    io::stdout().is_terminal() && args.terminal.can_draw() && args.terminal.colours()
}
