//! PostgreSQL's messages: those that the proxy has to recognize.
//!
//! After the start-up, each message is a letter, a length that counts itself, and a body.

use std::io::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt};

/// PostgreSQL's own limit.
const LENGTH_MAX: u32 = 1 << 30;

/// Codes in the place of the protocol version in a start-up packet.
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

/// One message, with its letter and length.
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// Reads the next message. `None`: the other side closed the connection between two messages.
    pub(crate) async fn read(reader: &mut (impl AsyncRead + Unpin)) -> Result<Option<Message>> {
        let letter = match reader.read_u8().await {
            Ok(letter) => letter,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        };
        read_rest(reader, vec![letter]).await.map(|bytes| Some(Message(bytes)))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether the server reports a successful COMMIT. A COMMIT that ends a failed transaction is
    /// answered with ROLLBACK.
    pub(crate) fn is_commit_complete(&self) -> bool {
        self.letter() == b'C' && self.body() == b"COMMIT\0"
    }

    /// Whether the server reports an error.
    pub(crate) fn is_error(&self) -> bool {
        self.letter() == b'E'
    }

    /// Whether this message ends the server's answer to a request.
    pub(crate) fn is_ready_for_query(&self) -> bool {
        self.letter() == b'Z'
    }

    /// Whether this message ends the client's request.
    pub(crate) fn ends_request(&self) -> bool {
        matches!(self.letter(), b'S' | b'Q')
    }

    /// The kind of a statement in the simple protocol.
    pub(crate) fn query_kind(&self) -> Option<Kind> {
        self.strings().next().filter(|_| self.letter() == b'Q').map(Kind::of)
    }

    /// The name and kind of a statement that the client prepares.
    pub(crate) fn prepared_statement(&self) -> Option<(&[u8], Kind)> {
        let mut strings = self.strings();
        let (name, statement) = (strings.next()?, strings.next()?);
        (self.letter() == b'P').then(|| (name, Kind::of(statement)))
    }

    /// The name of the prepared statement that the client binds.
    pub(crate) fn bound_statement(&self) -> Option<&[u8]> {
        // The portal's name comes first.
        self.strings().nth(1).filter(|_| self.letter() == b'B')
    }

    fn letter(&self) -> u8 {
        self.0[0]
    }

    fn body(&self) -> &[u8] {
        &self.0[5..]
    }

    /// The body as zero-terminated strings.
    fn strings(&self) -> impl Iterator<Item = &[u8]> {
        self.body().split(|byte| *byte == 0)
    }
}

/// Reads the client's start-up packet, which has no letter.
pub(crate) async fn read_startup_packet(reader: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>> {
    read_rest(reader, Vec::new()).await
}

/// Whether a start-up packet requests encryption; the client then waits for a one-byte answer.
pub(crate) fn is_encryption_request(startup_packet: &[u8]) -> bool {
    let code =
        startup_packet.get(4..8).and_then(|code| code.try_into().ok()).map(u32::from_be_bytes);
    matches!(code, Some(SSL_REQUEST | GSS_REQUEST))
}

/// Reads the length and the body, and appends them to `bytes`.
async fn read_rest(reader: &mut (impl AsyncRead + Unpin), mut bytes: Vec<u8>) -> Result<Vec<u8>> {
    let length = reader.read_u32().await?;
    if !(4..=LENGTH_MAX).contains(&length) {
        return Err(Error::new(ErrorKind::InvalidData, format!("no message is {length} long")));
    }
    bytes.extend(length.to_be_bytes());
    let body = u64::from(length - 4);
    if reader.take(body).read_to_end(&mut bytes).await? as u64 != body {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// What statements do, judged by the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Begin,
    Commit,
    Rollback,
    /// Commits by itself where no transaction is open.
    Write,
    Other,
}

impl Kind {
    fn of(statements: &[u8]) -> Kind {
        let statements = String::from_utf8_lossy(statements).to_ascii_lowercase();
        let each =
            || statements.split(';').map(str::trim).filter(|statement| !statement.is_empty());
        let last = each().next_back().unwrap_or_default();
        match last {
            "commit" | "end" | "commit transaction" | "commit work" => Kind::Commit,
            "rollback" => Kind::Rollback,
            _ if each().any(|statement| statement.starts_with("begin")) => Kind::Begin,
            _ if writes(last) => Kind::Write,
            _ => Kind::Other,
        }
    }
}

/// Whether a statement changes rows. The parts of a statement may begin on lines of their own.
fn writes(statement: &str) -> bool {
    let words = statement.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(");
    ["insert into ", "update ", "delete from "].iter().any(|verb| {
        words.starts_with(verb) || words.starts_with("with ") && words.contains(&format!("({verb}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(letter: u8, body: &[u8]) -> Message {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        Message([&[letter], &length[..], body].concat())
    }

    #[test]
    fn a_commit_is_recognized_by_its_command_tag() {
        assert!(message(b'C', b"COMMIT\0").is_commit_complete());
        assert!(!message(b'C', b"ROLLBACK\0").is_commit_complete());
        assert!(!message(b'D', b"COMMIT\0").is_commit_complete());
    }

    #[test]
    fn a_commit_request_is_recognized_in_a_query() {
        let query_kind = |sql: &[u8]| message(b'Q', sql).query_kind();
        assert_eq!(query_kind(b"COMMIT\0"), Some(Kind::Commit));
        assert_eq!(query_kind(b"insert into t values (1); commit ; \0"), Some(Kind::Commit));
        assert_eq!(query_kind(b"select 'commit'\0"), Some(Kind::Other));
        assert_eq!(query_kind(b"\0"), Some(Kind::Other));
        assert_eq!(message(b'd', b"COMMIT\0").query_kind(), None);
    }

    #[test]
    fn an_autocommit_write_is_recognized_by_its_statement() {
        let query_kind = |sql: &[u8]| message(b'Q', sql).query_kind();
        assert_eq!(query_kind(b"insert into t values (1)\0"), Some(Kind::Write));
        assert_eq!(
            query_kind(b"with n as (insert into t values (1)) select 1\0"),
            Some(Kind::Write)
        );
        let in_lines = b"with n as (\n  insert into t values (1))\nselect 1\0";
        assert_eq!(query_kind(in_lines), Some(Kind::Write));
        assert_eq!(query_kind(b"with n as (select 1) select 1\0"), Some(Kind::Other));
        assert_eq!(query_kind(b"begin read write; set local jit = off\0"), Some(Kind::Begin));
        assert_eq!(query_kind(b"rollback\0"), Some(Kind::Rollback));
    }

    #[test]
    fn a_prepared_commit_is_known_by_its_name() {
        let prepared_statement = |body: &[u8]| {
            message(b'P', body).prepared_statement().map(|(name, kind)| (name.to_vec(), kind))
        };
        assert_eq!(prepared_statement(b"s1\0COMMIT\0\0\0"), Some((b"s1".to_vec(), Kind::Commit)));
        assert_eq!(prepared_statement(b"\0select 1\0\0\0"), Some((Vec::new(), Kind::Other)));
        assert_eq!(message(b'B', b"\0s1\0\0\0\0\0\0\0").bound_statement(), Some(&b"s1"[..]));
        assert_eq!(message(b'P', b"\0s1\0\0\0").bound_statement(), None);
    }
}
