//! Reports errors with their remedies.

use super::{REFUSED, Show, Style, StyledLine, UNREACHABLE, USAGE, UsageError, hints::hint};
use client::ClientError;
use server::data_folder::admin_key;
use std::{
    io::{self, ErrorKind},
    path::Path,
    process::ExitCode,
};
use wire::Problem;

/// Prints the error on stderr and returns the exit code.
pub(crate) fn report(error: &anyhow::Error, show: &Show) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    match error.downcast_ref::<ClientError>().and_then(ClientError::problem) {
        Some(problem) if show.is_json() => show.print_error_json(problem),
        Some(_) | None => show.print_error(&lines(error)),
    }
    ExitCode::from(code(error))
}

/// Whether the reader of stdout has closed it, as with `consign list | head`. This is not an error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io_error = error.downcast_ref::<io::Error>();
    io_error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

fn code(error: &anyhow::Error) -> u8 {
    if error.is::<UsageError>() {
        return USAGE;
    }
    match error.downcast_ref::<ClientError>() {
        Some(
            ClientError::Unreachable { .. }
            | ClientError::Broken { .. }
            | ClientError::TimedOut { .. },
        ) => UNREACHABLE,
        Some(ClientError::Setup(_)) => USAGE,
        Some(ClientError::Refused { .. } | ClientError::UnexpectedResponse { .. }) | None => {
            REFUSED
        }
    }
}

fn lines(error: &anyhow::Error) -> Vec<StyledLine> {
    let mut lines = vec![format!("consign: {}", sentence(error)).into()];
    lines.extend(error.downcast_ref::<ClientError>().map(client_error_lines).unwrap_or_default());
    lines
}

/// The chain of contexts. For a failed request, the system's own message has a line of its own.
fn sentence(error: &anyhow::Error) -> String {
    let mut parts = Vec::new();
    for part in error.chain() {
        parts.push(part.to_string());
        if part.is::<ClientError>() {
            break;
        }
    }
    parts.join(": ")
}

fn client_error_lines(error: &ClientError) -> Vec<StyledLine> {
    let hint = |text| vec![fact("hint", text)];
    match error {
        ClientError::Refused { problem, .. } => problem_lines(problem),
        ClientError::Unreachable { socket, source, .. } => unreachable(socket.as_deref(), source),
        ClientError::Broken { source, .. } => vec![
            fact("cause", &root(source)),
            fact("hint", "its outcome is unknown; `consign list` shows which jobs exist"),
        ],
        ClientError::TimedOut { .. } => hint("it is there, but busy or hung; its log may say why"),
        ClientError::UnexpectedResponse { .. } => {
            hint("--url, CONSIGN_URL or a profile names the server")
        }
        ClientError::Setup(_) => Vec::new(),
    }
}

fn unreachable(socket: Option<&Path>, source: &dyn std::error::Error) -> Vec<StyledLine> {
    let running_hint =
        "is it running (`consign serve`)? --url, CONSIGN_URL or a profile names another";
    let mut lines = vec![fact("cause", &root(source)), fact("hint", running_hint)];
    if let Some(socket) = socket {
        let (shown, key) = (socket.display(), socket.with_file_name(admin_key::NAME));
        let socket_note = format!("{shown}, by which alone the key of the data folder goes");
        let key = format!("for a server without it: --key @{}", key.display());
        let key_note = format!("{key}, only if you know which program listens there");
        lines.extend([fact("socket", &socket_note), fact("", &key_note)]);
    }
    lines
}

fn problem_lines(problem: &Problem) -> Vec<StyledLine> {
    let field_errors = problem.errors.iter().map(|error| fact(&error.pointer, &error.detail));
    let mut lines: Vec<StyledLine> = field_errors.collect();
    lines.push(fact("code", &problem.error_code));
    lines.push(fact("correlation", &problem.correlation_id));
    lines.extend(problem.job_id.iter().map(|id| fact("job", id)));
    lines.extend(hint(&problem.error_code).map(|hint| fact("hint", hint)));
    lines
}

fn fact(name: &str, value: &str) -> StyledLine {
    StyledLine::of(Style::Faint, format!("  {name:<11}  ")).then(Style::Plain, value)
}

/// The last cause: the message of the system itself.
pub(crate) fn root(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(deeper) = last.source() {
        last = deeper;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::FieldError;

    fn refused(code: &str) -> anyhow::Error {
        let problem = Problem {
            kind: String::new(),
            title: String::new(),
            status: 422,
            detail: "two fields are wrong".into(),
            error_code: code.into(),
            correlation_id: "c-1".into(),
            job_id: None,
            errors: vec![FieldError {
                pointer: "/priority".into(),
                detail: "must be 0 to 9".into(),
            }],
        };
        ClientError::Refused { problem: Box::new(problem), retry_after: None }.into()
    }

    #[test]
    fn a_refusal_shows_fields_code_correlation_and_hint() {
        let messages: Vec<String> =
            lines(&refused("JOB_NOT_FOUND")).iter().map(StyledLine::text).collect();
        assert_eq!(messages[0], "consign: two fields are wrong");
        assert_eq!(messages[1], "  /priority    must be 0 to 9");
        assert_eq!(messages[2], "  code         JOB_NOT_FOUND");
        assert_eq!(messages[3], "  correlation  c-1");
        assert!(messages[4].starts_with("  hint         ids look like"), "{messages:?}");
    }

    #[test]
    fn each_kind_of_error_has_its_exit_code() {
        assert_eq!(code(&refused("INVALID_FIELD")), 1);
        assert_eq!(code(&UsageError::new("no").into()), 2);
        assert_eq!(code(&ClientError::TimedOut { address: "x".into() }.into()), 4);
        assert_eq!(code(&anyhow::anyhow!("a file is missing")), 1);
        let gone: anyhow::Error = io::Error::from(ErrorKind::BrokenPipe).into();
        assert!(is_broken_pipe(&gone));
    }
}
