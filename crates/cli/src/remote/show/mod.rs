//! Output of answers: tables and lines for people, the API's JSON for programs.
//!
//! Any client may have written the text that a server returns. No part of it reaches a terminal as
//! a command: see [`clean`].

mod clean;
mod table;
mod time;

pub(crate) use clean::clean;
pub(crate) use table::{Cell, Table, status_style};
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

/// How this command prints, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Show {
    form: Form,
    /// Whether stdout is a terminal that can draw.
    draws: bool,
    colours: bool,
    error_colours: bool,
}

pub(crate) enum Rendering {
    Json(String),
    Lines(Vec<StyledLine>),
}

impl Show {
    pub(crate) fn choose(args: &OutputArgs) -> Self {
        Show { form: args.form(), ..Show::to_people(&args.terminal) }
    }

    /// For commands that have no output for programs.
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

    /// The width of the terminal; `None` where there is none or all columns are wanted.
    fn columns(&self) -> Option<usize> {
        (self.draws && !self.is_wide()).then(|| screen::size().columns)
    }

    /// Renders an answer: the API's JSON for programs, lines for people.
    pub(crate) fn view(
        &self,
        shape: &impl Serialize,
        lines: impl FnOnce() -> Vec<StyledLine>,
    ) -> Rendering {
        match self.form {
            Form::Json => Rendering::Json(clean::json(shape)),
            Form::Text | Form::Wide => Rendering::Lines(lines()),
        }
    }

    pub(crate) fn put(&self, view: &Rendering) -> Result<()> {
        match view {
            Rendering::Json(text) => Ok(write_out(&format!("{text}\n"))?),
            Rendering::Lines(lines) => self.lines(lines),
        }
    }

    /// Prints a value of the API as JSON on one line.
    pub(crate) fn json(&self, shape: &impl Serialize) -> Result<()> {
        self.put(&Rendering::Json(clean::json(shape)))
    }

    pub(crate) fn lines(&self, lines: &[StyledLine]) -> Result<()> {
        let text: String = lines.iter().map(|line| rendered(line, self.colours)).collect();
        Ok(write_out(&text)?)
    }

    /// The screen, where the output can be redrawn.
    pub(crate) fn screen(&self) -> Result<Option<Screen>> {
        let draws = self.draws && !self.is_json();
        Ok(draws.then(|| Screen::open(self.colours)).transpose()?)
    }

    pub(crate) fn print_error(&self, lines: &[StyledLine]) {
        for line in lines {
            eprint!("{}", rendered(line, self.error_colours));
        }
    }

    /// Prints the problem details of a refusal on stderr, as they came.
    pub(crate) fn print_error_json(&self, problem: &Problem) {
        eprintln!("{}", clean::json(problem));
    }
}

/// Notes on stderr that a request failed and is tried again.
pub(crate) fn print_trying_again(reason: &str) {
    eprintln!("consign: {}; trying again", clean(reason));
}

/// A name, padded to so many columns, and its value.
pub(crate) fn fact(name: &str, columns: usize, what: &str) -> StyledLine {
    StyledLine::of(Style::Faint, format!("{name:<columns$} ")).then(Style::Plain, what)
}

fn rendered(line: &StyledLine, colours: bool) -> String {
    let line = line.clone().map(clean);
    let text = if colours { line.coloured() } else { line.text() };
    format!("{}\n", text.trim_end())
}

/// Writes all at once. A closed pipe is an error, which `failure` judges.
fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
