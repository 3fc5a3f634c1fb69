//! The third layer: system calls that no caged program may make.
//!
//! Three filters are stacked; the kernel takes the strictest answer of them. What programs probe for and do without
//! is answered "not implemented", what is an attempt to leave is answered "not permitted".
//!
//! Invariant: a call that is newer than this list is not implemented, so a new kernel opens nothing.

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};
use std::{collections::BTreeMap, io};

use crate::spec::{Execution, Network, SandboxSpec};

/// The newest system call that was looked at (`file_setattr`); the numbers are the same on every architecture here.
const NEWEST_KNOWN: u32 = 469;

const EXECVEAT: i64 = libc::SYS_execveat;
const MFD_NOEXEC_SEAL: u64 = 8;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Filters that are ready to be installed.
pub(super) struct Filters(Vec<BpfProgram>);

impl Filters {
    /// Compiles the filters of a description.
    pub(super) fn of(spec: &SandboxSpec) -> io::Result<Self> {
        let (absent, denied) = (absent(spec), denied(spec));
        let compile = |rules: Result<Rules, BackendError>, errno: i32| -> Result<BpfProgram, BackendError> {
            let action = SeccompAction::Errno(errno.cast_unsigned());
            let architecture = std::env::consts::ARCH.try_into()?;
            SeccompFilter::new(rules?, SeccompAction::Allow, action, architecture)?.try_into()
        };
        let compile = |rules, errno| compile(rules, errno).map_err(io::Error::other);
        Ok(Filters(vec![compile(absent, libc::ENOSYS)?, compile(denied, libc::EPERM)?, newer_than_known()]))
    }

    /// Installs them for good.
    pub(super) fn install(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|filter| seccompiler::apply_filter(filter).map_err(io::Error::other))
    }
}

/// Answers every number above the newest known one, and with it x86-64's second table (x32), "not implemented".
fn newer_than_known() -> BpfProgram {
    let errno = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    let instruction = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 0, 1, NEWEST_KNOWN),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, errno),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn is(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    when(argument, SeccompCmpOp::Eq, u64::from(value.cast_unsigned()))
}

fn is_not(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    when(argument, SeccompCmpOp::Ne, u64::from(value.cast_unsigned()))
}

fn always(rules: &mut Rules, calls: &[i64]) {
    for call in calls {
        rules.insert(*call, Vec::new());
    }
}

/// What programs can do without: they are told that the kernel has no such call.
fn absent(spec: &SandboxSpec) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    // io_uring opens sockets past this filter; clone3 hides its flags from it.
    always(
        &mut rules,
        &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_clone3],
    );
    // An anonymous file that can be executed lies outside every path rule.
    rules.insert(
        libc::SYS_memfd_create,
        vec![SeccompRule::new(vec![when(1, SeccompCmpOp::MaskedEq(MFD_NOEXEC_SEAL), 0)?])?],
    );
    always(&mut rules, &[libc::SYS_memfd_secret]);
    if let Execution::OnlyItself(_) = spec.execution {
        always(&mut rules, &[EXECVEAT]);
    }
    Ok(rules)
}

/// Attempts to leave.
fn denied(spec: &SandboxSpec) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    always(&mut rules, MOUNTS);
    always(&mut rules, KERNEL);
    deny_namespaces(&mut rules)?;
    deny_sockets(&mut rules, spec.network)?;
    let typing: Result<Vec<SeccompRule>, BackendError> = [libc::TIOCSTI as i32, libc::TIOCLINUX as i32]
        .iter()
        .map(|ioctl| SeccompRule::new(vec![is(1, *ioctl)?]))
        .collect();
    rules.insert(libc::SYS_ioctl, typing?);
    match spec.execution {
        Execution::AnythingBut(_) => {}
        Execution::OnlyItself(_) => {
            // A thread is a clone with CLONE_THREAD; everything else would be another process.
            let process = when(0, SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64), 0)?;
            rules.entry(libc::SYS_clone).or_default().push(SeccompRule::new(vec![process])?);
            #[cfg(target_arch = "x86_64")]
            always(&mut rules, &[libc::SYS_fork, libc::SYS_vfork]);
            always(&mut rules, &[libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev]);
        }
    }
    Ok(rules)
}

const MOUNTS: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    467, // open_tree_attr
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
];

const KERNEL: &[i64] = &[
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
];

fn deny_namespaces(rules: &mut Rules) -> Result<(), BackendError> {
    const TIME: i32 = 0x80; // for clone(2) this bit is part of the signal number, and can't ask for a namespace
    let namespaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let asks = |flag: i32| {
        let flag = u64::from(flag.cast_unsigned());
        SeccompRule::new(vec![when(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    };
    let clone: Result<Vec<SeccompRule>, BackendError> = namespaces.into_iter().map(asks).collect();
    let unshare: Result<Vec<SeccompRule>, BackendError> =
        namespaces.into_iter().chain([TIME]).map(asks).collect();
    rules.insert(libc::SYS_clone, clone?);
    rules.insert(libc::SYS_unshare, unshare?);
    always(rules, &[libc::SYS_setns]);
    Ok(())
}

fn deny_sockets(rules: &mut Rules, network: Network) -> Result<(), BackendError> {
    match network {
        Network::Nothing => {
            always(rules, &[libc::SYS_socket, libc::SYS_connect, libc::SYS_bind]);
        }
        Network::LoopbackListener { .. } => {
            // Plain TCP over IPv4 alone. MPTCP is a stream of its own protocol number that Landlock's TCP rules
            // don't see.
            let other_family = SeccompRule::new(vec![is_not(0, libc::AF_INET)?])?;
            let other_protocol = SeccompRule::new(vec![is_not(2, 0)?, is_not(2, libc::IPPROTO_TCP)?])?;
            let mut socket = vec![other_family, other_protocol];
            for kind in 0..=0xf_u64 {
                if kind != u64::from(libc::SOCK_STREAM.cast_unsigned()) {
                    socket.push(SeccompRule::new(vec![when(1, SeccompCmpOp::MaskedEq(0xf), kind)?])?);
                }
            }
            rules.insert(libc::SYS_socket, socket);
            always(rules, &[libc::SYS_bind]);
        }
    }
    always(rules, &[libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4]);
    // A pair of datagram sockets can be turned to any address; streams and sequenced packets stay with each other.
    let mut pair = vec![SeccompRule::new(vec![is_not(0, libc::AF_UNIX)?])?];
    for kind in 0..=0xf_u64 {
        let kinds = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].map(|kind| u64::from(kind.cast_unsigned()));
        if !kinds.contains(&kind) {
            pair.push(SeccompRule::new(vec![when(1, SeccompCmpOp::MaskedEq(0xf), kind)?])?);
        }
    }
    rules.insert(libc::SYS_socketpair, pair);
    Ok(())
}
