//! Styled lines of text, for terminals with colours and without.

use unicode_width::UnicodeWidthChar;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
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

impl Style {
    fn code(self) -> Option<&'static str> {
        match self {
            Style::Plain => None,
            Style::Strong => Some("\x1b[1m"),
            Style::Faint => Some("\x1b[2m"),
            Style::Waiting => Some("\x1b[33m"),
            Style::Busy => Some("\x1b[36m"),
            Style::Good => Some("\x1b[32m"),
            Style::Bad => Some("\x1b[31m"),
            Style::Poison => Some("\x1b[35m"),
            Style::Idle => Some("\x1b[34m"),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StyledLine(Vec<(Style, String)>);

impl StyledLine {
    pub(crate) fn new() -> Self {
        StyledLine::default()
    }

    pub(crate) fn of(style: Style, text: impl Into<String>) -> Self {
        StyledLine::new().then(style, text)
    }

    pub(crate) fn then(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// The line in at most `width` columns; what does not fit ends with `…`.
    pub(crate) fn cut(self, width: usize) -> Self {
        if self.width() <= width {
            return self;
        }
        let mut columns_left = width.saturating_sub(1);
        let mut pieces = Vec::with_capacity(self.0.len() + 1);
        for (style, text) in self.0 {
            let fitting = prefix_within(&text, columns_left);
            // The text after the first character that does not fit is dropped, too.
            columns_left =
                if fitting.len() < text.len() { 0 } else { columns_left - columns(fitting) };
            pieces.push((style, fitting.to_owned()));
        }
        pieces.push((Style::Faint, prefix_within("…", width).to_owned()));
        StyledLine(pieces)
    }

    pub(crate) fn map(self, change: impl Fn(&str) -> String) -> Self {
        StyledLine(self.0.into_iter().map(|(style, text)| (style, change(&text))).collect())
    }

    /// The line, padded with spaces to `width` columns, before or after it.
    pub(crate) fn padded(mut self, width: usize, before: bool) -> Self {
        let padding = " ".repeat(width.saturating_sub(self.width()));
        let index = if before { 0 } else { self.0.len() };
        self.0.insert(index, (Style::Plain, padding));
        self
    }

    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| columns(text)).sum()
    }

    pub(crate) fn and(mut self, other: StyledLine) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    pub(crate) fn coloured(&self) -> String {
        let piece = |(style, text): &(Style, String)| match style.code() {
            Some(code) => format!("{code}{text}\x1b[0m"),
            None => text.clone(),
        };
        self.0.iter().map(piece).collect()
    }
}

impl<Text: Into<String>> From<Text> for StyledLine {
    fn from(text: Text) -> Self {
        StyledLine::of(Style::Plain, text)
    }
}

/// The width of a text in columns. It is counted by characters: most terminals draw them one by
/// one, also where several make one emoji.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}

fn prefix_within(text: &str, columns_left: usize) -> &str {
    let mut width = 0;
    let overflows = |letter: char| {
        width += letter.width().unwrap_or(0);
        width > columns_left
    };
    &text[..text.find(overflows).unwrap_or(text.len())]
}

pub(crate) fn bar(percent: u8) -> (String, String) {
    const COLUMNS: usize = 12;
    let full = (usize::from(percent) * COLUMNS / 100).min(COLUMNS);
    ("█".repeat(full), "░".repeat(COLUMNS - full))
}

/// Wraps `text` to lines of at most `width` columns, where no word is longer.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(word) <= width => {
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
        let line = StyledLine::of(Style::Good, "█████").then(Style::Plain, " 50 %");
        assert_eq!(line.clone().cut(10).text(), "█████ 50 %");
        assert_eq!(line.clone().cut(7).text(), "█████ …");
        assert_eq!(line.clone().cut(3).text(), "██…");
        assert_eq!(line.clone().cut(1).text(), "…");
        assert_eq!(line.cut(0).text(), "");
    }

    /// Chinese characters take two columns each, and a combining accent takes none.
    #[test]
    fn line_width_counts_terminal_columns() {
        let line =
            StyledLine::of(Style::Plain, "\u{6708}\u{6b21} e\u{301}").then(Style::Good, "ab");
        assert_eq!(line.width(), 8);
        assert_eq!(line.clone().cut(8), line);
        assert_eq!(line.clone().cut(7).text(), "\u{6708}\u{6b21} e\u{301}…");
        assert_eq!(line.clone().cut(4).text(), "\u{6708}…", "half a character is none");
        assert_eq!(line.cut(4).padded(5, false).width(), 5);
        assert_eq!(wrapped("\u{6708}\u{6b21} ab", 6), ["\u{6708}\u{6b21}", "ab"]);
    }

    #[test]
    fn tones_are_closed_and_plain_text_has_none() {
        let line = StyledLine::of(Style::Bad, "Failed").then(Style::Plain, " x");
        assert_eq!(line.coloured(), "\x1b[31mFailed\x1b[0m x");
        assert_eq!(line.text(), "Failed x");
    }

    #[test]
    fn text_wraps_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible", 4), ["incomprehensible"]);
        assert!(wrapped("", 4).is_empty());
    }
}
