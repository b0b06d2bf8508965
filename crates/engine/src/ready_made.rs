//! Ready-made handlers: work that needs no code of its own, only an address or a program.
//!
//! A policy stores only what was configured. Whether an address may be reached is checked on each
//! call, because only then is known where it leads.

use crate::{
    field::{Checked, FieldProblem, check_count, check_range, refuse_nul},
    text::HandlerUrl,
};
use std::sync::Arc;

/// What runs the jobs of a type, where no worker of its own does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadyMade {
    /// Push each job to this address.
    Http(HandlerUrl),
    /// Run this program with the job on its standard input.
    Exec(ExecCommand),
}

impl ReadyMade {
    /// The contract's name for the kind of handler.
    pub fn kind(&self) -> &'static str {
        match self {
            ReadyMade::Http(_) => "http",
            ReadyMade::Exec(_) => "exec",
        }
    }
}

/// Where handlers of one kind may be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerSource {
    /// In the configuration file and through the API.
    All,
    /// In the configuration file only.
    File,
    /// Nowhere: no such handler runs.
    Off,
}

/// Where handlers may be configured, by their kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlerSources {
    /// Programs of this machine.
    pub exec: HandlerSource,
    /// Addresses that jobs are pushed to.
    pub http: HandlerSource,
}

impl Default for HandlerSources {
    /// A program runs as the server's user, so an API key alone may not name one. An address is
    /// checked on each call.
    fn default() -> Self {
        HandlerSources { exec: HandlerSource::File, http: HandlerSource::All }
    }
}

impl HandlerSources {
    /// Where handlers of this kind may be configured.
    pub fn of(self, handler: &ReadyMade) -> HandlerSource {
        match handler {
            ReadyMade::Http(_) => self.http,
            ReadyMade::Exec(_) => self.exec,
        }
    }

    /// Whether the API may replace the handler `before` of a type by `after`. An unchanged handler
    /// was permitted before, and a removed one runs nothing.
    pub fn check_change(
        self,
        before: Option<&ReadyMade>,
        after: Option<&ReadyMade>,
    ) -> Checked<()> {
        let Some(after) = after.filter(|after| before != Some(after)) else { return Ok(()) };
        let (field, what) = match after {
            ReadyMade::Http(_) => (HTTP, "addresses"),
            ReadyMade::Exec(_) => (EXEC, "programs"),
        };
        let kind = after.kind();
        let detail = match self.of(after) {
            HandlerSource::All => return Ok(()),
            HandlerSource::File => format!(
                "is taken from the server's consign.toml alone: `[handlers] {kind}` is \"file\" there"
            ),
            HandlerSource::Off => {
                format!(
                    "is not run: `[handlers] {kind}` is \"off\" on this server, which runs no {what}"
                )
            }
        };
        Err(FieldProblem::new(field, detail))
    }
}

/// A program and its arguments, as the operating system gets them: no shell reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecCommand {
    words: Arc<[Box<str>]>,
    final_codes: Arc<[u8]>,
}

/// The exit codes with which a program says that a retry cannot help, where its type names none:
/// `EX_DATAERR` of `sysexits.h`. Every other code but 0 is tried again, because most failures of
/// most programs are 1, and one that passes must not end a job.
pub const FINAL_CODES_DEFAULT: [u8; 1] = [65];

impl ExecCommand {
    /// Checks that there is a program, and that no word is too long for the operating system.
    pub fn parse(words: &[impl AsRef<str>]) -> Checked<Self> {
        check_count(EXEC, words.len(), 1..=EXEC_WORDS_MAX)?;
        for (index, word) in words.iter().map(AsRef::as_ref).enumerate() {
            check_word(index, word).map_err(|problem| problem.within(format!("/{index}")))?;
        }
        let words = words.iter().map(|word| word.as_ref().into()).collect();
        Ok(ExecCommand { words, final_codes: FINAL_CODES_DEFAULT.into() })
    }

    /// The same command with exit codes of its own that end a job for good.
    pub fn with_final_codes(self, codes: &[i64]) -> Checked<Self> {
        Ok(ExecCommand { final_codes: check_final_codes(codes)?.into(), ..self })
    }

    /// The program.
    pub fn program(&self) -> &str {
        &self.words[0]
    }

    /// The arguments.
    pub fn args(&self) -> &[Box<str>] {
        &self.words[1..]
    }

    /// The program and its arguments.
    pub fn words(&self) -> &[Box<str>] {
        &self.words
    }

    /// The exit codes that end a job for good.
    pub fn final_codes(&self) -> &[u8] {
        &self.final_codes
    }
}

const EXEC: &str = "handler.exec";
const HTTP: &str = "handler.http";
/// How many words a command may have.
pub const EXEC_WORDS_MAX: usize = 64;
const EXEC_WORD_BYTES_MAX: usize = 4 * 1024;

/// How many exit codes may be final.
pub const FINAL_CODES_MAX: usize = 64;

/// Checks the exit codes that end a job for good; 0 is a success.
fn check_final_codes(codes: &[i64]) -> Checked<Vec<u8>> {
    const FINAL_CODES: &str = "handler.finalCodes";
    check_count(FINAL_CODES, codes.len(), 0..=FINAL_CODES_MAX)?;
    let check = |(index, code): (usize, &i64)| {
        let checked = check_range(FINAL_CODES, *code, 1..=255);
        checked.map(|code| code as u8).map_err(|problem| problem.within(format!("/{index}")))
    };
    codes.iter().enumerate().map(check).collect()
}

fn check_word(index: usize, word: &str) -> Checked<()> {
    if index == 0 && word.is_empty() {
        return Err(FieldProblem::new(EXEC, "must begin with a program, which has a name"));
    }
    if word.len() > EXEC_WORD_BYTES_MAX {
        let detail = format!("must have at most {EXEC_WORD_BYTES_MAX} bytes");
        return Err(FieldProblem::new(EXEC, detail));
    }
    refuse_nul(EXEC, word)
}

/// A ready-made handler as it was written, unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the draft of what has the same name in ReadyMade")]
pub enum ReadyMadeDraft {
    Http(String),
    Exec { words: Vec<String>, final_codes: Option<Vec<i64>> },
}

impl ReadyMadeDraft {
    /// Checks the address or the command.
    pub fn check(&self) -> Checked<ReadyMade> {
        match self {
            ReadyMadeDraft::Http(url) => HandlerUrl::parse(url).map(ReadyMade::Http),
            ReadyMadeDraft::Exec { words, final_codes } => {
                let command = ExecCommand::parse(words)?;
                let command = match final_codes {
                    Some(codes) => command.with_final_codes(codes)?,
                    None => command,
                };
                Ok(ReadyMade::Exec(command))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(draft: ReadyMadeDraft, field: &str, within: &str) {
        let problem = draft.check().unwrap_err();
        assert_eq!((problem.field, &*problem.within), (field, within), "{draft:?}: {problem}");
    }

    #[test]
    fn addresses_are_those_of_the_web_and_hold_no_password() {
        let http = |url: &str| ReadyMadeDraft::Http(url.into());
        for good in [
            "https://hooks.example/jobs",
            "HTTP://10.0.0.7:8080",
            "http://[::1]:9/a?b=c@d#e",
            "https://bücher.example/@me",
        ] {
            assert!(http(good).check().is_ok(), "{good}");
        }
        let long = format!("https://a/{}", "x".repeat(2_048));
        for wrong in [
            "",
            "hooks.example",
            "ftp://a/b",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://",
            "https:///a",
            "https://?q",
            "https://:80/",
            "https://user:secret@a/b",
            "https://user@a",
            "https://a\\@b/",
            "https://a b/",
            "https://a/\r\nHost: b",
            "https://a/\0",
            &long,
        ] {
            refused(http(wrong), "handler.http", "");
        }
        let problem = http("https://user:hunter2@a/b").check().unwrap_err();
        assert!(!problem.detail.contains("hunter2"), "{problem}");
    }

    #[test]
    fn the_api_names_what_its_switch_lets_it() {
        use HandlerSource::{All, File, Off};
        let http = ReadyMadeDraft::Http("https://a.example/".into()).check().unwrap();
        let exec = ReadyMade::Exec(ExecCommand::parse(&["true"]).unwrap());
        let check =
            |exec_from, http_from, before: Option<&ReadyMade>, after: Option<&ReadyMade>| {
                let sources = HandlerSources { exec: exec_from, http: http_from };
                sources.check_change(before, after).map_err(|problem| problem.field)
            };
        assert_eq!(check(All, Off, None, Some(&exec)), Ok(()));
        assert_eq!(check(Off, All, None, Some(&http)), Ok(()));
        for source in [File, Off] {
            assert_eq!(check(source, All, None, Some(&exec)), Err("handler.exec"));
            assert_eq!(check(source, All, Some(&http), Some(&exec)), Err("handler.exec"));
            assert_eq!(check(All, source, Some(&exec), Some(&http)), Err("handler.http"));
            assert_eq!(check(source, source, Some(&exec), Some(&exec)), Ok(()), "as it was");
            assert_eq!(check(source, source, Some(&exec), None), Ok(()), "it runs nothing");
        }
        let default = HandlerSources::default();
        assert_eq!((default.exec, default.http), (File, All));
    }

    #[test]
    fn a_command_needs_a_program_and_bounded_arguments() {
        let exec = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            ReadyMadeDraft::Exec { words, final_codes: None }
        };
        let long = "x".repeat(4 * 1024);
        let ReadyMade::Exec(command) = exec(&["convert", "", &long]).check().unwrap() else {
            panic!("a command is one");
        };
        assert_eq!((command.program(), command.args().len()), ("convert", 2));
        assert!(exec(&vec!["x"; 64]).check().is_ok());
        refused(exec(&[]), "handler.exec", "");
        refused(exec(&vec!["x"; 65]), "handler.exec", "");
        refused(exec(&[""]), "handler.exec", "/0");
        refused(exec(&["a", "b\0c"]), "handler.exec", "/1");
        refused(exec(&["a", "b", &format!("{long}x")]), "handler.exec", "/2");
    }

    #[test]
    fn final_codes_are_exit_codes_that_say_failure() {
        let exec = |codes: &[i64]| ReadyMadeDraft::Exec {
            words: vec!["convert".into()],
            final_codes: Some(codes.into()),
        };
        let codes = |draft: ReadyMadeDraft| match draft.check().unwrap() {
            ReadyMade::Exec(command) => command.final_codes().to_vec(),
            ReadyMade::Http(_) => panic!("a command is one"),
        };
        assert_eq!(codes(exec(&[65, 78])), [65, 78]);
        assert_eq!(codes(exec(&[])), [0; 0], "then every failure is tried again");
        let default = ReadyMadeDraft::Exec { words: vec!["convert".into()], final_codes: None };
        assert_eq!(codes(default), [65]);
        refused(exec(&[1, 0]), "handler.finalCodes", "/1");
        refused(exec(&[256]), "handler.finalCodes", "/0");
        refused(exec(&[1; 65]), "handler.finalCodes", "");
    }
}
