//! What can be seen on this machine: settings, data folder, disk, store.

use super::{
    database,
    finding::{Finding, quoted},
};
use crate::{
    admin_key,
    args::{DoctorArgs, SettingsArgs, StoreAddress, folder_of},
    config, data_folder,
    open_files::Clamp,
    ready_made,
    settings::{Mistakes, Settings},
};
use engine::Timestamp;
use std::{fs, os::unix::fs::MetadataExt, path::Path};
use store::{Health, OpenError, Options};

/// What was found here.
pub(super) struct Here {
    pub(super) findings: Vec<Finding>,
    /// Those of a server on this machine, where they are sound.
    pub(super) settings: Option<Settings>,
}

pub(super) fn look(args: &DoctorArgs, now: Timestamp) -> Here {
    let (mut findings, settings) = settings(args);
    match address(args, settings.as_ref()) {
        Some(StoreAddress::Sqlite(path)) if path.exists() => {
            findings.extend(files(Some(&path), folder_of(&path)));
            findings.extend(disk(&path));
            findings.extend(store(&path, args, now));
        }
        Some(StoreAddress::Sqlite(path)) => findings.push(no_store(&path, args)),
        Some(StoreAddress::Postgres(address)) => {
            findings.extend(files(None, StoreAddress::Postgres(address.clone()).folder()));
            findings.extend(database::look(&address, args));
        }
        None => {
            findings.push(Finding::unknown(
                "store",
                "store: not looked at while the settings are wrong",
            ));
        }
    }
    Here { findings, settings }
}

fn settings(args: &DoctorArgs) -> (Vec<Finding>, Option<Settings>) {
    let (store, config) = (args.remote.connection.store.clone(), args.config.clone());
    match config::load(&SettingsArgs { store, config, ..SettingsArgs::default() }) {
        Ok(settings) => (sound(&settings), Some(settings)),
        Err(error) => (mistaken(&error), None),
    }
}

fn sound(settings: &Settings) -> Vec<Finding> {
    let check = |finding: Finding| finding.run("when it is mended", "consign config check");
    let wrong = config::beyond_the_file(settings).into_iter();
    let wrong: Vec<Finding> = wrong
        .map(|wrong| check(Finding::wrong("settings", format!("settings: {wrong:#}"))))
        .collect();
    if !wrong.is_empty() {
        return wrong;
    }
    let sound = match settings.warnings().len() {
        0 => Finding::well("settings", "settings: sound"),
        count => {
            let what = format!("settings: sound, and worth a second look in {count} places");
            Finding::note("settings", what).run("", "consign config check")
        }
    };
    [sound].into_iter().chain(open_files(settings)).collect()
}

/// A server with few files takes fewer connections than its settings say.
fn open_files(settings: &Settings) -> Option<Finding> {
    let clamp = Clamp::of_this_process(&settings.door.limits)?;
    let what = format!(
        "open files: at most {}, so a server that is started from here takes {} connections, and not {}",
        clamp.open_files_max, clamp.connections_max, settings.door.limits.connections_max
    );
    let say = "raise the limit where it is started: LimitNOFILE= in systemd, ulimit -n in a shell";
    Some(Finding::note("openFiles", what).say(say))
}

fn mistaken(error: &anyhow::Error) -> Vec<Finding> {
    let told = match error.downcast_ref::<Mistakes>() {
        Some(Mistakes(all)) => all.iter().map(ToString::to_string).collect(),
        None => vec![format!("{error:#}")],
    };
    let wrong = |what: String| {
        Finding::wrong("settings", format!("settings: {what}"))
            .run("the server would not start; when it is mended", "consign config check")
    };
    told.into_iter().map(wrong).collect()
}

/// Where the settings do not say it, what was typed may.
fn address(args: &DoctorArgs, settings: Option<&Settings>) -> Option<StoreAddress> {
    let typed = || args.remote.connection.store.as_ref()?.parse().ok();
    settings.map(|settings| settings.store.clone()).or_else(typed)
}

/// Without a store of its own, this is a machine from which a server elsewhere is asked.
fn no_store(path: &Path, args: &DoctorArgs) -> Finding {
    let what = format!("store: there is no store at {}", path.display());
    let usual = path == Path::new("consign-data/consign.db");
    if usual && args.remote.connection.store.is_none() {
        return Finding::unknown("store", format!("{what}; fine where the server is elsewhere"));
    }
    Finding::wrong("store", what)
        .run("the first start makes it", "consign serve")
        .say("or name another: --store sqlite:<path>")
}

/// Nobody else may read what lies here.
fn files(store: Option<&Path>, folder: &Path) -> Vec<Finding> {
    let (key, signs) = (folder.join(admin_key::NAME), folder.join(ready_made::SIGNING_KEY));
    let beside = |ending: &str| {
        let name = store?.file_name()?.to_str()?;
        Some(folder.join(format!("{name}{ending}")))
    };
    let files = [beside(""), beside("-wal"), beside("-shm"), beside(".lock"), Some(key.clone())];
    let files = files.into_iter().chain([Some(signs)]).flatten();
    let mut findings: Vec<Finding> = files.filter_map(|file| open_to_others(&file)).collect();
    if key.exists() {
        findings.extend(writable_by_others(folder));
    }
    if !key.exists() {
        let what = format!("admin key: not in {}; fine where it was put away", folder.display());
        findings.push(
            Finding::note("adminKey", what)
                .run("if it is lost, stop the server, then", "consign keys bootstrap"),
        );
    } else if findings.is_empty() {
        let what =
            format!("data folder {}: admin.key is there, for its owner alone", folder.display());
        findings.push(Finding::well("adminKey", what));
    }
    findings
}

/// A server refuses to start in such a folder; one that is running since before does not notice.
fn writable_by_others(folder: &Path) -> Option<Finding> {
    let found = fs::metadata(folder).ok()?;
    let (shown, mode) = (folder.display(), found.mode() & 0o7777);
    let what =
        format!("data folder {shown}: other users can replace the files in it (mode {mode:o})");
    let cure = format!("chmod go-w {}", quoted(&shown.to_string()));
    data_folder::is_writable_by_others(&found).then(|| Finding::wrong("files", what).run("", cure))
}

fn open_to_others(path: &Path) -> Option<Finding> {
    let mode = fs::metadata(path).ok()?.mode() & 0o777;
    let what = format!("{}: others can read or write it (mode {mode:o})", path.display());
    let cure = format!("chmod 600 {}", quoted(&path.display().to_string()));
    (mode & 0o077 != 0).then(|| Finding::wrong("files", what).run("", cure))
}

/// Less room than this is worth a look.
const ROOM_BYTES_SMALL: u64 = 1 << 30;

fn disk(path: &Path) -> Option<Finding> {
    let folder = folder_of(path);
    let room = rustix::fs::statvfs(folder).ok()?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let what = format!("disk of {}: {} MiB free", folder.display(), free >> 20);
    let df = format!("df -h {}", quoted(&folder.display().to_string()));
    Some(if free < Options::default().room_bytes_min {
        Finding::wrong("disk", format!("{what}; new jobs are refused until there is more"))
            .run("make room there; it goes on by itself", df)
    } else if free < ROOM_BYTES_SMALL {
        Finding::note("disk", what).run("", df)
    } else {
        Finding::well("disk", what)
    })
}

fn store(path: &Path, args: &DoctorArgs, now: Timestamp) -> Vec<Finding> {
    let mut findings: Vec<Finding> = schema(path).into_iter().collect();
    if args.quick {
        let what = format!("store {}: not read through (--quick)", path.display());
        findings.push(Finding::unknown("store", what));
        return findings;
    }
    let quiet = args.remote.output.form() == crate::args::Form::Json;
    let mut progress = |what: &str| {
        if !quiet {
            eprintln!("looking at {what} …");
        }
    };
    match store::examine(path, now, &mut progress) {
        Ok(health) => findings.extend(examined(path, &health)),
        Err(error) => findings.push(unusable(&error)),
    }
    findings
}

/// A store of an older version is brought up to date by the next start.
fn schema(path: &Path) -> Option<Finding> {
    let schema = store::schema(path).ok()?;
    let what = format!("store: has schema {}, this version writes {}", schema.found, schema.known);
    (!schema.missing.is_empty())
        .then(|| Finding::note("schema", what).run("what is missing", "consign migrate status"))
}

fn examined(path: &Path, health: &Health) -> Vec<Finding> {
    let (live, ended, keys) = (health.live_jobs, health.ended_jobs, health.keys);
    let mut findings: Vec<Finding> = health.findings.iter().map(of_store).collect();
    let damaged = health.findings.iter().any(|finding| finding.damage);
    let counts = format!("live jobs {live}, ended {ended}, keys {keys}");
    findings.push(match damaged {
        // What could not be read was not counted either.
        true => {
            Finding::unknown("store", format!("store {}: {counts} could be read", path.display()))
        }
        false => Finding::well("store", format!("store {}: whole; {counts}", path.display())),
    });
    findings
}

fn of_store(found: &store::Finding) -> Finding {
    let what = format!("store: {}", found.what);
    match found.damage {
        true => Finding::wrong("store", what).say(found.cure),
        false => Finding::note("store", what).say(found.cure),
    }
}

fn unusable(error: &OpenError) -> Finding {
    Finding::wrong("store", format!("store: {error}"))
        .say("name another with --store sqlite:<path>")
}
