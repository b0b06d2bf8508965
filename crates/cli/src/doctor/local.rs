//! Checks of this machine: settings, data folder, disk, store.

use super::{DoctorReport, database, quoted};
use crate::{
    args::{DoctorArgs, Form, SettingsArgs, StoreAddress, folder_of},
    config_command, data_folder,
    open_files::Clamp,
    ready_made,
    settings::{SettingErrors, Settings},
};
use engine::Timestamp;
use server::data_folder::admin_key;
use std::{ffi::OsStr, fs, os::unix::fs::MetadataExt, path::Path};
use store::{Options, Schema};

/// Returns the settings of a server on this machine, if they are valid.
pub(super) fn examine(
    report: &mut DoctorReport,
    args: &DoctorArgs,
    now: Timestamp,
) -> Option<Settings> {
    let settings = settings(report, args);
    // Without valid settings, `--store` may name the store.
    let store_flag = || args.remote.connection.store.as_ref()?.parse().ok();
    match settings.as_ref().map(|settings| settings.store.clone()).or_else(store_flag) {
        Some(StoreAddress::Sqlite(path)) if path.exists() => {
            files(report, Some(&path), folder_of(&path));
            disk(report, &path);
            store(report, &path, args, now);
        }
        Some(StoreAddress::Sqlite(path)) => no_store(report, &path, args),
        Some(StoreAddress::Postgres(address)) => {
            files(report, None, StoreAddress::Postgres(address.clone()).folder());
            database::examine(report, &address, args);
        }
        None => {
            report.unknown("store", "store: not looked at while the settings are wrong");
        }
    }
    settings
}

fn settings(report: &mut DoctorReport, args: &DoctorArgs) -> Option<Settings> {
    let (store, config) = (args.remote.connection.store.clone(), args.config.clone());
    let mut wrong = |what: String, say: &str| {
        let what = format!("settings: {what}");
        report.wrong("settings", what).run(say, "consign config check");
    };
    let settings =
        match config_command::load(&SettingsArgs { store, config, ..SettingsArgs::default() }) {
            Ok(settings) => settings,
            Err(error) => {
                let say = "the server would not start; when it is mended";
                match error.downcast_ref::<SettingErrors>() {
                    Some(SettingErrors(all)) => {
                        all.iter().for_each(|one| wrong(one.to_string(), say))
                    }
                    None => wrong(format!("{error:#}"), say),
                }
                return None;
            }
        };
    let outside_file = config_command::errors_outside_file(&settings);
    for error in &outside_file {
        wrong(format!("{error:#}"), "when it is mended");
    }
    if outside_file.is_empty() {
        match settings.warnings().len() {
            0 => report.well("settings", "settings: sound"),
            count => {
                let what = format!("settings: sound, and worth a second look in {count} places");
                report.note("settings", what).run("", "consign config check");
            }
        }
        open_files(report, &settings);
    }
    Some(settings)
}

/// A server with a low limit of open files takes fewer connections than its settings say.
fn open_files(report: &mut DoctorReport, settings: &Settings) {
    let limits = &settings.server.limits;
    let Some(clamp) = Clamp::of_this_process(limits) else { return };
    let what = format!(
        "open files: at most {}, so a server that is started from here takes {} connections, and not {}",
        clamp.open_files_max, clamp.connections_max, limits.connections_max
    );
    let say = "raise the limit where it is started: LimitNOFILE= in systemd, ulimit -n in a shell";
    report.note("openFiles", what).say(say);
}

/// A machine without a store is one from which commands ask a server elsewhere.
fn no_store(report: &mut DoctorReport, path: &Path, args: &DoctorArgs) {
    let what = format!("store: there is no store at {}", path.display());
    let is_default = path == Path::new("consign-data/consign.db");
    if is_default && args.remote.connection.store.is_none() {
        report.unknown("store", format!("{what}; fine where the server is elsewhere"));
    } else {
        report
            .wrong("store", what)
            .run("the first start makes it", "consign serve")
            .say("or name another: --store sqlite:<path>");
    }
}

/// No other user may read the files of the store.
fn files(report: &mut DoctorReport, store: Option<&Path>, folder: &Path) {
    let findings_before = report.0.len();
    let key = folder.join(admin_key::NAME);
    if let Some(name) = store.and_then(Path::file_name).and_then(OsStr::to_str) {
        for ending in ["", "-wal", "-shm", ".lock"] {
            check_private(report, &folder.join(format!("{name}{ending}")));
        }
    }
    check_private(report, &key);
    check_private(report, &folder.join(ready_made::SIGNING_KEY));
    let shown = folder.display();
    if !key.exists() {
        let say = "if it is lost, stop the server, then";
        report
            .note("adminKey", format!("admin key: not in {shown}; fine where it was put away"))
            .run(say, "consign keys bootstrap");
        return;
    }
    // A server refuses to start in such a folder. One that runs already does not notice.
    if let Ok(metadata) = fs::metadata(folder)
        && data_folder::is_writable_by_others(&metadata)
    {
        let mode = metadata.mode() & 0o7777;
        let what =
            format!("data folder {shown}: other users can replace the files in it (mode {mode:o})");
        report.wrong("files", what).run("", format!("chmod go-w {}", quoted(&shown.to_string())));
    }
    let well = format!("data folder {shown}: admin.key is there, for its owner alone");
    report.well_since(findings_before, "adminKey", well);
}

fn check_private(report: &mut DoctorReport, path: &Path) {
    let (shown, mode) =
        (path.display(), fs::metadata(path).map_or(0, |metadata| metadata.mode() & 0o777));
    if mode & 0o077 != 0 {
        let what = format!("{shown}: others can read or write it (mode {mode:o})");
        report.wrong("files", what).run("", format!("chmod 600 {}", quoted(&shown.to_string())));
    }
}

const FREE_BYTES_SMALL: u64 = 1 << 30;

fn disk(report: &mut DoctorReport, path: &Path) {
    let folder = folder_of(path);
    let Ok(filesystem) = rustix::fs::statvfs(folder) else { return };
    let free = filesystem.f_bavail.saturating_mul(filesystem.f_frsize);
    let what = format!("disk of {}: {} MiB free", folder.display(), free >> 20);
    let df = format!("df -h {}", quoted(&folder.display().to_string()));
    if free < Options::default().free_disk_bytes_min {
        let what = format!("{what}; new jobs are refused until there is more");
        report.wrong("disk", what).run("make room there; it goes on by itself", df);
    } else if free < FREE_BYTES_SMALL {
        report.note("disk", what).run("", df);
    } else {
        report.well("disk", what);
    }
}

fn store(report: &mut DoctorReport, path: &Path, args: &DoctorArgs, now: Timestamp) {
    let shown = path.display();
    // The next start migrates a store of an older version.
    if let Ok(Schema { version: found, supported_version: known, missing }) = store::schema(path)
        && !missing.is_empty()
    {
        let what = format!("store: has schema {found}, this version writes {known}");
        report.note("schema", what).run("what is missing", "consign migrate status");
    }
    if args.quick {
        report.unknown("store", format!("store {shown}: not read through (--quick)"));
        return;
    }
    let quiet = args.remote.output.form() == Form::Json;
    let mut progress = |what: &str| {
        if !quiet {
            eprintln!("looking at {what} …");
        }
    };
    let health = match store::examine(path, now, &mut progress) {
        Ok(health) => health,
        Err(error) => {
            let say = "name another with --store sqlite:<path>";
            report.wrong("store", format!("store: {error}")).say(say);
            return;
        }
    };
    for finding in &health.findings {
        let what = format!("store: {}", finding.what);
        let level = if finding.damage { DoctorReport::wrong } else { DoctorReport::note };
        level(report, "store", what).say(finding.remedy);
    }
    let (live, ended) = (health.live_jobs, health.ended_jobs);
    let counts = format!("live jobs {live}, ended {ended}, keys {}", health.keys);
    if health.findings.iter().any(|finding| finding.damage) {
        // Rows that could not be read were not counted either.
        report.unknown("store", format!("store {shown}: {counts} could be read"));
    } else {
        report.well("store", format!("store {shown}: whole; {counts}"));
    }
}
