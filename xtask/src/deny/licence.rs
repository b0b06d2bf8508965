//! SPDX licence expressions: `(MIT OR Apache-2.0) AND Unicode-3.0`.

/// Whether the allowed licences alone meet an expression; false if the expression cannot be read.
pub(super) fn is_met(expression: &str, allowed: &[&str]) -> bool {
    let tokens = tokens(expression);
    let mut parser = Parser { tokens: &tokens, allowed };
    parser.either() == Some(true) && parser.tokens.is_empty()
}

/// The licences that an expression names; an exception belongs to its licence.
pub(super) fn names(expression: &str) -> Vec<&str> {
    tokens(expression).into_iter().filter(|word| is_name(word)).collect()
}

fn is_name(token: &str) -> bool {
    !["(", ")", "AND", "OR", "WITH"].contains(&token)
}

/// Splits an expression. Before SPDX, Cargo wrote `MIT/Apache-2.0` for a choice.
fn tokens(expression: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    for word in expression.split_whitespace() {
        let mut rest = word;
        while !rest.is_empty() {
            let end = rest.find(['(', ')', '/']).unwrap_or(rest.len());
            let (token, remaining) = rest.split_at(end.max(1));
            tokens.push(if token == "/" { "OR" } else { token });
            rest = remaining;
        }
    }
    tokens
}

/// Each rule returns whether its part is met, and `None` where there is no such part.
struct Parser<'a> {
    tokens: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn either(&mut self) -> Option<bool> {
        let mut met = self.both()?;
        while self.take("OR") {
            met |= self.both()?;
        }
        Some(met)
    }

    fn both(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let met = self.either()?;
            return self.take(")").then_some(met);
        }
        let name = self.name()?;
        // An exception only gives more rights.
        if self.take("WITH") {
            self.name()?;
        }
        Some(self.allowed.contains(&name))
    }

    fn name(&mut self) -> Option<&'a str> {
        let (first, rest) = self.tokens.split_first().filter(|(first, _)| is_name(first))?;
        self.tokens = rest;
        Some(first)
    }

    fn take(&mut self, token: &'a str) -> bool {
        let rest = self.tokens.strip_prefix(&[token]);
        self.tokens = rest.unwrap_or(self.tokens);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: bool) {
        let allowed = ["MIT", "Apache-2.0", "ISC"];
        assert_eq!(is_met(expression, &allowed), expected, "{expression}");
    }

    #[test]
    fn a_choice_needs_one_and_a_sum_needs_all() {
        check("MIT", true);
        check("GPL-3.0", false);
        check("GPL-3.0 OR MIT", true);
        check("MIT/Apache-2.0", true);
        check("GPL-3.0/AGPL-3.0", false);
        check("MIT AND ISC", true);
        check("MIT AND GPL-3.0", false);
        check("(GPL-3.0 OR ISC) AND MIT", true);
        check("ISC AND (GPL-3.0 OR AGPL-3.0) AND MIT", false);
        check("GPL-3.0 AND MIT OR ISC", true);
        check("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true);
    }

    #[test]
    fn a_malformed_licence_expression_is_not_satisfied() {
        for wrong in ["", "MIT MIT", "(MIT", "MIT)", "MIT OR", "AND MIT", "MIT WITH"] {
            check(wrong, false);
        }
    }
}
