//! The first command of a tired operator. It examines everything that can be reached from here. It
//! reports what is well in short lines, and what is wrong with the command that mends it. It
//! changes nothing.

mod database;
mod finding;
mod keys;
mod local;
mod queues;
mod remote;

use crate::{
    args::DoctorArgs,
    remote::Show,
    style::{Style, StyledLine},
};
use anyhow::Result;
use engine::counted;
use finding::{DoctorReport, Finding, Level, quoted};
use platform::SystemClock;
use std::process::ExitCode;
use store::Clock;

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let show = Show::choose(&args.remote.output);
    let now = SystemClock::new().read().wall;
    let mut report = DoctorReport::default();
    let settings = local::examine(&mut report, args, now);
    remote::examine(&mut report, args, settings.as_ref(), now)?;
    let DoctorReport(findings) = report;
    let wrong = findings.iter().filter(|finding| finding.level == Level::Wrong).count();
    if show.is_json() {
        show.json(&serde_json::json!({ "well": wrong == 0, "findings": findings }))?;
    } else {
        let mut lines: Vec<StyledLine> = findings.iter().flat_map(Finding::lines).collect();
        lines.push(match wrong {
            0 => StyledLine::of(Style::Good, "nothing is wrong"),
            _ => StyledLine::of(Style::Bad, counted(wrong, "thing is wrong", "things are wrong")),
        });
        show.lines(&lines)?;
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
