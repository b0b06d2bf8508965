//! What the tests need beside the toolchain. Nothing is skipped for want of it: it is installed, or the
//! run fails and says what is missing.

use crate::{complain_about, run};

/// Makes sure that the tests can let system calls of a process fail.
pub(crate) fn prepare() -> bool {
    if !run("strace", &["-V"]) && !install("strace") {
        return complain_about(
            "strace is missing and could not be installed; as root: apt-get install -y strace",
        );
    }
    // A container may forbid what strace lives by, and only using it tells.
    if !run("strace", &["-f", "-o", "/dev/null", "true"]) {
        return complain_about(
            "strace is there, but must not trace: ptrace is forbidden on this machine \
             (in a container: --cap-add=SYS_PTRACE)",
        );
    }
    true
}

fn install(package: &str) -> bool {
    run("apt-get", &["install", "-y", package])
        || run("apt-get", &["update"]) && run("apt-get", &["install", "-y", package])
}
