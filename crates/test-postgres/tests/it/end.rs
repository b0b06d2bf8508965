//! No program outlives the process that started it, however that process ends.

use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    thread,
    time::Duration,
};
use test_postgres::{Options, PgBouncer, Server};

/// How long the programs may take to end after the process that started them: 10 seconds.
const POLLS: usize = 500;
const POLL_EVERY: Duration = Duration::from_millis(20);

#[test]
fn servers_end_when_their_process_is_killed() {
    let (mut child, programs) = start_child("end::a_child_with_servers");
    child.kill().expect("it is ours"); // SIGKILL
    child.wait().expect("it is ours");
    programs.wait_until_gone();
}

#[test]
fn servers_end_when_their_process_exits() {
    let (mut child, programs) = start_child("end::a_child_with_servers");
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("it is ours").code(), Some(7), "process::exit was not reached");
    programs.wait_until_gone();
}

#[test]
fn a_server_that_is_paused_goes_as_well() {
    let (mut child, programs) = start_child("end::a_child_with_servers");
    assert!(signal("STOP", &programs.pids[0]));
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    programs.wait_until_gone();
}

#[test]
fn a_server_that_is_dropped_is_gone_at_once() {
    let server = Server::start(Options::fast());
    let (pid, folder) = (server.pid().to_string(), server.folder().to_owned());
    assert!(signal("0", &pid) && folder.exists());
    drop(server);
    assert!(!signal("0", &pid), "the postmaster is still there");
    assert!(!folder.exists(), "the folder is still there");
}

/// Not a test: the process that the tests above start.
#[test]
#[ignore = "is started by other tests"]
fn a_child_with_servers() {
    let (shared, own) = (Server::shared(), Server::start(Options::default()));
    let bouncer = PgBouncer::before(shared);
    let pids = [shared.pid(), own.pid(), bouncer.pid()];
    let folders = [shared.folder(), own.folder()].map(Path::display);
    println!("\n{} {} {} {} {}", pids[0], pids[1], pids[2], folders[0], folders[1]);
    io::stdout().flush().expect("our parent reads");
    io::stdin().read_to_end(&mut Vec::new()).expect("our parent holds the other end");
    process::exit(7);
}

/// What a child has started.
struct ChildPrograms {
    pids: Vec<String>,
    folders: Vec<PathBuf>,
}

impl ChildPrograms {
    fn wait_until_gone(&self) {
        let is_there = || {
            self.pids.iter().any(|pid| signal("0", pid))
                || self.folders.iter().any(|folder| folder.exists())
        };
        for _ in 0..POLLS {
            if !is_there() {
                return;
            }
            thread::sleep(POLL_EVERY);
        }
        panic!("still there: {:?} or {:?}", self.pids, self.folders);
    }
}

fn start_child(test: &str) -> (Child, ChildPrograms) {
    let mut child = Command::new(env::current_exe().expect("we have a name"))
        .args(["--exact", test, "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("we start once more");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let line = lines.map_while(Result::ok).find(|line| line.contains("consign-test-"));
    let words: Vec<String> =
        line.expect("the child says what it has").split(' ').map(str::to_owned).collect();
    let programs = ChildPrograms {
        pids: words[..3].to_vec(),
        folders: words[3..].iter().map(PathBuf::from).collect(),
    };
    assert!(
        programs.pids.iter().all(|pid| signal("0", pid)),
        "they do not run: {:?}",
        programs.pids
    );
    assert!(
        programs.folders.iter().all(|folder| folder.exists()),
        "no folders: {:?}",
        programs.folders
    );
    (child, programs)
}

/// Sends a signal, and returns whether the process exists.
fn signal(name: &str, pid: &str) -> bool {
    let mut kill = Command::new("kill");
    kill.args(["-s", name, pid]).stderr(Stdio::null());
    kill.status().expect("kill(1) is there").success()
}
