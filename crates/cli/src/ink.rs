//! Lines of text with tones, for terminals with colours and without.

/// How a piece of text is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Faint,
    Waiting,
    Busy,
    Good,
    Bad,
    Poison,
    Idle,
}

impl Tone {
    /// What begins it on a terminal, where it is anything.
    fn code(self) -> Option<&'static str> {
        match self {
            Tone::Plain => None,
            Tone::Strong => Some("\x1b[1m"),
            Tone::Faint => Some("\x1b[2m"),
            Tone::Waiting => Some("\x1b[33m"),
            Tone::Busy => Some("\x1b[36m"),
            Tone::Good => Some("\x1b[32m"),
            Tone::Bad => Some("\x1b[31m"),
            Tone::Poison => Some("\x1b[35m"),
            Tone::Idle => Some("\x1b[34m"),
        }
    }
}

/// One line. Its characters are all one column wide: we write none that are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line(Vec<(Tone, String)>);

impl Line {
    pub(crate) fn new() -> Self {
        Line::default()
    }

    pub(crate) fn of(tone: Tone, text: impl Into<String>) -> Self {
        Line::new().then(tone, text)
    }

    /// The same line with more text behind it.
    pub(crate) fn then(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.0.push((tone, text.into()));
        self
    }

    /// The line in at most `width` columns; what does not fit ends with `…`.
    pub(crate) fn cut(self, width: usize) -> Self {
        if self.text().chars().count() <= width {
            return self;
        }
        let mut room = width.saturating_sub(1);
        let mut pieces = Vec::with_capacity(self.0.len() + 1);
        for (tone, text) in self.0 {
            let kept: String = text.chars().take(room).collect();
            room -= kept.chars().count();
            pieces.push((tone, kept));
        }
        pieces.push((Tone::Faint, "…".chars().take(width).collect()));
        Line(pieces)
    }

    /// The same line with every text changed by `change`.
    pub(crate) fn map(self, change: impl Fn(&str) -> String) -> Self {
        Line(self.0.into_iter().map(|(tone, text)| (tone, change(&text))).collect())
    }

    /// The line, and spaces up to `width` columns, before it or behind it.
    pub(crate) fn padded(mut self, width: usize, before: bool) -> Self {
        let missing = " ".repeat(width.saturating_sub(self.width()));
        let place = if before { 0 } else { self.0.len() };
        self.0.insert(place, (Tone::Plain, missing));
        self
    }

    /// How many columns it takes.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// This line, and another behind it.
    pub(crate) fn and(mut self, other: Line) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Without tones.
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// With tones, as terminals understand them.
    pub(crate) fn coloured(&self) -> String {
        let piece = |(tone, text): &(Tone, String)| match tone.code() {
            Some(code) => format!("{code}{text}\x1b[0m"),
            None => text.clone(),
        };
        self.0.iter().map(piece).collect()
    }
}

/// The two parts of a progress bar.
pub(crate) fn bar(percent: u8) -> (String, String) {
    const COLUMNS: usize = 12;
    let full = (usize::from(percent) * COLUMNS / 100).min(COLUMNS);
    ("█".repeat(full), "░".repeat(COLUMNS - full))
}

/// The words of `text` in lines of at most `width` columns, where no word is longer.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_columns_and_not_by_bytes() {
        let line = Line::of(Tone::Good, "█████").then(Tone::Plain, " 50 %");
        assert_eq!(line.clone().cut(10).text(), "█████ 50 %");
        assert_eq!(line.clone().cut(7).text(), "█████ …");
        assert_eq!(line.clone().cut(3).text(), "██…");
        assert_eq!(line.clone().cut(1).text(), "…");
        assert_eq!(line.cut(0).text(), "");
    }

    #[test]
    fn tones_are_closed_and_plain_text_has_none() {
        let line = Line::of(Tone::Bad, "Failed").then(Tone::Plain, " x");
        assert_eq!(line.coloured(), "\x1b[31mFailed\x1b[0m x");
        assert_eq!(line.text(), "Failed x");
    }

    #[test]
    fn sentences_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible", 4), ["incomprehensible"]);
        assert!(wrapped("", 4).is_empty());
    }
}
