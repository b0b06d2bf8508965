//! The tokens of a filter, one after the other.

use super::{
    error::{Fault, snippet},
    literal,
    tree::{Literal, Spanned},
};

pub(super) type Read<T> = Result<T, Fault>;

pub(super) enum Token<'a> {
    End,
    Open,
    Close,
    Word(&'a str),
    Literal(Literal),
    /// A character that means nothing in this language.
    Other(char),
}

pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Scanner { text, at: 0 }
    }

    /// The next token. After the end, it returns the end again.
    pub(super) fn token(&mut self) -> Read<Spanned<Token<'a>>> {
        self.take(|letter| letter.is_ascii_whitespace());
        let at = self.at;
        let token = match self.rest().chars().next() {
            None => Ok(Token::End),
            Some('(') => Ok(self.symbol('(', Token::Open)),
            Some(')') => Ok(self.symbol(')', Token::Close)),
            Some('\'') => self.quoted().map(|text| Token::Literal(Literal::Text(text))),
            Some('0'..='9' | '-') => literal::number(self.digits()).map(Token::Literal),
            Some(letter) if begins_name(letter) => self.word(),
            Some(other) => Ok(self.symbol(other, Token::Other(other))),
        };
        match token {
            Ok(node) => Ok(Spanned { offset: at, node }),
            Err(detail) => Err(Fault::syntax(at, detail)),
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn symbol(&mut self, symbol: char, token: Token<'a>) -> Token<'a> {
        self.at += symbol.len_utf8();
        token
    }

    /// Everything up to the first character that is not accepted.
    fn take(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|letter| !accepts(letter)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A word, or a value with a prefix.
    fn word(&mut self) -> Result<Token<'a>, String> {
        let word = self.take(continues_name);
        if !self.rest().starts_with('\'') {
            return Ok(Token::Word(word));
        }
        let body = self.quoted()?;
        literal::prefixed(word, &body).map(Token::Literal)
    }

    /// The text between two quotes, in which a doubled quote stands for one.
    fn quoted(&mut self) -> Result<Box<str>, String> {
        const UNCLOSED: &str =
            "has a text without its closing quote; a quote inside a text is written twice";
        let mut text = String::new();
        loop {
            self.at += 1;
            text.push_str(self.take(|letter| letter != '\''));
            if self.rest().is_empty() {
                return Err(UNCLOSED.into());
            }
            self.at += 1;
            if !self.rest().starts_with('\'') {
                return Ok(text.into());
            }
            text.push('\'');
        }
    }

    /// All characters that could belong to one number, so that `5and` is a bad number and not two
    /// tokens.
    fn digits(&mut self) -> &'a str {
        self.take(|letter| continues_name(letter) || matches!(letter, '.' | '+' | '-'))
    }
}

fn begins_name(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_'
}

fn continues_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

impl Token<'_> {
    /// The message for this token in place of `expected`. It never contains a value, which may be
    /// confidential.
    pub(super) fn instead_of(&self, expected: &str) -> String {
        let token = match self {
            Token::End => return format!("ends where {expected} should follow"),
            Token::Open => "'('".into(),
            Token::Close => "')'".into(),
            Token::Word(word) => format!("'{}'", snippet(word)),
            Token::Literal(literal) => literal.kind().into(),
            Token::Other(other) => format!("'{}'", other.escape_debug()),
        };
        format!("has {token} where {expected} should follow")
    }
}
