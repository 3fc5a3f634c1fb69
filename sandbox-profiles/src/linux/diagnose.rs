//! Why this machine refuses a wall: the exact setting, and the one line that mends it.

use nix::unistd::getuid;
use std::{fs, io, path::Path};

use super::{landlock::OLDEST_ABI, sys};
use crate::error::{Feature, WallError};

/// The error for a failed step.
pub(super) fn explain(step: String, errno: i32, feature: Option<Feature>) -> WallError {
    let source = io::Error::from_raw_os_error(errno);
    match feature {
        Some(feature) => {
            let (found, mend) = why_refused(feature);
            WallError::Unsupported { feature, found: format!("{step}: {source}; {found}"), mend }
        }
        None => WallError::Build { step, source },
    }
}

/// What was found about a piece that the system refuses, and what mends it.
fn why_refused(feature: Feature) -> (String, String) {
    match feature {
        Feature::UserNamespace | Feature::Namespaces | Feature::MountApi => why_no_namespaces(),
        Feature::FreshProc => (
            "something covers parts of /proc, as containers do".into(),
            "run the container with its /proc uncovered: for Docker `--security-opt systempaths=unconfined`"
                .into(),
        ),
        Feature::Landlock => why_no_landlock(),
        Feature::Seccomp => (
            "the kernel takes no seccomp filters".into(),
            "run a kernel with CONFIG_SECCOMP_FILTER=y (every distribution's own has it)".into(),
        ),
        Feature::Seatbelt => ("this is Linux".into(), "nothing to mend".into()),
    }
}

fn setting(path: &str) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn why_no_namespaces() -> (String, String) {
    if setting("/proc/sys/user/max_user_namespaces") == Some(0) {
        return (
            "user.max_user_namespaces is 0".into(),
            "allow them: `echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/60-userns.conf && sudo sysctl --system`"
                .into(),
        );
    }
    if setting("/proc/sys/kernel/unprivileged_userns_clone") == Some(0) && !getuid().is_root() {
        return (
            "kernel.unprivileged_userns_clone is 0".into(),
            "allow them: `echo kernel.unprivileged_userns_clone=1 | sudo tee /etc/sysctl.d/60-userns.conf && sudo sysctl --system`"
                .into(),
        );
    }
    if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        let program = std::env::current_exe().unwrap_or_default();
        return (
            "AppArmor forbids them (kernel.apparmor_restrict_unprivileged_userns is 1)".into(),
            format!("allow them for this program alone: `{}`", apparmor_line(&program)),
        );
    }
    if in_container() {
        return (
            "this is a container whose seccomp profile forbids them".into(),
            "run the container with namespaces allowed: for Docker `--security-opt seccomp=unconfined --security-opt \
             apparmor=unconfined --security-opt systempaths=unconfined`"
                .into(),
        );
    }
    (
        "no setting that this program knows forbids it".into(),
        "run a kernel of 5.19 or newer with CONFIG_USER_NS, CONFIG_PID_NS and CONFIG_NET_NS, and look for a security \
         module's denial in `journalctl -k`"
            .into(),
    )
}

/// The line that installs an AppArmor profile which allows user namespaces to one program.
fn apparmor_line(program: &Path) -> String {
    format!(
        "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile session-worker \"{}\" flags=(unconfined) {{\\n  \
         userns,\\n}}\\n' | sudo tee /etc/apparmor.d/session-worker && sudo apparmor_parser -r \
         /etc/apparmor.d/session-worker",
        program.display()
    )
}

fn in_container() -> bool {
    Path::new("/.dockerenv").exists()
        || Path::new("/run/.containerenv").exists()
        || fs::read_to_string("/proc/1/status")
            .is_ok_and(|status| status.lines().any(|line| line == "Seccomp:\t2"))
}

fn why_no_landlock() -> (String, String) {
    match sys::landlock_abi() {
        Ok(abi) if abi >= OLDEST_ABI => (
            format!("Landlock ABI {abi} is here, but the rules were refused"),
            "look for a security module's denial in `journalctl -k`".into(),
        ),
        Ok(abi) => (format!("the kernel has Landlock ABI {abi}"), "run Linux 5.19 or newer".into()),
        Err(error) if error.raw_os_error() == Some(nix::libc::EOPNOTSUPP) => (
            "Landlock is built in but not switched on at boot".into(),
            "add landlock to the kernel's `lsm=` boot parameter, as in `lsm=landlock,$(cat /sys/kernel/security/lsm)`, \
             and restart"
                .into(),
        ),
        Err(_) => (
            "the kernel has no Landlock".into(),
            "run Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK=y".into(),
        ),
    }
}

/// The Landlock ABI, where there is one.
pub(crate) fn landlock_abi() -> Option<u32> {
    sys::landlock_abi().ok()
}

/// Promises that on this kernel one layer holds instead of two.
pub(crate) fn second_covers() -> Vec<String> {
    let abi = landlock_abi().unwrap_or(0);
    [
        (3, "truncating files outside the scratch is stopped by read-only mounts alone"),
        (4, "TCP is stopped by the network namespace and seccomp alone"),
        (5, "device controls are stopped by mounts without devices alone"),
        (6, "signals and abstract sockets are stopped by namespaces and seccomp alone"),
    ]
    .iter()
    .filter(|(since, _)| abi < *since)
    .map(|(since, cover)| format!("{cover} (Landlock here is ABI {abi}, this needs {since})"))
    .collect()
}
