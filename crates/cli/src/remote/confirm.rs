//! Asks the user for confirmation before a command touches many jobs.

use super::UsageError;
use anyhow::Result;
use std::io::{self, IsTerminal, Write};

/// Whether the user confirms. Without a terminal, there is no user to ask.
pub(crate) fn ask(question: &str) -> Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let message =
            format!("{question} There is no terminal to ask at: say --yes where it is meant");
        return Err(UsageError::new(message).into());
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(means_yes(&answer))
}

fn means_yes(answer: &str) -> bool {
    let answer = answer.trim();
    answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        assert!(means_yes("y\n") && means_yes("YES") && means_yes(" yes "));
        assert!(!means_yes("") && !means_yes("yep") && !means_yes("n"));
    }
}
