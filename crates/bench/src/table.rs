//! The result for people, in 100 columns.

use crate::{
    BenchReport,
    measure::{Goal, Measure, Unit},
};
use std::fmt::Write;

/// How wide the columns are: what, ours, raw, ratio, spread, target, ok or missed.
const WIDTHS: [usize; 7] = [32, 13, 13, 8, 14, 11, 7];

impl BenchReport {
    /// The numbers in groups, below a line about the machine.
    pub fn table(&self) -> String {
        let mut table = format!("{}\n", self.headline());
        for lines in self.measures.chunk_by(|measure, next| measure.group == next.group) {
            let name = format!("{:?}", lines[0].group);
            let names = [&name, "ours", self.beside.name(), "ratio", "spread", "target", ""];
            write_row(&mut table, "\n", names.map(str::to_owned));
            lines.iter().for_each(|line| write_row(&mut table, "", cells(line)));
        }
        table.push('\n');
        for note in self.notes() {
            writeln!(table, "{note}").expect(TO_A_STRING);
        }
        table
    }
}

const TO_A_STRING: &str = "a string takes everything";

fn write_row(table: &mut String, prefix: &str, cells: [String; 7]) {
    let mut row = format!("{prefix}{:<1$}", cells[0], WIDTHS[0]);
    for (cell, width) in cells.iter().zip(WIDTHS).skip(1) {
        write!(row, "{cell:>width$}").expect(TO_A_STRING);
    }
    writeln!(table, "{}", row.trim_end()).expect(TO_A_STRING);
}

fn cells(measure: &Measure) -> [String; 7] {
    let show = |number| with_unit(number, measure.unit);
    let (low, high) = measure.spread();
    let spread = match &measure.raw {
        Some(_) => format!("{low:.2}–{high:.2}"),
        None if low == high => String::new(),
        None => format!("{}–{}", without_unit(low, measure.unit), without_unit(high, measure.unit)),
    };
    [
        measure.label.clone(),
        show(measure.ours.median()),
        measure.raw.as_ref().map_or(String::new(), |raw| show(raw.median())),
        measure.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}")),
        spread,
        measure.goal.map_or(String::new(), |goal| target(goal, measure.unit)),
        measure.is_met().map_or("", |met| if met { "ok" } else { "missed" }).into(),
    ]
}

fn target(goal: Goal, unit: Unit) -> String {
    match goal {
        Goal::RatioAtLeast(least) => format!("≥ {least:.2}"),
        Goal::RatioAtMost(most) => format!("≤ {most:.2}"),
        Goal::AtLeast(least) => format!("≥ {}", with_unit(least, unit)),
        Goal::AtMost(most) if most.fract() == 0.0 => format!("≤ {most} {}", unit.names().0.trim()),
        Goal::AtMost(most) => format!("≤ {}", with_unit(most, unit)),
    }
}

fn with_unit(number: f64, unit: Unit) -> String {
    format!("{}{}", without_unit(number, unit), unit.names().0)
}

fn without_unit(number: f64, unit: Unit) -> String {
    match unit {
        Unit::JobsPerSecond | Unit::RequestsPerSecond | Unit::BytesPerJob => thousands(number),
        Unit::Milliseconds => format!("{number:.2}"),
        Unit::Mebibytes => format!("{number:.1}"),
    }
}

/// A whole number, as people read it: 1,234,567.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn large_numbers_have_commas() {
        let shown = [0.0, 999.4, 1_000.0, 12_345.6, 1_234_567.0].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "12,346", "1,234,567"]);
    }

    #[test]
    fn the_table_fits_100_columns_and_marks_missed_targets() {
        let table = example().table();
        assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
        let first = "2026-11-15 19:00 UTC · 2 cores · ext4 · SQLite 3.51.3 · 100,000 jobs";
        assert_eq!(table.lines().next(), Some(first));
        let row =
            |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        let words = |row: String| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            words(row("whole lives"))[2..],
            ["30,000/s", "60,000/s", "0.50", "0.50–0.51", "≥", "0.50", "ok"]
        );
        assert_eq!(words(row("peak memory"))[2..], ["41.3", "MiB", "≤", "40", "MiB", "missed"]);
    }

    #[test]
    fn columns_stand_below_each_other() {
        let table = example().table();
        let rows = table.lines().filter(|line| line.ends_with("ok") || line.ends_with("missed"));
        let ends: Vec<usize> = rows.map(|row| row.chars().count()).collect();
        assert!(ends.iter().all(|end| *end == WIDTHS.iter().sum::<usize>()), "{ends:?}\n{table}");
    }
}
