//! Log output on stderr: JSON for machines, one readable line for people.

mod json;
mod writer;

use crate::{args::TerminalArgs, settings::LogSettings};
use json::JsonLines;
use platform::SystemClock;
use std::{
    fmt,
    io::{self, IsTerminal},
    sync::Arc,
};
use tracing::level_filters::LevelFilter;
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

/// The field of every JSON line that names the node: the logs of several nodes are read together.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeField(String);

impl NodeField {
    /// `id` is an id of ours, in which no character needs an escape.
    fn of(id: Option<&str>) -> Self {
        NodeField(id.map(|id| format!(",\"node\":\"{id}\"")).unwrap_or_default())
    }
}

impl fmt::Display for NodeField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Installs the global subscriber, once in a process. The caller finishes the writer before the
/// process ends. `node` is the id of the node, where the process is one.
pub(crate) fn start(
    settings: &LogSettings,
    format: LogFormat,
    node: Option<&str>,
) -> io::Result<Arc<LogWriter>> {
    let node = NodeField::of(node);
    let writer = LogWriter::start(io::stderr(), node.clone())?;
    // A broken pipe on stderr is no reason to end the process, and reporting it on the same pipe
    // would be useless.
    let lines = tracing_subscriber::fmt()
        .with_writer(writer.clone())
        .with_max_level(level(&settings.level))
        .log_internal_errors(false);
    match format {
        LogFormat::Json => {
            let format = JsonLines { clock: SystemClock::new(), node };
            lines.with_ansi(false).event_format(format).init();
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
