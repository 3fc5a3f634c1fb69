//! Every escape by its name, what it does, and the errors with which it must fail.

use crate::{reach, sys};
use std::{
    ffi::CString,
    fs::{self, OpenOptions},
    io,
    net::TcpStream,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::Command,
};

/// What the attacker was told about its victims.
pub(crate) struct Targets {
    pub(crate) home: PathBuf,
    pub(crate) scratch: PathBuf,
    pub(crate) victim: usize,
    pub(crate) tcp: u16,
    pub(crate) udp: u16,
    pub(crate) abstract_name: String,
    /// The one port that Claude Code's cage may reach.
    pub(crate) port: u16,
}

/// In which cage an attempt is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum In {
    Command,
    Claude,
    Both,
}

/// One attempt.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) place: In,
    /// The errors that show a wall; empty where it must succeed.
    pub(crate) errors: &'static [i32],
    pub(crate) make: fn(&Targets) -> io::Result<()>,
}

pub(crate) const fn attack(
    name: &'static str,
    place: In,
    errors: &'static [i32],
    make: fn(&Targets) -> io::Result<()>,
) -> Attack {
    Attack { name, place, errors, make }
}

pub(crate) const CLOSED: &[i32] = &[libc::EACCES];
pub(crate) const ABSENT: &[i32] = &[libc::ENOENT];
const LOCKED: &[i32] = &[libc::EROFS];
pub(crate) const DENIED: &[i32] = &[libc::EPERM];
pub(crate) const NO_CALL: &[i32] = &[libc::ENOSYS];
pub(crate) const NOBODY: &[i32] = &[libc::ESRCH];
const WORKS: &[i32] = &[];

pub(crate) fn drop_ok<T>(result: io::Result<T>) -> io::Result<()> {
    result.map(|_| ())
}

pub(crate) fn c(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).unwrap_or_default()
}

pub(crate) fn number(call: i64, arguments: [usize; 6]) -> io::Result<()> {
    drop_ok(sys::call(call, arguments))
}

pub(crate) fn project(t: &Targets) -> PathBuf {
    t.home.join("project")
}

fn a_block_device() -> io::Result<PathBuf> {
    let names = ["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/xvda", "/dev/loop0", "/dev/mem"];
    let found = names.iter().map(PathBuf::from).find(|path| path.exists());
    // A machine without any disk file has nothing to attack.
    found.ok_or_else(|| io::Error::from_raw_os_error(libc::EACCES))
}

/// Reading what is hidden.
pub(crate) const READS: &[Attack] = &[
    attack("read a secret in a protected folder", In::Command, CLOSED, |t| {
        drop_ok(fs::read(t.home.join(".ssh/id")))
    }),
    attack("list a protected folder", In::Command, CLOSED, |t| drop_ok(fs::read_dir(t.home.join(".ssh")))),
    attack("stat a file in a protected folder", In::Command, CLOSED, |t| {
        drop_ok(fs::metadata(t.home.join(".ssh/id")))
    }),
    attack("read a protected file", In::Command, CLOSED, |t| drop_ok(fs::read(t.home.join(".netrc")))),
    attack("read the gateway's token", In::Command, CLOSED, |t| {
        drop_ok(fs::read(t.home.join("state/token")))
    }),
    attack("read /etc/shadow", In::Command, CLOSED, |_| drop_ok(fs::read("/etc/shadow"))),
    attack("read a secret through a link that lay there", In::Command, CLOSED, |t| {
        drop_ok(fs::read(project(t).join("link/id")))
    }),
    attack("read a secret through links made in the scratch", In::Command, CLOSED, |t| {
        let (one, two) = (t.scratch.join("one"), t.scratch.join("two"));
        symlink(t.home.join(".ssh"), &one).and_then(|()| symlink(&one, &two))?;
        drop_ok(fs::read(two.join("id")))
    }),
    attack("read a known hard link to a secret", In::Command, CLOSED, |t| {
        drop_ok(fs::read(project(t).join("twin")))
    }),
    attack(
        "hard-link a secret into the scratch",
        In::Command,
        &[libc::EXDEV, libc::EACCES, libc::EPERM],
        |t| fs::hard_link(t.home.join(".netrc"), t.scratch.join("netrc")),
    ),
    attack("read a protected file replaced by a rename after launch", In::Command, CLOSED, |t| {
        drop_ok(fs::read(t.home.join(".npmrc")))
    }),
    attack("read a protected folder made after launch", In::Command, CLOSED, |t| {
        drop_ok(fs::read(t.home.join(".gnupg/key")))
    }),
    attack("read another process's environment", In::Both, ABSENT, |t| {
        drop_ok(fs::read(format!("/proc/{}/environ", t.victim)))
    }),
    attack("go through another process's root", In::Both, ABSENT, |t| {
        drop_ok(fs::read(format!("/proc/{}/root{}", t.victim, t.home.join(".ssh/id").display())))
    }),
    attack("read the init's environment", In::Both, &[libc::EACCES, libc::EPERM], |_| {
        drop_ok(fs::read("/proc/1/environ"))
    }),
    attack("open the init's memory", In::Both, &[libc::EACCES, libc::EPERM], |_| {
        drop_ok(fs::File::open("/proc/1/mem"))
    }),
    attack("go through the init's root", In::Both, &[libc::EACCES, libc::EPERM], |_| {
        drop_ok(fs::read_dir("/proc/1/root/"))
    }),
    attack("look at the init's descriptors", In::Both, &[libc::EACCES, libc::EPERM], |_| {
        fs::read_dir("/proc/1/fd")?.try_for_each(|entry| drop_ok(fs::read_link(entry?.path())))
    }),
    attack("read the raw disk", In::Command, CLOSED, |_| drop_ok(fs::File::open(a_block_device()?))),
    attack("make a disk's device file in the scratch", In::Both, &[libc::EPERM, libc::EACCES], |t| {
        let disk = usize::try_from(libc::makedev(254, 0)).map_err(io::Error::other)?;
        let mode = (libc::S_IFBLK | 0o600) as usize;
        number(
            libc::SYS_mknodat,
            [libc::AT_FDCWD as usize, sys::at(&c(t.scratch.join("disk"))), mode, disk, 0, 0],
        )
    }),
    attack("open a file by its handle", In::Both, DENIED, |_| {
        let handle = [8_u8; 136];
        number(libc::SYS_open_by_handle_at, [0, handle.as_ptr().addr(), 0, 0, 0, 0])
    }),
    attack("read the machine's accounts", In::Claude, ABSENT, |_| drop_ok(fs::read("/etc/passwd"))),
    attack("read a project", In::Claude, ABSENT, |t| drop_ok(fs::read(project(t).join("main.rs")))),
    attack("see that a home exists", In::Claude, ABSENT, |t| drop_ok(fs::metadata(&t.home))),
    attack("read the raw disk", In::Claude, ABSENT, |_| drop_ok(fs::File::open("/dev/vda"))),
];

/// Writing outside the scratch.
pub(crate) const WRITES: &[Attack] = &[
    attack("make a file in the project", In::Command, LOCKED, |t| fs::write(project(t).join("new"), "x")),
    attack("append to a file", In::Command, LOCKED, |t| {
        drop_ok(OpenOptions::new().append(true).open(project(t).join("main.rs")))
    }),
    attack("truncate a file", In::Command, LOCKED, |t| {
        number(libc::SYS_truncate, [sys::at(&c(project(t).join("main.rs"))), 0, 0, 0, 0, 0])
    }),
    attack("delete a file", In::Command, LOCKED, |t| fs::remove_file(project(t).join("main.rs"))),
    attack("rename a file", In::Command, LOCKED, |t| {
        fs::rename(project(t).join("main.rs"), project(t).join("x"))
    }),
    attack("make a folder", In::Command, LOCKED, |t| fs::create_dir(project(t).join("folder"))),
    attack("make a link", In::Command, LOCKED, |t| symlink("/", project(t).join("root"))),
    attack("change a mode", In::Command, LOCKED, |t| {
        fs::set_permissions(project(t).join("main.rs"), fs::Permissions::from_mode(0o777))
    }),
    attack("change a time", In::Command, LOCKED, |t| {
        let file = c(project(t).join("main.rs"));
        number(libc::SYS_utimensat, [libc::AT_FDCWD as usize, sys::at(&file), 0, 0, 0, 0])
    }),
    attack("set an extended attribute", In::Command, LOCKED, |t| {
        let file = c(project(t).join("main.rs"));
        number(libc::SYS_setxattr, [sys::at(&file), sys::at(c"user.x"), sys::at(c"1"), 1, 0, 0])
    }),
    attack("write through a link in the scratch", In::Command, LOCKED, |t| {
        let link = t.scratch.join("out");
        symlink(project(t).join("main.rs"), &link)?;
        fs::write(link, "x")
    }),
    attack("write into /tmp", In::Command, LOCKED, |_| fs::write("/tmp/hostile-was-here", "x")),
    attack("write into /dev", In::Command, LOCKED, |_| fs::write("/dev/hostile-was-here", "x")),
    attack("write a kernel setting", In::Both, &[libc::EROFS, libc::EACCES], |_| {
        fs::write("/proc/sys/kernel/hostname", "x")
    }),
    attack("write outside its home", In::Claude, &[libc::EROFS, libc::EACCES], |_| fs::write("/new", "x")),
    attack("write over its own program", In::Claude, &[libc::EROFS, libc::EACCES, libc::ETXTBSY], |_| {
        drop_ok(OpenOptions::new().write(true).open(std::env::current_exe()?))
    }),
];

/// What must work.
pub(crate) const HARMLESS: &[Attack] = &[
    attack("reads a project", In::Command, WORKS, |t| drop_ok(fs::read(project(t).join("main.rs")))),
    attack("lists a home", In::Command, WORKS, |t| drop_ok(fs::read_dir(&t.home))),
    attack("reads /etc/passwd", In::Command, WORKS, |_| drop_ok(fs::read("/etc/passwd"))),
    attack("reads its own status", In::Both, WORKS, |_| drop_ok(fs::read("/proc/self/status"))),
    attack("writes, renames and deletes in its folder", In::Both, WORKS, |t| {
        let (one, two) = (t.scratch.join("mine"), t.scratch.join("yours"));
        fs::write(&one, "x").and_then(|()| fs::rename(&one, &two)).and_then(|()| fs::remove_file(two))
    }),
    attack("writes to /dev/null", In::Both, WORKS, |_| fs::write("/dev/null", "x")),
    attack("reads /dev/urandom", In::Both, WORKS, |_| drop_ok(fs::File::open("/dev/urandom"))),
    attack("uses shared memory", In::Command, WORKS, |_| fs::write("/dev/shm/mine", "x")),
    attack("opens a terminal of its own", In::Command, WORKS, |_| {
        drop_ok(OpenOptions::new().read(true).write(true).open("/dev/ptmx"))
    }),
    attack("runs a program", In::Command, WORKS, |_| drop_ok(Command::new("/bin/true").status())),
    attack("runs a program built in its scratch", In::Command, WORKS, |t| {
        let copy = t.scratch.join("built");
        drop_ok(fs::copy("/bin/true", &copy))?;
        drop_ok(Command::new(copy).status())
    }),
    attack("kills its own child", In::Command, WORKS, |_| {
        let mut child = Command::new("/bin/sleep").arg("100").spawn()?;
        child.kill().and_then(|()| drop_ok(child.wait()))
    }),
    attack("makes a pair of stream sockets", In::Both, WORKS, |_| drop_ok(UnixStream::pair())),
    attack("starts a thread", In::Both, WORKS, |_| {
        std::thread::spawn(|| ()).join().map_err(|_| io::Error::other("the thread panicked"))
    }),
    attack("connects to its one port", In::Claude, WORKS, |t| {
        drop_ok(TcpStream::connect(("127.0.0.1", t.port)))
    }),
];

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static Attack> {
    [READS, WRITES, reach::SOCKETS, reach::PROCESSES, reach::PRIVILEGES, HARMLESS].into_iter().flatten()
}
