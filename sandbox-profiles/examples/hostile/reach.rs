//! Attempts to reach a network, another process, or the walls themselves.

use crate::{
    attacks::{ABSENT, Attack, CLOSED, DENIED, In, NO_CALL, NOBODY, attack, c, drop_ok, number, project},
    sys,
};
use std::{
    ffi::CString,
    fs, io,
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        fd::AsRawFd,
        linux::net::SocketAddrExt,
        unix::{
            fs::PermissionsExt,
            net::{SocketAddr, UnixDatagram, UnixStream},
        },
    },
    process::Command,
    time::Duration,
};

/// Reaching anything.
pub(crate) const SOCKETS: &[Attack] = &[
    attack("TCP", In::Command, DENIED, |t| {
        drop_ok(TcpStream::connect_timeout(&([127, 0, 0, 1], t.tcp).into(), Duration::from_secs(2)))
    }),
    attack("TCP to another port", In::Claude, CLOSED, |t| {
        drop_ok(TcpStream::connect_timeout(&([127, 0, 0, 1], t.tcp).into(), Duration::from_secs(2)))
    }),
    attack("TCP to the internet", In::Claude, CLOSED, |_| {
        drop_ok(TcpStream::connect_timeout(&([1, 1, 1, 1], 443).into(), Duration::from_secs(2)))
    }),
    attack("TCP over IPv6", In::Both, DENIED, |t| drop_ok(TcpStream::connect(("::1", t.tcp)))),
    attack("listen on TCP", In::Both, DENIED, |_| drop_ok(TcpListener::bind("127.0.0.1:0"))),
    attack("UDP", In::Both, DENIED, |t| {
        UdpSocket::bind("127.0.0.1:0").and_then(|socket| drop_ok(socket.send_to(b"x", ("127.0.0.1", t.udp))))
    }),
    attack("DNS", In::Both, DENIED, |_| {
        UdpSocket::bind("0.0.0.0:0").and_then(|socket| drop_ok(socket.send_to(b"x", "127.0.0.53:53")))
    }),
    attack("MPTCP", In::Both, DENIED, |t| sys::connect4(libc::SOCK_STREAM, 262, ([127, 0, 0, 1], t.tcp))),
    attack("SCTP", In::Both, DENIED, |t| {
        sys::connect4(libc::SOCK_STREAM, libc::IPPROTO_SCTP, ([127, 0, 0, 1], t.tcp))
    }),
    attack("raw IP", In::Both, DENIED, |_| {
        sys::connect4(libc::SOCK_RAW, libc::IPPROTO_ICMP, ([127, 0, 0, 1], 0))
    }),
    attack("packet socket", In::Both, DENIED, |_| {
        number(libc::SYS_socket, [libc::AF_PACKET as usize, libc::SOCK_RAW as usize, 0, 0, 0, 0])
    }),
    attack("vsock", In::Both, DENIED, |_| {
        number(libc::SYS_socket, [libc::AF_VSOCK as usize, libc::SOCK_STREAM as usize, 0, 0, 0, 0])
    }),
    attack("netlink", In::Both, DENIED, |_| {
        number(libc::SYS_socket, [libc::AF_NETLINK as usize, libc::SOCK_RAW as usize, 0, 0, 0, 0])
    }),
    attack("docker.sock", In::Both, DENIED, |t| drop_ok(UnixStream::connect(project(t).join("docker.sock")))),
    attack("ssh-agent", In::Both, DENIED, |t| drop_ok(UnixStream::connect(project(t).join("agent.sock")))),
    attack("D-Bus", In::Both, DENIED, |_| drop_ok(UnixStream::connect("/run/dbus/system_bus_socket"))),
    attack("datagram to a socket file", In::Both, DENIED, |t| {
        UnixDatagram::unbound().and_then(|socket| drop_ok(socket.send_to(b"x", project(t).join("log.sock"))))
    }),
    attack("turn a pair of datagram sockets to a socket file", In::Both, DENIED, |t| {
        sys::readdress_pair(&c(project(t).join("log.sock")))
    }),
    attack("abstract socket", In::Both, DENIED, |t| {
        drop_ok(UnixStream::connect_addr(&SocketAddr::from_abstract_name(&t.abstract_name)?))
    }),
    attack("io_uring", In::Both, NO_CALL, |_| {
        let parameters = [0_u8; 120];
        number(libc::SYS_io_uring_setup, [1, parameters.as_ptr().addr(), 0, 0, 0, 0])
    }),
];

/// Reaching other processes.
pub(crate) const PROCESSES: &[Attack] = &[
    attack("signal another process", In::Both, NOBODY, |t| {
        number(libc::SYS_kill, [t.victim, 10, 0, 0, 0, 0])
    }),
    attack("signal another process group", In::Both, NOBODY, |t| {
        number(libc::SYS_kill, [t.victim.wrapping_neg(), 10, 0, 0, 0, 0])
    }),
    attack("open another process", In::Both, NOBODY, |t| {
        number(libc::SYS_pidfd_open, [t.victim, 0, 0, 0, 0, 0])
    }),
    attack("trace another process", In::Command, NOBODY, |t| {
        number(libc::SYS_ptrace, [libc::PTRACE_ATTACH as usize, t.victim, 0, 0, 0, 0])
    }),
    attack("trace another process", In::Claude, DENIED, |t| {
        number(libc::SYS_ptrace, [libc::PTRACE_ATTACH as usize, t.victim, 0, 0, 0, 0])
    }),
    attack("trace the init", In::Both, DENIED, |_| {
        number(libc::SYS_ptrace, [libc::PTRACE_ATTACH as usize, 1, 0, 0, 0, 0])
    }),
    attack("read another process's memory", In::Command, NOBODY, |t| process_memory(t.victim)),
    attack("read the init's memory", In::Both, DENIED, |_| process_memory(1)),
    attack("take a descriptor of the init", In::Both, DENIED, |_| {
        let init = sys::call(libc::SYS_pidfd_open, [1, 0, 0, 0, 0, 0])?;
        number(libc::SYS_pidfd_getfd, [usize::try_from(init).map_err(io::Error::other)?, 0, 0, 0, 0, 0])
    }),
    attack("change another process's priority", In::Both, NOBODY, |t| {
        number(libc::SYS_setpriority, [libc::PRIO_PROCESS as usize, t.victim, 19, 0, 0, 0])
    }),
    attack("change another process's limits", In::Both, NOBODY, |t| {
        let limit = [100_u64; 2];
        number(libc::SYS_prlimit64, [t.victim, libc::RLIMIT_NOFILE as usize, limit.as_ptr().addr(), 0, 0, 0])
    }),
    attack("type into the terminal", In::Both, DENIED, |_| {
        number(
            libc::SYS_ioctl,
            [0, usize::try_from(libc::TIOCSTI).map_err(io::Error::other)?, sys::at(c"x"), 0, 0, 0],
        )
    }),
    attack("fork", In::Claude, DENIED, |_| sys::clone_process(0)),
    attack("start a shell", In::Claude, DENIED, |_| drop_ok(Command::new("/bin/sh").spawn())),
    attack("become a shell", In::Claude, ABSENT, |_| execute(&c("/bin/sh"))),
    attack("become a program written into its home", In::Claude, CLOSED, |t| {
        let copy = t.scratch.join("program");
        drop_ok(fs::copy(std::env::current_exe()?, &copy))?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        execute(&c(copy))
    }),
    attack("map a file of its home as code", In::Claude, DENIED, |t| {
        let copy = t.scratch.join("library");
        fs::write(&copy, [0_u8; 4096])?;
        sys::map_as_code(fs::File::open(copy)?.as_raw_fd())
    }),
    attack("run code from an anonymous file", In::Both, NO_CALL, |_| {
        number(libc::SYS_memfd_create, [sys::at(c"x"), 1, 0, 0, 0, 0])
    }),
];

fn process_memory(pid: usize) -> io::Result<()> {
    let mut byte = [0_u8; 1];
    let ours = [byte.as_mut_ptr().addr(), 1];
    let theirs = [0x40_0000_usize, 1];
    number(libc::SYS_process_vm_readv, [pid, ours.as_ptr().addr(), 1, theirs.as_ptr().addr(), 1, 0])
}

fn execute(program: &CString) -> io::Result<()> {
    let arguments = [sys::at(program), 0];
    number(libc::SYS_execve, [sys::at(program), arguments.as_ptr().addr(), 0, 0, 0, 0])
}

/// Taking the walls down.
pub(crate) const PRIVILEGES: &[Attack] = &[
    attack("remount / writable", In::Both, DENIED, |_| {
        let flags = usize::try_from(libc::MS_REMOUNT | libc::MS_BIND).map_err(io::Error::other)?;
        number(libc::SYS_mount, [0, sys::at(c"/"), 0, flags, 0, 0])
    }),
    attack("take a mask off", In::Command, DENIED, |t| {
        number(libc::SYS_umount2, [sys::at(&c(t.home.join(".ssh"))), libc::MNT_DETACH as usize, 0, 0, 0, 0])
    }),
    attack("copy a mount", In::Both, DENIED, |_| {
        number(libc::SYS_open_tree, [libc::AT_FDCWD as usize, sys::at(c"/"), 1, 0, 0, 0])
    }),
    attack("unlock mount attributes", In::Both, DENIED, |_| {
        let attributes = [0_u64, 1, 0, 0];
        number(
            libc::SYS_mount_setattr,
            [libc::AT_FDCWD as usize, sys::at(c"/"), 0, attributes.as_ptr().addr(), 32, 0],
        )
    }),
    attack("change the root", In::Both, DENIED, |_| number(libc::SYS_chroot, [sys::at(c"/"), 0, 0, 0, 0, 0])),
    attack("unshare a user namespace", In::Both, DENIED, |_| {
        number(libc::SYS_unshare, [libc::CLONE_NEWUSER as usize, 0, 0, 0, 0, 0])
    }),
    attack("clone into a user namespace", In::Both, DENIED, |_| sys::clone_process(libc::CLONE_NEWUSER)),
    attack("clone3", In::Both, NO_CALL, |_| {
        let arguments = [libc::CLONE_NEWUSER as u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
        number(libc::SYS_clone3, [arguments.as_ptr().addr(), 64, 0, 0, 0, 0])
    }),
    attack("enter another namespace", In::Both, DENIED, |_| {
        let own = fs::File::open("/proc/self/ns/net")?;
        number(libc::SYS_setns, [own.as_raw_fd() as usize, 0, 0, 0, 0, 0])
    }),
    attack("keyctl", In::Both, DENIED, |_| number(libc::SYS_keyctl, [0, 3_usize.wrapping_neg(), 0, 0, 0, 0])),
    attack("add a key", In::Both, DENIED, |_| {
        number(
            libc::SYS_add_key,
            [sys::at(c"user"), sys::at(c"x"), sys::at(c"x"), 1, 3_usize.wrapping_neg(), 0],
        )
    }),
    attack("bpf", In::Both, DENIED, |_| number(libc::SYS_bpf, [0; 6])),
    attack("perf", In::Both, DENIED, |_| number(libc::SYS_perf_event_open, [0; 6])),
    attack("userfaultfd", In::Both, DENIED, |_| number(libc::SYS_userfaultfd, [1, 0, 0, 0, 0, 0])),
    attack("load a module", In::Both, DENIED, |_| {
        number(libc::SYS_finit_module, [0, sys::at(c""), 0, 0, 0, 0])
    }),
    attack("rename the host", In::Both, DENIED, |_| {
        number(libc::SYS_sethostname, [sys::at(c"x"), 1, 0, 0, 0, 0])
    }),
    attack("take capabilities", In::Both, DENIED, |_| {
        let (header, all) = ([0x2008_0522_u32, 0], [u32::MAX; 6]);
        number(libc::SYS_capset, [header.as_ptr().addr(), all.as_ptr().addr(), 0, 0, 0, 0])
    }),
    attack("a system call newer than the walls", In::Both, NO_CALL, |_| number(470, [0; 6])),
    #[cfg(target_arch = "x86_64")]
    attack("a system call by its x32 number", In::Both, NO_CALL, |_| {
        number(0x4000_0000 + libc::SYS_socket, [2, 1, 0, 0, 0, 0])
    }),
];
