//! How answers are shown: tables and lines for people, the shapes of the API for programs.
//!
//! What a server says may have been written by anybody. Nothing of it reaches a terminal as a command: see [`clean`].

mod clean;
mod table;
mod time;

pub(crate) use clean::clean;
pub(crate) use table::{Cell, Table, status_tone};
pub(crate) use time::{ago, span};

use crate::{
    args::{Form, OutputArgs, TerminalArgs},
    screen::{self, Screen},
    style::{Style, StyledLine},
};
use anyhow::Result;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use wire::Problem;

/// Where and how this command shows things.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Show {
    form: Form,
    /// Whether the standard output is a terminal that can draw.
    draws: bool,
    colours: bool,
    error_colours: bool,
}

/// What is to be seen of an answer.
pub(crate) enum View {
    Json(String),
    Lines(Vec<StyledLine>),
}

impl Show {
    pub(crate) fn choose(args: &OutputArgs) -> Self {
        Show { form: args.form(), ..Show::to_people(&args.terminal) }
    }

    /// For commands that programs do not read.
    pub(crate) fn to_people(terminal: &TerminalArgs) -> Self {
        let (can_draw, colours) = (terminal.can_draw(), terminal.colours());
        let draws = io::stdout().is_terminal() && can_draw;
        let error_colours = io::stderr().is_terminal() && can_draw && colours;
        Show { form: Form::Text, draws, colours: draws && colours, error_colours }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    pub(crate) fn is_wide(&self) -> bool {
        self.form == Form::Wide
    }

    /// The columns there are; as many as it takes where nobody's window ends.
    fn columns(&self) -> Option<usize> {
        (self.draws && !self.is_wide()).then(|| screen::size().columns)
    }

    /// What is to be seen of an answer: the shape of the API for programs, lines for people.
    pub(crate) fn view(
        &self,
        shape: &impl Serialize,
        lines: impl FnOnce() -> Vec<StyledLine>,
    ) -> View {
        match self.form {
            Form::Json => View::Json(clean::json(shape)),
            Form::Text | Form::Wide => View::Lines(lines()),
        }
    }

    pub(crate) fn put(&self, view: &View) -> Result<()> {
        match view {
            View::Json(text) => Ok(put(&format!("{text}\n"))?),
            View::Lines(lines) => self.lines(lines),
        }
    }

    /// Prints a shape of the API on a line of its own.
    pub(crate) fn json(&self, shape: &impl Serialize) -> Result<()> {
        self.put(&View::Json(clean::json(shape)))
    }

    pub(crate) fn lines(&self, lines: &[StyledLine]) -> Result<()> {
        let text: String = lines.iter().map(|line| rendered(line, self.colours)).collect();
        Ok(put(&text)?)
    }

    /// The screen, where a picture can be drawn over itself.
    pub(crate) fn screen(&self) -> Result<Option<Screen>> {
        let draws = self.draws && !self.is_json();
        Ok(draws.then(|| Screen::open(self.colours)).transpose()?)
    }

    /// Prints lines where errors go.
    pub(crate) fn complain(&self, lines: &[StyledLine]) {
        for line in lines {
            eprint!("{}", rendered(line, self.error_colours));
        }
    }

    /// Prints a no as it came, where errors go.
    pub(crate) fn complain_json(&self, problem: &Problem) {
        eprintln!("{}", clean::json(problem));
    }
}

/// Says where errors go that nobody answered just now.
pub(crate) fn trying_again(why: &str) {
    eprintln!("consign: {}; trying again", clean(why));
}

/// A name, in so many columns, and what it is.
pub(crate) fn fact(name: &str, columns: usize, what: &str) -> StyledLine {
    StyledLine::of(Style::Faint, format!("{name:<columns$} ")).then(Style::Plain, what)
}

fn rendered(line: &StyledLine, colours: bool) -> String {
    let line = line.clone().map(clean);
    let text = if colours { line.coloured() } else { line.text() };
    format!("{}\n", text.trim_end())
}

/// In one piece. A reader who went away is an error, for `failure` to judge.
fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
