//! The first command of a tired operator: looks at everything that can be reached from here, says what is well in
//! short lines, and what is wrong with the command that mends it. Changes nothing.

mod database;
mod finding;
mod here;
mod house;
mod keys;
mod there;

use crate::{
    args::DoctorArgs,
    ink::{Line, Tone},
    remote::Show,
};
use anyhow::Result;
use finding::{Finding, Level, Report};
use platform::SystemClock;
use std::process::ExitCode;
use store::Clock;

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let show = Show::choose(&args.remote.output);
    let now = SystemClock::new().read().wall;
    let mut report = Report::default();
    let settings = here::look(&mut report, args, now);
    there::look(&mut report, args, settings.as_ref(), now)?;
    let Report(findings) = report;
    let wrong = findings.iter().filter(|finding| finding.level == Level::Wrong).count();
    if show.is_json() {
        show.json(&serde_json::json!({ "well": wrong == 0, "findings": findings }))?;
    } else {
        let mut lines: Vec<Line> = findings.iter().flat_map(Finding::lines).collect();
        lines.push(match wrong {
            0 => Line::of(Tone::Good, "nothing is wrong"),
            1 => Line::of(Tone::Bad, "1 thing is wrong"),
            _ => Line::of(Tone::Bad, format!("{wrong} things are wrong")),
        });
        show.lines(&lines)?;
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
