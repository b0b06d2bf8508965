//! Tables for people: aligned, without boxes, no wider than the terminal.

use super::clean;
use crate::ink::{Line, Tone, columns};

/// Rows under titles.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// One column.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    right: bool,
    shrinks: bool,
    only_wide: bool,
}

/// One field.
#[derive(Clone)]
pub(crate) struct Cell(Line);

/// Between two columns.
const GAP: usize = 2;
/// A column that gives way keeps so much.
const LEAST: usize = 8;

impl Column {
    /// A column that is shown in full: ids, codes, states.
    pub(crate) const fn new(title: &'static str) -> Self {
        Column { title, right: false, shrinks: false, only_wide: false }
    }

    /// A column of numbers.
    pub(crate) const fn number(title: &'static str) -> Self {
        Column { right: true, ..Column::new(title) }
    }

    /// A column of texts, which are cut where there is no room.
    pub(crate) const fn text(title: &'static str) -> Self {
        Column { shrinks: true, ..Column::new(title) }
    }

    /// Only for those who want to see everything.
    pub(crate) const fn wide(self) -> Self {
        Column { only_wide: true, ..self }
    }
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Cell::toned(Tone::Plain, text)
    }

    pub(crate) fn toned(tone: Tone, text: impl AsRef<str>) -> Self {
        Cell(Line::of(tone, clean(text.as_ref())))
    }

    /// What may be absent, which looks like nothing.
    pub(crate) fn maybe(text: Option<impl AsRef<str>>) -> Self {
        text.map_or(Cell(Line::new()), Cell::new)
    }

    /// A number; none of something is faint.
    pub(crate) fn count(tone: Tone, count: u64) -> Self {
        match count {
            0 => Cell::toned(Tone::Faint, "0"),
            count => Cell::toned(tone, count.to_string()),
        }
    }
}

impl Table {
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Table { columns: columns.into(), rows: Vec::new() }
    }

    /// Adds a row, with a cell for every column, also for those that only wide tables show.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for every column");
        self.rows.push(cells);
    }

    /// The lines, in at most `room` columns of a terminal as far as the table can give way.
    pub(crate) fn lines(&self, room: Option<usize>, wide: bool) -> Vec<Line> {
        let shown: Vec<usize> =
            (0..self.columns.len()).filter(|at| wide || !self.columns[*at].only_wide).collect();
        let mut widths: Vec<usize> = shown.iter().map(|at| self.natural(*at)).collect();
        if let Some(room) = room {
            let shrinks: Vec<bool> = shown.iter().map(|at| self.columns[*at].shrinks).collect();
            fit(&mut widths, &shrinks, room);
        }
        let head = |at: usize| Line::of(Tone::Faint, self.columns[at].title.to_uppercase());
        let head = self.line(&shown, &widths, head);
        let rows = self.rows.iter().map(|row| self.line(&shown, &widths, |at| row[at].0.clone()));
        let lines = std::iter::once(head).chain(rows);
        match room {
            Some(room) => lines.map(|line| line.cut(room.saturating_sub(1))).collect(),
            None => lines.collect(),
        }
    }

    fn natural(&self, at: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[at].0.width());
        cells.chain([columns(self.columns[at].title)]).max().unwrap_or(0)
    }

    fn line(&self, shown: &[usize], widths: &[usize], cell: impl Fn(usize) -> Line) -> Line {
        let mut line = Line::new();
        for (place, (at, width)) in shown.iter().zip(widths).enumerate() {
            let gap = if place == 0 { 0 } else { GAP };
            let cut = cell(*at).cut(*width).padded(*width, self.columns[*at].right);
            line = line.then(Tone::Plain, " ".repeat(gap)).and(cut);
        }
        line
    }
}

/// Takes from the widest column that may give way, until all fit or none can.
fn fit(widths: &mut [usize], shrinks: &[bool], room: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    // A line that ends in the last column makes some terminals wrap.
    let room = room.saturating_sub(1 + gaps);
    while widths.iter().sum::<usize>() > room {
        let giving = (0..widths.len()).filter(|at| shrinks[*at] && widths[*at] > LEAST);
        let Some(widest) = giving.max_by_key(|at| widths[*at]) else { return };
        widths[widest] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [
            Column::new("id"),
            Column::number("count"),
            Column::text("message"),
            Column::new("more").wide(),
        ];
        let mut table = Table::new(columns);
        table.row([Cell::new("a1"), Cell::new("7"), Cell::new("short"), Cell::new("x")]);
        let long = "a message that is long";
        table.row([Cell::new("b"), Cell::new("1234567"), Cell::new(long), Cell::new("y")]);
        table
    }

    fn shown(room: Option<usize>, wide: bool) -> Vec<String> {
        let lines = table().lines(room, wide);
        lines.iter().map(|line| line.text().trim_end().to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(
            shown(None, false),
            ["ID    COUNT  MESSAGE", "a1        7  short", "b   1234567  a message that is long"]
        );
    }

    #[test]
    fn texts_give_way_and_numbers_do_not() {
        let narrow = shown(Some(25), false);
        assert_eq!(narrow[2], "b   1234567  a message …");
        assert!(narrow.iter().all(|line| line.chars().count() < 25));
        assert_eq!(shown(Some(20), false)[2], "b   1234567  a mes…", "and the rest is cut");
    }

    #[test]
    fn wide_characters_keep_the_columns_straight() {
        let mut table = Table::new([Column::text("note"), Column::new("x")]);
        table.row([Cell::new("\u{6708}\u{6b21}\u{62a5}\u{544a}"), Cell::new("a")]);
        table.row([Cell::new("report"), Cell::new("b")]);
        let lines = |room| table.lines(room, false).iter().map(Line::text).collect::<Vec<_>>();
        assert_eq!(lines(None)[1..], ["\u{6708}\u{6b21}\u{62a5}\u{544a}  a", "report    b"]);
        assert_eq!(lines(Some(10))[1], "\u{6708}\u{6b21}\u{62a5}\u{544a}…");
    }

    #[test]
    fn wide_shows_everything() {
        assert_eq!(shown(None, true)[2], "b   1234567  a message that is long  y");
    }

    #[test]
    fn cells_are_clean() {
        let mut table = Table::new([Column::new("x")]);
        table.row([Cell::new("\x1b[2Jevil\nline")]);
        assert_eq!(table.lines(None, false)[1].text(), "[2Jevil line");
    }
}
