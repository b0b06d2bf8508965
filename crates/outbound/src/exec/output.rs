//! Reads a program's output line by line: a little is kept, the rest is read and discarded.

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::yield_now,
};

/// Longer lines are cut. A result must fit, with the keyword in front of it.
const LINE_BYTES_MAX: usize = 8 * 1024;
const CHUNK_BYTES: usize = 32 * 1024;

/// Receives lines.
pub(super) trait OnLine: Send {
    fn on_line(&mut self, line: &[u8]);
}

/// Assembles lines from chunks.
pub(super) struct LineBuffer<'a, H> {
    receiver: &'a mut H,
    line: Vec<u8>,
}

impl<'a, H: OnLine> LineBuffer<'a, H> {
    pub(super) fn new(receiver: &'a mut H) -> Self {
        LineBuffer { receiver, line: Vec::new() }
    }

    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let bytes_left = LINE_BYTES_MAX - self.line.len();
            self.line.extend_from_slice(&text[..text.len().min(bytes_left)]);
            if piece.ends_with(b"\n") {
                self.finish();
            }
        }
    }

    /// A last line without an end of line counts, too.
    pub(super) fn finish(&mut self) {
        self.receiver.on_line(&self.line);
        self.line.clear();
    }
}

/// Reads until no process has the pipe open for writing any more.
pub(super) async fn read_lines(
    from: Option<impl AsyncRead + Unpin>,
    lines: &mut LineBuffer<'_, impl OnLine>,
) {
    let Some(mut from) = from else { return };
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        lines.push(&chunk[..length]);
        // A program that writes without pause must not keep this task from seeing `stop`.
        yield_now().await;
    }
}

/// Standard output: the last line is the message, and some lines are instructions to us.
pub(super) struct StdoutLines<'a> {
    progress: &'a (dyn Fn(u8, &str) + Send + Sync),
    last: Vec<u8>,
    pub(super) result: Option<String>,
}

impl<'a> StdoutLines<'a> {
    pub(super) fn new(progress: &'a (dyn Fn(u8, &str) + Send + Sync)) -> Self {
        StdoutLines { progress, last: Vec::new(), result: None }
    }

    /// The last line that was not empty.
    pub(super) fn message(&self) -> Option<String> {
        Some(plain(&self.last)).filter(|text| !text.is_empty())
    }

    fn report(&self, words: &[u8]) {
        let words = plain(words);
        let (percent, note) = words.split_once(' ').unwrap_or((&words, ""));
        if let Ok(percent @ 0..=100) = percent.parse() {
            (self.progress)(percent, note.trim());
        }
    }
}

impl OnLine for StdoutLines<'_> {
    fn on_line(&mut self, line: &[u8]) {
        if let Some(words) = line.strip_prefix(b"consign:progress ") {
            self.report(words);
        } else if let Some(json) = line.strip_prefix(b"consign:result ") {
            self.result = Some(String::from_utf8_lossy(json).into_owned());
        } else if !line.trim_ascii().is_empty() {
            line.clone_into(&mut self.last);
        }
    }
}

/// Standard error: the last lines tell why it failed.
#[derive(Default)]
pub(super) struct StderrTail(Vec<String>);

const STDERR_LINES_MAX: usize = 3;
const STDERR_LINE_BYTES_MAX: usize = 300;

impl StderrTail {
    /// What happened, followed by the last lines of standard error.
    pub(super) fn after(&self, what: String) -> String {
        if self.0.is_empty() { what } else { format!("{what}: {}", self.0.join(" / ")) }
    }
}

impl OnLine for StderrTail {
    fn on_line(&mut self, line: &[u8]) {
        let text = plain(&line[..line.len().min(STDERR_LINE_BYTES_MAX)]);
        if text.is_empty() {
            return;
        }
        if self.0.len() == STDERR_LINES_MAX {
            self.0.remove(0);
        }
        self.0.push(text);
    }
}

/// Text without control characters, which a terminal or a log could interpret.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let spaced = text.chars().map(|letter| if letter == '\t' { ' ' } else { letter });
    let plain: String = spaced.filter(|letter| !letter.is_control()).collect();
    plain.trim().to_owned()
}
