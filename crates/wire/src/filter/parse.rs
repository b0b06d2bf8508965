//! From the text to the tree, by recursive descent: a function for each rule of the grammar.
//!
//! ```text
//! filter    = [ or ]
//! or        = and *( "or" and )
//! and       = unary *( "and" unary )
//! unary     = "not" unary / "(" or ")" / condition
//! condition = operand comparison operand / name / "true" / "false"
//! ```

use super::{
    FILTER_BYTES_MAX, FILTER_COMPARISONS_MAX, FILTER_DEPTH_MAX,
    error::{Fault, FilterError, snippet},
    literal::lower_case,
    scan::{Read, Scanner, Token},
    tree::{Condition, Literal, Spanned},
};
use engine::Comparison;

/// The keywords. No name can be one of them.
const KEYWORDS: [&str; 12] =
    ["and", "or", "not", "eq", "ne", "gt", "ge", "lt", "le", "true", "false", "null"];
/// Each operator, and the operator for swapped operands.
const COMPARISONS: [(&str, Comparison, Comparison); 6] = [
    ("eq", Comparison::Eq, Comparison::Eq),
    ("ne", Comparison::Ne, Comparison::Ne),
    ("gt", Comparison::Gt, Comparison::Lt),
    ("ge", Comparison::Ge, Comparison::Le),
    ("lt", Comparison::Lt, Comparison::Gt),
    ("le", Comparison::Le, Comparison::Ge),
];
/// What an error message names as expected.
const CONDITION: &str = "a comparison such as status eq 'Queued'";
const OPERAND: &str = "a name, or a value (texts stand in single quotes)";
const COMPARISON: &str = "one of eq, ne, gt, ge, lt, le";
const CONNECTIVE: &str = "and, or, or the end";
const CLOSING: &str = "and, or, or a closing parenthesis";
/// Keywords that begin an operand. Any other keyword can be a name as soon as one letter is in
/// upper case.
const OPENING: [&str; 4] = ["not", "true", "false", "null"];

/// Reads a filter. A blank one is always true.
pub fn parse(text: &str) -> Result<Condition, FilterError> {
    let bytes = text.len();
    if bytes > FILTER_BYTES_MAX {
        let detail = format!("has {bytes} bytes, and at most {FILTER_BYTES_MAX} are read");
        return Err(FilterError::whole(detail));
    }
    read(text).map_err(|fault| FilterError::new(text, fault))
}

fn read(text: &str) -> Read<Condition> {
    let mut scanner = Scanner::new(text);
    let ahead = scanner.token()?;
    let mut parser = Parser { scanner, ahead, depth: 0, comparisons: 0 };
    if matches!(parser.ahead.node, Token::End) {
        return Ok(Condition::Always(true));
    }
    let condition = parser.or()?;
    match parser.ahead.node {
        Token::End => Ok(condition),
        Token::Open | Token::Close | Token::Word(_) | Token::Literal(_) | Token::Other(_) => {
            Err(parser.unexpected(CONNECTIVE))
        }
    }
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    /// The lookahead: a token that was read and not consumed.
    ahead: Spanned<Token<'a>>,
    /// Open parentheses and nots.
    depth: usize,
    comparisons: usize,
}

enum Operand {
    Name(Spanned<Box<str>>),
    Value(Spanned<Literal>),
}

impl<'a> Parser<'a> {
    fn or(&mut self) -> Read<Condition> {
        let mut any = vec![self.and()?];
        while self.skip("or")? {
            any.push(self.and()?);
        }
        Ok(one_or(any, Condition::Or))
    }

    fn and(&mut self) -> Read<Condition> {
        let mut all = vec![self.unary()?];
        while self.skip("and")? {
            all.push(self.unary()?);
        }
        Ok(one_or(all, Condition::And))
    }

    fn unary(&mut self) -> Read<Condition> {
        match self.ahead.node {
            Token::Word("not") => {
                self.enter()?;
                let inner = self.unary()?;
                self.depth -= 1;
                Ok(Condition::Not(Box::new(inner)))
            }
            Token::Open => {
                self.enter()?;
                let inner = self.or()?;
                self.close()?;
                Ok(inner)
            }
            Token::End | Token::Close | Token::Word(_) | Token::Literal(_) | Token::Other(_) => {
                self.condition()
            }
        }
    }

    /// Consumes the token ahead and goes one level deeper.
    fn enter(&mut self) -> Read<()> {
        self.depth += 1;
        if self.depth > FILTER_DEPTH_MAX {
            let detail = format!("nests parentheses and not deeper than {FILTER_DEPTH_MAX}");
            return Err(Fault::syntax(self.ahead.offset, detail));
        }
        self.advance()
    }

    fn close(&mut self) -> Read<()> {
        if !matches!(self.ahead.node, Token::Close) {
            return Err(self.unexpected(CLOSING));
        }
        self.depth -= 1;
        self.advance()
    }

    fn condition(&mut self) -> Read<Condition> {
        self.comparisons += 1;
        if self.comparisons > FILTER_COMPARISONS_MAX {
            let detail = format!("has more than {FILTER_COMPARISONS_MAX} comparisons");
            return Err(Fault::syntax(self.ahead.offset, detail));
        }
        let left = self.operand(CONDITION)?;
        let Some((comparison, swapped)) = self.comparison() else { return self.bare(left) };
        self.advance()?;
        let right_at = self.ahead.offset;
        let right = self.operand(OPERAND)?;
        let fault = |detail| Err(Fault::syntax(right_at, detail));
        match (left, right) {
            (Operand::Name(name), Operand::Value(value)) => {
                Ok(Condition::Compare { name, comparison, value })
            }
            (Operand::Value(value), Operand::Name(name)) => {
                Ok(Condition::Compare { name, comparison: swapped, value })
            }
            (Operand::Name(_), Operand::Name(_)) => fault(
                "compares two names; one side must be a value, and texts stand in single quotes",
            ),
            (Operand::Value(_), Operand::Value(_)) => {
                fault("compares two values; one side must be a name, without quotes")
            }
        }
    }

    /// A name or a boolean may stand alone, unless something follows that looks like the rest of a
    /// comparison.
    fn bare(&mut self, operand: Operand) -> Read<Condition> {
        let ends = matches!(self.ahead.node, Token::End | Token::Close | Token::Word("and" | "or"));
        match operand {
            Operand::Name(name) if ends => Ok(Condition::Holds(name)),
            Operand::Value(Spanned { node: Literal::Boolean(always), .. }) if ends => {
                Ok(Condition::Always(always))
            }
            Operand::Name(_) | Operand::Value(_) => Err(self.unexpected(COMPARISON)),
        }
    }

    fn operand(&mut self, expected: &str) -> Read<Operand> {
        match &self.ahead.node {
            Token::Word(word) => self.name_or_constant(word, expected),
            Token::Literal(literal) => {
                let value = Spanned { offset: self.ahead.offset, node: literal.clone() };
                self.advance()?;
                Ok(Operand::Value(value))
            }
            Token::End | Token::Open | Token::Close | Token::Other(_) => {
                Err(self.unexpected(expected))
            }
        }
    }

    fn name_or_constant(&mut self, word: &'a str, expected: &str) -> Read<Operand> {
        let at = self.ahead.offset;
        let constant = match word {
            "true" => Some(Literal::Boolean(true)),
            "false" => Some(Literal::Boolean(false)),
            "null" => Some(Literal::Null),
            _ if is_reserved(word) => return Err(self.unexpected(expected)),
            _ => None,
        };
        self.advance()?;
        if let Some(literal) = constant {
            return Ok(Operand::Value(Spanned { offset: at, node: literal }));
        }
        if matches!(self.ahead.node, Token::Open) {
            let detail = format!("calls '{}', and there are no functions here", snippet(word));
            return Err(Fault::syntax(at, detail));
        }
        Ok(Operand::Name(Spanned { offset: at, node: word.into() }))
    }

    /// The operator ahead, and the operator for swapped operands.
    fn comparison(&self) -> Option<(Comparison, Comparison)> {
        let Token::Word(word) = self.ahead.node else { return None };
        let found = COMPARISONS.into_iter().find(|(name, ..)| *name == word);
        found.map(|(_, comparison, swapped)| (comparison, swapped))
    }

    /// Consumes the word if it is ahead, and returns whether it was.
    fn skip(&mut self, word: &str) -> Read<bool> {
        let is_ahead = matches!(self.ahead.node, Token::Word(found) if found == word);
        if is_ahead {
            self.advance()?;
        }
        Ok(is_ahead)
    }

    fn advance(&mut self) -> Read<()> {
        self.ahead = self.scanner.token()?;
        Ok(())
    }

    /// The error for a wrong token ahead. Perhaps the token is only in the wrong case.
    fn unexpected(&self, expected: &str) -> Fault {
        let mut detail = self.ahead.node.instead_of(expected);
        if let Token::Word(word) = self.ahead.node
            && let Some(keyword) =
                KEYWORDS.into_iter().find(|keyword| is_in_other_case(word, keyword))
        {
            detail = lower_case(keyword);
        }
        Fault::syntax(self.ahead.offset, detail)
    }
}

fn is_reserved(word: &str) -> bool {
    KEYWORDS.contains(&word) || OPENING.iter().any(|keyword| is_in_other_case(word, keyword))
}

fn is_in_other_case(word: &str, keyword: &str) -> bool {
    word != keyword && word.eq_ignore_ascii_case(keyword)
}

fn one_or(mut parts: Vec<Condition>, many: fn(Vec<Condition>) -> Condition) -> Condition {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            many(parts)
        }
    }
}
