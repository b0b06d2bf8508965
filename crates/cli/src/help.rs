//! The first page of help: commands in the groups in which people look for them.

use crate::args::Args;
use clap::{Command, CommandFactory, FromArgMatches};

/// Every command, in the order in which it is needed. A test finds those that are missing.
const GROUPS: [(&str, &str); 4] = [
    ("Server and workers", "serve demo work"),
    ("Jobs", "enqueue status list show history explain events cancel redrive"),
    ("Administration", "queues poison workers nodes types keys audit profile"),
    ("Installation", "doctor config backup restore restored migrate bench completions man"),
];

const ENDINGS: &str = "\
Exit codes: 0 done, 1 refused or failed, 2 typed wrong, 3 the job that was waited for did not complete, 4 no server
there. `consign COMMAND --help` says more; docs/cli.md shows every command at work.";

/// Parses the arguments. On an error or a request for help, the process ends here.
pub(crate) fn parse() -> Args {
    let matches = command().get_matches();
    Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

pub(crate) fn command() -> Command {
    let command = Args::command();
    let groups = grouped(&command);
    let template =
        "{about}\n\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";
    command.before_help(groups).after_help(ENDINGS).help_template(template)
}

fn grouped(command: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("{title}:\n"));
        for inner in names.split(' ').filter_map(|name| command.find_subcommand(name)) {
            let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {:<12} {about}\n", inner.get_name()));
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        for inner in Args::command().get_subcommands() {
            let name = inner.get_name();
            let groups =
                GROUPS.iter().filter(|(_, names)| names.split(' ').any(|each| each == name));
            assert_eq!(groups.count(), 1, "{name} belongs into one of help::GROUPS");
        }
    }

    #[test]
    fn the_first_page_reads_well() {
        let page = command().render_help().to_string();
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text} in\n{page}"));
        assert!(at("Server and workers:") < at("Jobs:") && at("Jobs:") < at("Options:"), "{page}");
        assert!(at("  serve ") < at("  enqueue ") && at("Exit codes") > at("Options:"), "{page}");
    }
}
