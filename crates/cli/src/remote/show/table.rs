//! Tables for people: aligned, without boxes, no wider than the terminal.

use super::{Show, clean};
use crate::style::{Style, StyledLine};

/// Rows under titles: each column knows how it shows a row.
pub(crate) struct Table<'a, T> {
    rows: &'a [T],
    columns: Vec<Column>,
}

#[derive(Default)]
struct Column {
    align_right: bool,
    may_shrink: bool,
    only_wide: bool,
    /// The title, and a line for each row.
    lines: Vec<StyledLine>,
}

pub(crate) struct Cell(StyledLine);

const GAP: usize = 2;
/// The minimal width of a column that may shrink.
const SHRUNK_WIDTH_MIN: usize = 8;

impl<'a, T> Table<'a, T> {
    pub(crate) fn of(rows: &'a [T]) -> Self {
        Table { rows, columns: Vec::new() }
    }

    /// Adds a column that is shown in full: ids, codes, states.
    pub(crate) fn column<C: Into<Cell>>(mut self, title: &str, cell: impl Fn(&'a T) -> C) -> Self {
        let head = StyledLine::of(Style::Faint, title.to_uppercase());
        let rows = self.rows.iter().map(|row| cell(row).into().0);
        let lines = std::iter::once(head).chain(rows).collect();
        self.columns.push(Column { lines, ..Column::default() });
        self
    }

    /// Adds a column of numbers.
    pub(crate) fn number<C: Into<Cell>>(self, title: &str, cell: impl Fn(&'a T) -> C) -> Self {
        self.column(title, cell).with_last(|column| column.align_right = true)
    }

    /// Adds a column of texts, which are cut where there is no space.
    pub(crate) fn text<C: Into<Cell>>(self, title: &str, cell: impl Fn(&'a T) -> C) -> Self {
        self.column(title, cell).with_last(|column| column.may_shrink = true)
    }

    /// Shows the last column only in the wide form.
    pub(crate) fn wide(self) -> Self {
        self.with_last(|column| column.only_wide = true)
    }

    fn with_last(mut self, change: impl FnMut(&mut Column)) -> Self {
        self.columns.last_mut().into_iter().for_each(change);
        self
    }

    /// The lines, as wide as the output allows.
    pub(crate) fn lines(&self, show: &Show) -> Vec<StyledLine> {
        self.render(show.columns(), show.is_wide())
    }

    /// The lines; without rows, `empty` in their place.
    pub(crate) fn lines_or(&self, show: &Show, empty: &str) -> Vec<StyledLine> {
        match self.rows {
            [] => vec![StyledLine::of(Style::Faint, empty)],
            _ => self.lines(show),
        }
    }

    /// The lines, in at most `columns_max` columns of a terminal, as far as columns can shrink.
    fn render(&self, columns_max: Option<usize>, wide: bool) -> Vec<StyledLine> {
        let shown = self.columns.iter().filter(|column| wide || !column.only_wide);
        let mut shown: Vec<(&Column, usize)> =
            shown.map(|column| (column, widest(&column.lines))).collect();
        if let Some(columns_max) = columns_max {
            fit(&mut shown, columns_max);
        }
        let line = |row: usize| {
            let mut line = StyledLine::new();
            for (index, (column, width)) in shown.iter().enumerate() {
                let gap = if index == 0 { 0 } else { GAP };
                let cell = column.lines[row].clone().cut(*width).padded(*width, column.align_right);
                line = line.then(Style::Plain, " ".repeat(gap)).and(cell);
            }
            line.cut(columns_max.map_or(usize::MAX, |columns_max| columns_max.saturating_sub(1)))
        };
        (0..=self.rows.len()).map(line).collect()
    }
}

fn widest(lines: &[StyledLine]) -> usize {
    lines.iter().map(StyledLine::width).max().unwrap_or(0)
}

/// Narrows the widest column that may shrink, until the table fits or none can.
fn fit(columns: &mut [(&Column, usize)], columns_max: usize) {
    let gaps = GAP * columns.len().saturating_sub(1);
    // A line that ends in the last column makes some terminals wrap.
    let columns_max = columns_max.saturating_sub(1 + gaps);
    while columns.iter().map(|(_, width)| width).sum::<usize>() > columns_max {
        let shrinkable = columns
            .iter_mut()
            .filter(|(column, width)| column.may_shrink && *width > SHRUNK_WIDTH_MIN);
        let Some((_, widest)) = shrinkable.max_by_key(|(_, width)| *width) else { return };
        *widest -= 1;
    }
}

impl Cell {
    pub(crate) fn styled(style: Style, text: impl AsRef<str>) -> Self {
        Cell(StyledLine::of(style, clean(text.as_ref())))
    }

    /// An optional text; an empty cell without one.
    pub(crate) fn maybe(text: Option<impl AsRef<str>>) -> Self {
        text.map_or(Cell(StyledLine::new()), Cell::from)
    }

    /// A number; zero is faint.
    pub(crate) fn count(style: Style, count: u64) -> Self {
        Cell::styled(if count == 0 { Style::Faint } else { style }, count.to_string())
    }
}

impl<Text: AsRef<str>> From<Text> for Cell {
    fn from(text: Text) -> Self {
        Cell::styled(Style::Plain, text)
    }
}

/// The colour of a state. A newer server may have others.
pub(crate) fn status_style(status: &str) -> Style {
    match status {
        "Queued" => Style::Idle,
        "Running" => Style::Busy,
        "Completed" => Style::Good,
        "Failed" => Style::Bad,
        "Poisoned" => Style::Poison,
        "Cancelled" => Style::Waiting,
        _ => Style::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [[&str; 4]; 2] =
        [["a1", "7", "short", "x"], ["b", "1234567", "a message that is long", "y"]];

    fn render_rows(columns_max: Option<usize>, wide: bool) -> Vec<String> {
        let table = Table::of(&ROWS)
            .column("id", |row| row[0])
            .number("count", |row| row[1])
            .text("message", |row| row[2])
            .column("more", |row| row[3])
            .wide();
        let lines = table.render(columns_max, wide);
        lines.iter().map(|line| line.text().trim_end().to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(
            render_rows(None, false),
            ["ID    COUNT  MESSAGE", "a1        7  short", "b   1234567  a message that is long"]
        );
    }

    #[test]
    fn texts_give_way_and_numbers_do_not() {
        let narrow = render_rows(Some(25), false);
        assert_eq!(narrow[2], "b   1234567  a message …");
        assert!(narrow.iter().all(|line| line.chars().count() < 25));
        assert_eq!(render_rows(Some(20), false)[2], "b   1234567  a mes…", "and the rest is cut");
    }

    #[test]
    fn wide_characters_keep_the_columns_straight() {
        let rows = [("\u{6708}\u{6b21}\u{62a5}\u{544a}", "a"), ("report", "b")];
        let table = Table::of(&rows).text("note", |row| row.0).column("x", |row| row.1);
        let lines = |columns_max| {
            table.render(columns_max, false).iter().map(StyledLine::text).collect::<Vec<_>>()
        };
        assert_eq!(lines(None)[1..], ["\u{6708}\u{6b21}\u{62a5}\u{544a}  a", "report    b"]);
        assert_eq!(lines(Some(10))[1], "\u{6708}\u{6b21}\u{62a5}\u{544a}…");
    }

    #[test]
    fn wide_shows_everything() {
        assert_eq!(render_rows(None, true)[2], "b   1234567  a message that is long  y");
    }

    #[test]
    fn cells_are_clean() {
        let table = Table::of(&["\x1b[2Jevil\nline"]).column("x", |row| row);
        assert_eq!(table.render(None, false)[1].text(), "[2Jevil line");
    }
}
