//! The raw calls of an attacker.
#![expect(unsafe_code, reason = "an attacker makes raw system calls")]

use std::{ffi::CStr, io};

/// Makes any system call. Pointers among the arguments must point to live memory of the size the call expects.
pub(crate) fn call(number: libc::c_long, arguments: [usize; 6]) -> io::Result<i64> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the attacks below give live buffers or numbers only, and none shares memory with a new process.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// The address of a C string.
pub(crate) fn at(text: &CStr) -> usize {
    text.as_ptr().addr()
}

/// Makes a process by clone(2) with these flags, which ends at once.
pub(crate) fn clone_process(flags: libc::c_int) -> io::Result<()> {
    let flags = usize::try_from(flags | libc::SIGCHLD).map_err(io::Error::other)?;
    if call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0])? == 0 {
        // SAFETY: _exit has no preconditions.
        unsafe { libc::_exit(0) };
    }
    Ok(())
}

/// Connects a socket of any family, type and protocol to an IPv4 address.
pub(crate) fn connect4(kind: libc::c_int, protocol: libc::c_int, to: ([u8; 4], u16)) -> io::Result<()> {
    let socket = call(libc::SYS_socket, [libc::AF_INET as usize, kind as usize, protocol as usize, 0, 0, 0])?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: to.1.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(to.0) },
        sin_zero: [0; 8],
    };
    let size = std::mem::size_of::<libc::sockaddr_in>();
    let here = (&raw const address).addr();
    call(libc::SYS_connect, [usize::try_from(socket).map_err(io::Error::other)?, here, size, 0, 0, 0])
        .map(|_| ())
}

/// Turns one end of a pair of datagram sockets to an address in the file system.
pub(crate) fn readdress_pair(path: &CStr) -> io::Result<()> {
    let mut pair = [0_i32; 2];
    let kind = libc::SOCK_DGRAM as usize;
    call(libc::SYS_socketpair, [libc::AF_UNIX as usize, kind, 0, (&raw mut pair).addr(), 0, 0])?;
    // SAFETY: sockaddr_un is plain data for which all zeroes is a value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (place, byte) in address.sun_path.iter_mut().zip(path.to_bytes()) {
        *place = *byte as libc::c_char;
    }
    let size = std::mem::size_of::<libc::sockaddr_un>();
    call(libc::SYS_connect, [pair[0] as usize, (&raw const address).addr(), size, 0, 0, 0]).map(|_| ())
}

/// Maps a file as code.
pub(crate) fn map_as_code(file: i32) -> io::Result<()> {
    let protection = (libc::PROT_READ | libc::PROT_EXEC) as usize;
    call(libc::SYS_mmap, [0, 4096, protection, libc::MAP_PRIVATE as usize, file as usize, 0]).map(|_| ())
}
