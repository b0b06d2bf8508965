//! Log output on stderr: JSON for machines, one readable line for people.

mod json;
mod writer;

use crate::{args::TerminalArgs, settings::LogSettings};
use json::JsonLines;
use platform::SystemClock;
use std::{
    io::{self, IsTerminal},
    sync::Arc,
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt;
use writer::LogWriter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Json,
    Text { colours: bool },
}

impl LogFormat {
    /// JSON, unless stderr is a terminal.
    pub(crate) fn of(settings: &LogSettings, terminal: &TerminalArgs) -> Self {
        let is_terminal = io::stderr().is_terminal();
        LogFormat::choose(&settings.format, is_terminal, terminal.colours() && terminal.can_draw())
    }

    fn choose(format: &str, is_terminal: bool, colours: bool) -> Self {
        match format {
            "json" => LogFormat::Json,
            "auto" if !is_terminal => LogFormat::Json,
            _ => LogFormat::Text { colours: is_terminal && colours },
        }
    }
}

/// Installs the global subscriber, once in a process. The caller finishes the writer before the
/// process ends.
pub(crate) fn start(settings: &LogSettings, format: LogFormat) -> io::Result<Arc<LogWriter>> {
    let writer = LogWriter::start(io::stderr())?;
    // A broken pipe on stderr is no reason to end the process, and reporting it on the same pipe
    // would be useless.
    let lines = fmt()
        .with_writer(writer.clone())
        .with_max_level(level(&settings.level))
        .log_internal_errors(false);
    match format {
        LogFormat::Json => {
            lines.with_ansi(false).event_format(JsonLines(SystemClock::new())).init();
        }
        LogFormat::Text { colours } => lines.with_ansi(colours).with_target(false).init(),
    }
    Ok(writer)
}

fn level(name: &str) -> LevelFilter {
    name.parse().expect("the settings know these words only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_get_lines_and_machines_get_json() {
        let (grey, colours) =
            (LogFormat::Text { colours: false }, LogFormat::Text { colours: true });
        for (format, is_terminal, wanted, expected) in [
            ("auto", false, true, LogFormat::Json),
            ("auto", true, true, colours),
            ("auto", true, false, grey),
            ("json", true, true, LogFormat::Json),
            ("text", false, true, grey),
            ("text", true, true, colours),
        ] {
            assert_eq!(
                LogFormat::choose(format, is_terminal, wanted),
                expected,
                "{format} {is_terminal}"
            );
        }
    }

    #[test]
    fn every_level_of_the_settings_is_one() {
        for name in ["error", "warn", "info", "debug", "trace"] {
            assert_eq!(level(name).to_string(), name);
        }
    }
}
