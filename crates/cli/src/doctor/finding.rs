//! What the doctor says, and how it looks.

use crate::ink::{Line, Tone};
use serde::Serialize;

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// What it is about, in one word.
    pub(crate) area: &'static str,
    pub(crate) what: String,
    pub(crate) cures: Vec<Cure>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Level {
    Well,
    /// It may be meant like that.
    Note,
    Wrong,
    /// It could not be looked at.
    Unknown,
}

/// What helps: a sentence, a command, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Cure {
    pub(crate) say: String,
    /// As it is typed.
    pub(crate) run: Option<String>,
}

impl Finding {
    fn new(level: Level, area: &'static str, what: impl Into<String>) -> Self {
        Finding { level, area, what: what.into(), cures: Vec::new() }
    }

    pub(crate) fn well(area: &'static str, what: impl Into<String>) -> Self {
        Finding::new(Level::Well, area, what)
    }

    pub(crate) fn note(area: &'static str, what: impl Into<String>) -> Self {
        Finding::new(Level::Note, area, what)
    }

    pub(crate) fn wrong(area: &'static str, what: impl Into<String>) -> Self {
        Finding::new(Level::Wrong, area, what)
    }

    pub(crate) fn unknown(area: &'static str, what: impl Into<String>) -> Self {
        Finding::new(Level::Unknown, area, what)
    }

    /// With a sentence about what helps.
    pub(crate) fn say(mut self, say: impl Into<String>) -> Self {
        self.cures.push(Cure { say: say.into(), run: None });
        self
    }

    /// With a command that helps.
    pub(crate) fn run(mut self, say: impl Into<String>, run: impl Into<String>) -> Self {
        self.cures.push(Cure { say: say.into(), run: Some(run.into()) });
        self
    }

    /// A line for what was found, and one for each cure.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let (mark, tone) = match self.level {
            Level::Well => ("✓", Tone::Good),
            Level::Note => ("!", Tone::Waiting),
            Level::Wrong => ("✗", Tone::Bad),
            Level::Unknown => ("-", Tone::Faint),
        };
        let text = if self.level == Level::Unknown { Tone::Faint } else { Tone::Plain };
        let head = Line::of(tone, format!("{mark} ")).then(text, &self.what);
        std::iter::once(head).chain(self.cures.iter().map(Cure::line)).collect()
    }
}

impl Cure {
    fn line(&self) -> Line {
        let line = Line::of(Tone::Faint, format!("  → {}", self.say));
        match &self.run {
            Some(run) if self.say.is_empty() => line.then(Tone::Strong, run),
            Some(run) => line.then(Tone::Faint, ": ").then(Tone::Strong, run),
            None => line,
        }
    }
}

/// A word as a shell takes it.
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
    fn a_finding_says_what_is_wrong_and_what_mends_it() {
        let finding = Finding::wrong("queue", "queue email: paused")
            .run("let its jobs start", "consign queues resume email")
            .say("or leave it");
        let text: Vec<String> = finding.lines().iter().map(Line::text).collect();
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
    fn words_are_safe_in_a_shell() {
        assert_eq!(quoted("jobs:read"), "jobs:read");
        assert_eq!(quoted("mail-*"), "'mail-*'");
        assert_eq!(quoted("it's $(x)"), "'it'\\''s $(x)'");
        assert_eq!(quoted(""), "''");
    }
}
