//! One event, one line of JSON. There is a line for every request, so fields are written straight
//! into the line, without a tree in between. (`tracing-subscriber` has a JSON format, too, but it
//! drops the causes of an error.)

use super::NodeField;
use anyhow::Chain;
use std::fmt::{self, Write};
use store::Clock;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

/// Formats an event as a line.
pub(super) struct JsonLines<C> {
    /// Gives the time of each event.
    pub(super) clock: C,
    /// The field that names the node, where the process is one.
    pub(super) node: NodeField,
}

impl<S, N, C> FormatEvent<S, N> for JsonLines<C>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    C: Clock + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (metadata, at) = (event.metadata(), wire::format_time(self.clock.read().wall));
        write!(line, "{{\"timestamp\":\"{at}\",\"level\":\"{}\"{}", metadata.level(), self.node)?;
        let mut fields = Fields { line: &mut line, result: Ok(()) };
        event.record(&mut fields);
        fields.result?;
        writeln!(line, ",\"target\":\"{}\"}}", metadata.target())
    }
}

struct Fields<'a, 'w> {
    line: &'a mut Writer<'w>,
    result: fmt::Result,
}

impl Fields<'_, '_> {
    /// Writes one field, unless an earlier field failed.
    fn write_field(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.result.is_ok() {
            self.result = self.line.write_str(",\"");
        }
        self.result = self.result.and_then(|()| escape(self.line, field.name()));
        self.result = self.result.and_then(|()| self.line.write_str("\":"));
        self.result = self.result.and_then(|()| value(self.line));
    }
}

impl Visit for Fields<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write_field(field, |line| quoted(line, format_args!("{value}")));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write_field(field, |line| quoted(line, format_args!("{value:?}")));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write_field(field, |line| write!(line, "{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write_field(field, |line| write!(line, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write_field(field, |line| write!(line, "{value}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no form of NaN or infinity.
        self.write_field(field, |line| match value.is_finite() {
            true => write!(line, "{value}"),
            false => line.write_str("null"),
        });
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.write_field(field, |line| {
            line.write_char('"')?;
            for (depth, error) in Chain::new(value).enumerate() {
                line.write_str(if depth == 0 { "" } else { ": " })?;
                write!(Escaped(line), "{error}")?;
            }
            line.write_char('"')
        });
    }
}

fn quoted(line: &mut Writer<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
    line.write_char('"')?;
    Escaped(line).write_fmt(text)?;
    line.write_char('"')
}

/// Escapes what is written through it, so that it stays within its quotes and within its line.
struct Escaped<'a, 'w>(&'a mut Writer<'w>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape(self.0, text)
    }
}

fn escape(line: &mut Writer<'_>, text: &str) -> fmt::Result {
    let special = |letter: char| matches!(letter, '"' | '\\') || letter.is_control();
    let mut rest = text;
    while let Some(at) = rest.find(special) {
        let (plain, from) = rest.split_at(at);
        line.write_str(plain)?;
        let letter = from.chars().next().expect("find returns the offset of a character");
        match letter {
            '"' => line.write_str("\\\"")?,
            '\\' => line.write_str("\\\\")?,
            '\n' => line.write_str("\\n")?,
            letter => write!(line, "\\u{:04x}", u32::from(letter))?,
        }
        rest = &from[letter.len_utf8()..];
    }
    line.write_str(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Timestamp;
    use serde_json::Value;
    use std::{
        io,
        sync::{Arc, Mutex},
        time::Duration,
    };
    use store::Reading;
    use tracing_subscriber::fmt;

    struct Noon;

    impl Clock for Noon {
        fn read(&self) -> Reading {
            Reading { wall: Timestamp::from_unix_ms(0), monotonic: Duration::ZERO }
        }
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_log_event_is_one_line_of_json() {
        let lines = Lines::default();
        let out = lines.clone();
        let format = JsonLines { clock: Noon, node: NodeField::of(Some("n-1")) };
        let subscriber = fmt().event_format(format).with_writer(move || out.clone()).finish();
        let special = "a\"b\\c\nd\re\u{0}f\u{85}ü";
        let outer = anyhow::anyhow!("inner \"x\"").context("outer");
        let outer: &dyn std::error::Error = outer.as_ref();
        tracing::subscriber::with_default(subscriber, || {
            let nothing: Option<&str> = None;
            tracing::info!(special, %special, count = 7_u64, less = -1_i64, ms = 0.25, yes = true, nothing, "request");
            tracing::warn!(error = outer, nan = f64::NAN, debug = ?Some("x"), "it \"broke\"");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let read: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read.len(), 2, "{text}");
        assert_eq!(read[0]["timestamp"], "1970-01-01T00:00:00.000Z");
        assert_eq!((&read[0]["level"], &read[0]["message"]), (&"INFO".into(), &"request".into()));
        assert!(read.iter().all(|line| line["node"] == "n-1"), "{text}");
        assert_eq!(read[0]["special"], special);
        assert_eq!(read[0]["ms"], 0.25);
        assert_eq!((&read[0]["count"], &read[0]["less"]), (&7.into(), &Value::from(-1)));
        assert_eq!((&read[0]["yes"], read[0].get("nothing")), (&true.into(), None));
        assert_eq!(read[1]["error"], "outer: inner \"x\"");
        assert_eq!((&read[1]["nan"], &read[1]["debug"]), (&Value::Null, &"Some(\"x\")".into()));
    }
}
