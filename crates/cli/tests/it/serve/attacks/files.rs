//! Files that other users can read, replace or plant.

use crate::{
    remove_consign_variables,
    serve::{free_port, wait_for},
};
use rustix::{
    fs::{CWD, Mode, mkfifoat},
    process::{Pid, Signal, kill_process},
};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_consign");

/// The binary in a shell that runs something first, such as `umask 000`. The binary keeps the
/// process id of the shell.
fn after(folder: &Path, before: &str, words: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{before}; exec \"$0\" \"$@\"")).arg(BINARY).args(words);
    remove_consign_variables(&mut shell);
    shell.current_dir(folder).stdin(Stdio::null());
    shell
}

fn run_after(folder: &Path, before: &str, words: &[&str]) -> Output {
    after(folder, before, words).output().unwrap()
}

/// A server that has logged that it listens, killed on drop.
pub(super) struct Running {
    child: Child,
    pub(super) port: u16,
}

impl Running {
    pub(super) fn start(folder: &Path, before: &str, words: &[&str]) -> Self {
        let words = [&["serve", "--listen", "127.0.0.1:0"], words].concat();
        let mut child = after(folder, before, &words).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut running = Running { child, port: 0 };
        let mut seen = String::new();
        for line in log.lines() {
            let line = line.unwrap();
            let entry: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if entry["message"] == "listening" {
                let address: SocketAddr = entry["address"].as_str().unwrap().parse().unwrap();
                running.port = address.port();
                return running;
            }
            seen += &line;
        }
        panic!("the server ended: {seen}");
    }

    pub(super) fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Everything below a folder, and the folder itself.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut paths = vec![folder.to_owned()];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        if path.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        next += 1;
    }
    paths
}

#[track_caller]
fn assert_private(folder: &Path) {
    for path in all_below(folder) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

#[test]
fn all_written_files_are_private_under_any_umask() {
    let umask = "umask 000";
    let folder = TempDir::new().unwrap();
    let settings = "[types.push]\nhandler = { http = \"https://example.org/\" }\n";
    fs::write(folder.path().join("consign.toml"), settings).unwrap();
    let running = Running::start(folder.path(), umask, &[]);
    let data = folder.path().join("consign-data");
    assert_private(&data);
    let names: Vec<_> = all_below(&data).iter().map(|path| path.display().to_string()).collect();
    for expected in ["consign.db", "-wal", "-shm", ".lock", "admin.key", ".sock"] {
        assert!(names.iter().any(|name| name.ends_with(expected)), "{expected}: {names:?}");
    }
    let backup = run_after(folder.path(), umask, &["backup", "copy.db"]);
    assert!(backup.status.success(), "{}", String::from_utf8_lossy(&backup.stderr));
    assert_eq!(mode(&folder.path().join("copy.db")), 0o600);
    running.stop();
    let words = ["restore", "copy.db", "--store", "sqlite:deep/new/other.db"];
    let restore = run_after(folder.path(), umask, &words);
    assert!(restore.status.success(), "{}", String::from_utf8_lossy(&restore.stderr));
    assert_private(&folder.path().join("deep"));
    fs::remove_file(data.join("admin.key")).unwrap();
    let key = run_after(folder.path(), umask, &["keys", "bootstrap"]);
    assert!(key.status.success(), "{}", String::from_utf8_lossy(&key.stderr));
    assert_private(&data);
}

#[test]
fn a_data_folder_of_ours_that_is_wide_is_made_private() {
    let folder = TempDir::new().unwrap();
    Running::start(folder.path(), ":", &[]).stop();
    let data = folder.path().join("consign-data");
    set_mode(&data, 0o777);
    for name in ["consign.db", "consign.db.lock"] {
        set_mode(&data.join(name), 0o666);
    }
    let running = Running::start(folder.path(), "umask 000", &[]);
    assert_private(&data);
    running.stop();
}

#[test]
fn a_folder_that_is_not_ours_is_never_changed_and_refused_where_others_can_write() {
    let folder = TempDir::new().unwrap();
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("thesis.txt"), "mine").unwrap();
    for (wide, remedy) in
        [(0o777, "chmod go-w shared"), (0o1777, "sqlite:shared/consign-data/x.db")]
    {
        set_mode(&shared, wide);
        let words = ["--listen", "127.0.0.1:0", "--store", "sqlite:shared/x.db"];
        let output = serve_briefly(folder.path(), &words);
        assert!(output.contains(remedy), "{output}");
        assert_eq!(mode(&shared), wide);
        assert_eq!(fs::read_dir(&shared).unwrap().count(), 1, "something was made in it");
    }
    set_mode(&shared, 0o755);
    Running::start(folder.path(), ":", &["--store", "sqlite:shared/x.db"]).stop();
    assert_eq!(mode(&shared), 0o755);
}

#[test]
fn planted_links_are_refused_and_what_they_lead_to_stays() {
    let folder = TempDir::new().unwrap();
    Running::start(folder.path(), ":", &[]).stop();
    let data = folder.path().join("consign-data");
    let port = free_port();
    let socket = format!("consign-{port}.sock");
    let (precious, nowhere) = (folder.path().join("precious"), folder.path().join("nowhere"));
    fs::write(&precious, "precious").unwrap();
    set_mode(&precious, 0o600);
    let names =
        ["consign.db", "consign.db.lock", "consign.db-wal", "consign.db-shm", "admin.key", &socket];
    let listen = format!("127.0.0.1:{port}");
    for name in names {
        let (path, aside) = (data.join(name), folder.path().join("aside"));
        let was_there = fs::rename(&path, &aside).is_ok();
        for target in [&precious, &nowhere] {
            symlink(target, &path).unwrap();
            let started = serve_briefly(folder.path(), &["--listen", &listen]);
            assert!(started.contains(name), "{name} to {}: {started}", target.display());
            assert_eq!(fs::read(&precious).unwrap(), b"precious", "{name}");
            assert!(!nowhere.exists(), "{name} made a file elsewhere");
            fs::remove_file(&path).unwrap();
        }
        if was_there {
            fs::rename(&aside, &path).unwrap();
        }
    }
}

#[test]
fn planted_fifos_stop_the_start_and_do_not_hold_it_up() {
    let folder = TempDir::new().unwrap();
    Running::start(folder.path(), ":", &[]).stop();
    let data = folder.path().join("consign-data");
    for name in ["admin.key", "consign.db.lock", "consign.db"] {
        let (path, aside) = (data.join(name), folder.path().join("aside"));
        fs::rename(&path, &aside).unwrap();
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let output = serve_in_vain(folder.path());
        assert!(output.contains(name) && output.contains("is no regular file"), "{name}: {output}");
        fs::rename(&aside, &path).unwrap();
    }
}

#[test]
fn a_data_folder_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested: only root can give a folder to another user");
        return;
    }
    let folder = TempDir::new().unwrap();
    Running::start(folder.path(), ":", &[]).stop();
    let data = folder.path().join("consign-data");
    chown(&data, Some(65_534), None).unwrap();
    let output = serve_in_vain(folder.path());
    let remedy = "chown 0 consign-data";
    assert!(output.contains("belongs to user 65534") && output.contains(remedy), "{output}");
    chown(&data, Some(0), None).unwrap();
    Running::start(folder.path(), ":", &[]).stop();
}

/// Starts a server that must end by itself and soon, and returns its output; one that does not is
/// killed.
#[track_caller]
fn serve_in_vain(folder: &Path) -> String {
    let log = folder.join("log");
    let mut command = after(folder, ":", &["serve", "--listen", "127.0.0.1:0"]);
    let child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
    let mut running = Running { child, port: 0 };
    let ended = wait_for("the start is refused", || running.child.try_wait().unwrap());
    let output = fs::read_to_string(log).unwrap();
    assert!(!ended.success(), "{output}");
    output
}

/// Starts a server that should refuse to start, and returns its output; one that starts is ended.
#[track_caller]
fn serve_briefly(folder: &Path, words: &[&str]) -> String {
    let mut command = after(folder, ":", &[&["serve"], words].concat());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let log = BufReader::new(child.stderr.take().unwrap());
    let mut output = String::new();
    for line in log.lines() {
        let line = line.unwrap();
        if line.contains("\"listening\"") {
            drop(child.kill());
            drop(child.wait());
            panic!("the server started: {output}");
        }
        output += &line;
    }
    assert!(!child.wait().unwrap().success());
    output
}

#[test]
fn a_backup_goes_through_no_file_that_was_planted() {
    let folder = TempDir::new().unwrap();
    Running::start(folder.path(), ":", &[]).stop();
    let stolen = folder.path().join("stolen.db");
    // The process id of the shell is that of the backup: the attacker guesses the name of the
    // temporary file.
    let plant = "ln -s stolen.db copy.db.$$-0.partial";
    let backup = run_after(folder.path(), plant, &["backup", "copy.db"]);
    assert!(!stolen.exists(), "the backup was written through a link");
    assert!(backup.status.success(), "{}", String::from_utf8_lossy(&backup.stderr));
    // A link in the place of the backup itself is not followed either.
    symlink(&stolen, folder.path().join("other.db")).unwrap();
    let backup = run_after(folder.path(), ":", &["backup", "other.db"]);
    assert!(!backup.status.success() && !stolen.exists());
    let leftovers = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let leftovers: Vec<_> =
        leftovers.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert!(leftovers.is_empty(), "temporary files were left: {leftovers:?}");
}

#[test]
fn a_key_that_others_know_stops_the_start() {
    let folder = TempDir::new().unwrap();
    Running::start(folder.path(), ":", &[]).stop();
    let key = folder.path().join("consign-data/admin.key");
    set_mode(&key, 0o644);
    let output = serve_briefly(folder.path(), &["--listen", "127.0.0.1:0"]);
    assert!(output.contains("chmod 600"), "{output}");
    set_mode(&key, 0o600);
    if rustix::process::geteuid().is_root() {
        chown(&key, Some(65_534), None).unwrap();
        let output = serve_briefly(folder.path(), &["--listen", "127.0.0.1:0"]);
        assert!(output.contains("belongs to user 65534"), "{output}");
    }
}
