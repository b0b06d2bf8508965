//! The doctor's findings, and how they are printed.

use crate::style::{Style, StyledLine};
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// The subject in one word.
    pub(crate) area: &'static str,
    pub(crate) what: String,
    #[serde(rename = "cures")]
    pub(crate) remedies: Vec<Remedy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Level {
    Well,
    /// Possibly intended.
    Note,
    Wrong,
    /// Not readable from here.
    Unknown,
}

/// A remedy: a sentence, a command, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Remedy {
    pub(crate) say: String,
    pub(crate) run: Option<String>,
}

/// All findings, in the order in which they are printed.
#[derive(Debug, Default)]
pub(crate) struct DoctorReport(pub(crate) Vec<Finding>);

impl DoctorReport {
    fn add(&mut self, level: Level, area: &'static str, what: impl Into<String>) -> &mut Finding {
        self.0.push_mut(Finding { level, area, what: what.into(), remedies: Vec::new() })
    }

    pub(crate) fn well(&mut self, area: &'static str, what: impl Into<String>) {
        self.add(Level::Well, area, what);
    }

    pub(crate) fn note(&mut self, area: &'static str, what: impl Into<String>) -> &mut Finding {
        self.add(Level::Note, area, what)
    }

    pub(crate) fn wrong(&mut self, area: &'static str, what: impl Into<String>) -> &mut Finding {
        self.add(Level::Wrong, area, what)
    }

    pub(crate) fn unknown(&mut self, area: &'static str, what: impl Into<String>) -> &mut Finding {
        self.add(Level::Unknown, area, what)
    }

    /// Reports an area as well where nothing was found since there were `findings_before` findings.
    pub(crate) fn well_since(&mut self, findings_before: usize, area: &'static str, what: String) {
        if self.0.len() == findings_before {
            self.well(area, what);
        }
    }
}

impl Finding {
    pub(crate) fn say(&mut self, say: impl Into<String>) -> &mut Self {
        self.remedies.push(Remedy { say: say.into(), run: None });
        self
    }

    pub(crate) fn run(&mut self, say: impl Into<String>, run: impl Into<String>) -> &mut Self {
        self.remedies.push(Remedy { say: say.into(), run: Some(run.into()) });
        self
    }

    pub(crate) fn lines(&self) -> Vec<StyledLine> {
        let (mark, style) = match self.level {
            Level::Well => ("✓", Style::Good),
            Level::Note => ("!", Style::Waiting),
            Level::Wrong => ("✗", Style::Bad),
            Level::Unknown => ("-", Style::Faint),
        };
        let text = if self.level == Level::Unknown { Style::Faint } else { Style::Plain };
        let head = StyledLine::of(style, format!("{mark} ")).then(text, &self.what);
        std::iter::once(head).chain(self.remedies.iter().map(Remedy::line)).collect()
    }
}

impl Remedy {
    fn line(&self) -> StyledLine {
        let line = StyledLine::of(Style::Faint, format!("  → {}", self.say));
        match &self.run {
            Some(run) if self.say.is_empty() => line.then(Style::Strong, run),
            Some(run) => line.then(Style::Faint, ": ").then(Style::Strong, run),
            None => line,
        }
    }
}

/// The word, quoted for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,@=%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_has_cause_and_remedy() {
        let mut report = DoctorReport::default();
        let finding = report.wrong("queue", "queue email: paused");
        finding.run("let its jobs start", "consign queues resume email").say("or leave it");
        let text: Vec<String> = finding.lines().iter().map(StyledLine::text).collect();
        assert_eq!(
            text,
            [
                "✗ queue email: paused",
                "  → let its jobs start: consign queues resume email",
                "  → or leave it"
            ]
        );
    }

    #[test]
    fn shell_words_are_quoted() {
        assert_eq!(quoted("jobs:read"), "jobs:read");
        assert_eq!(quoted("mail-*"), "'mail-*'");
        assert_eq!(quoted("it's $(x)"), "'it'\\''s $(x)'");
        assert_eq!(quoted(""), "''");
    }
}
