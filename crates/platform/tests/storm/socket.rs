//! The connection between a caller and the process: one request, one answer, or none.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// The answer to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It was done; the items of the answer.
    Done(Vec<String>),
    /// The contract refuses, with this code.
    Refused(String),
    /// The disk is full; nothing was done.
    Full,
    /// Nothing was done, for another reason.
    Unavailable,
    /// The outcome is unknown.
    Unknown,
    /// No answer: the process died, or was not running.
    Nothing,
}

/// A connected caller.
pub(crate) struct Caller {
    socket: PathBuf,
    connection: Option<BufReader<UnixStream>>,
}

impl Caller {
    pub(crate) fn at(socket: &Path) -> Self {
        Caller { socket: socket.to_owned(), connection: None }
    }

    /// Asks once.
    pub(crate) fn ask(&mut self, request: &str) -> Answer {
        let answer = self.try_ask(request);
        if answer.is_none() {
            self.connection = None;
        }
        answer.map_or(Answer::Nothing, |line| parse_answer(&line))
    }

    /// Repeats the request until the process answers, across its deaths. Returns how often there
    /// was no answer.
    pub(crate) fn ask_until_answered(&mut self, request: &str) -> (Answer, u64) {
        for unanswered in 0..TRIES_MAX {
            match self.ask(request) {
                Answer::Done(items) => return (Answer::Done(items), unanswered),
                Answer::Refused(code) => return (Answer::Refused(code), unanswered),
                Answer::Full | Answer::Unavailable | Answer::Unknown | Answer::Nothing => {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        panic!("the process does not answer any more: {request}");
    }

    fn try_ask(&mut self, request: &str) -> Option<String> {
        if self.connection.is_none() {
            let stream = UnixStream::connect(&self.socket).ok()?;
            stream.set_read_timeout(Some(crate::WAIT_MAX)).unwrap();
            self.connection = Some(BufReader::new(stream));
        }
        let connection = self.connection.as_mut()?;
        connection.get_mut().write_all(format!("{request}\n").as_bytes()).ok()?;
        let mut answer = String::new();
        if let Err(error) = connection.read_line(&mut answer) {
            assert_ne!(
                error.kind(),
                ErrorKind::WouldBlock,
                "the process is alive and does not answer: {request}"
            );
        }
        answer.strip_suffix('\n').map(str::to_owned)
    }
}

/// A minute or two of five milliseconds each.
const TRIES_MAX: u64 = 20_000;

fn parse_answer(answer: &str) -> Answer {
    let (word, rest) = answer.split_once(' ').unwrap_or((answer, ""));
    match word {
        "done" => Answer::Done(rest.split_whitespace().map(str::to_owned).collect()),
        "refused" => Answer::Refused(rest.to_owned()),
        "full" => Answer::Full,
        "unavailable" => Answer::Unavailable,
        "unknown" => Answer::Unknown,
        other => panic!("the process answers {other}"),
    }
}

/// The socket of the process that serves the store at `path`.
pub(crate) fn socket_path(path: &Path) -> PathBuf {
    path.with_extension("sock")
}

/// The fields of one item.
#[track_caller]
pub(crate) fn fields<const N: usize>(item: &str) -> [&str; N] {
    item.split(';').collect::<Vec<_>>().try_into().expect("an item with all its fields")
}
