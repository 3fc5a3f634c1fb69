use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
};

use nix::{sys::stat::Mode, unistd::mkfifo};

use super::*;
use crate::executor::fixture::{Place, code};

fn opened(place: &Place, path: &Path) -> Result<Opened, ToolFailure> {
    open(path, Wanted::File, &place.around().protected)
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let place = Place::build();
    let fifo = place.work("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let socket = place.work("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [&fifo, &socket, Path::new("/dev/zero"), Path::new("/dev/tty"), &place.work("")] {
        assert_eq!(code(&opened(&place, path)), Some(ToolErrorCode::NotRegular), "{}", path.display());
    }
    let file = place.put("a", "x");
    let directory = open(&file, Wanted::Directory, &place.around().protected);
    assert_eq!(code(&directory), Some(ToolErrorCode::NotRegular));
}

#[test]
fn links_are_followed_and_what_they_lead_to_is_judged() {
    let place = Place::build();
    let file = place.put("deep/a", "x");
    symlink(&file, place.work("link")).unwrap();
    symlink(place.work("deep"), place.work("folder")).unwrap();
    for name in ["link", "folder/a", "deep/../deep/./a"] {
        assert_eq!(opened(&place, &place.work(name)).unwrap().path, file, "{name}");
    }
    symlink(place.home().join(".ssh/id"), place.work("key")).unwrap();
    symlink(place.home().join(".ssh"), place.work("store")).unwrap();
    fs::hard_link(place.home().join(".ssh/id"), place.work("twin")).unwrap();
    #[cfg(target_os = "linux")]
    symlink("/proc/self/root", place.work("root")).unwrap();
    for path in [
        place.work("key"),
        place.work("store/id"),
        place.work("store/absent"),
        place.work("twin"),
        place.home().join(".ssh"),
        place.home().join(".ssh/id"),
        place.home().join(".ssh/absent"),
        place.work("../home/.ssh/id"),
        place.home().join(".claude.json"),
        PathBuf::from("/proc/self/environ"),
        PathBuf::from("/proc/self/root/etc/hostname"),
        PathBuf::from("/proc/self/cwd"),
        PathBuf::from("/proc/thread-self/exe"),
        #[cfg(target_os = "linux")]
        place.work("root/etc/hostname"),
        PathBuf::from("/proc/1/cmdline"),
    ] {
        let outcome = opened(&place, &path);
        if path.starts_with("/proc") && cfg!(target_os = "macos") {
            continue;
        }
        assert_eq!(code(&outcome), Some(ToolErrorCode::ProtectedPath), "{}", path.display());
    }
}

#[test]
fn links_in_a_circle_end() {
    let place = Place::build();
    symlink(place.work("b"), place.work("a")).unwrap();
    symlink(place.work("a"), place.work("b")).unwrap();
    assert_eq!(code(&opened(&place, &place.work("a"))), Some(ToolErrorCode::NotFound));
    let long = format!("/{}", "x".repeat(5_000));
    assert_eq!(code(&opened(&place, Path::new(&long))), Some(ToolErrorCode::InvalidArgument));
}

#[test]
fn a_missing_name_brings_up_the_ones_that_look_the_same() {
    let place = Place::build();
    for name in ["Read Me.txt", "cafe\u{301}.md", "shot 10\u{202f}PM.png", "Src/Main.rs", "other.txt"] {
        place.put(name, "x");
    }
    for (asked, meant) in [
        ("read me.txt", "Read Me.txt"),
        ("Read\u{a0}Me.txt", "Read Me.txt"),
        ("caf\u{e9}.md", "cafe\u{301}.md"),
        ("shot 10 PM.png", "shot 10\u{202f}PM.png"),
        ("src/main.rs", "Src/Main.rs"),
    ] {
        let failure = opened(&place, &place.work(asked)).unwrap_err();
        // A file system that takes both for one name has nothing to suggest.
        assert_eq!(failure.code, ToolErrorCode::NotFound);
        let wanted = format!("did you mean {}?", display::path(&place.work(meant)));
        assert!(failure.message.contains(&wanted), "{asked}: {failure}");
    }
    let failure = opened(&place, &place.work("nothing/like/it")).unwrap_err();
    assert!(failure.message.contains("work/nothing does not exist") && !failure.message.contains("did you"));
    let failure = opened(&place, &place.put("file", "").join("below")).unwrap_err();
    assert_eq!(failure.code, ToolErrorCode::NotFound);
}

#[test]
fn a_protected_name_is_not_brought_up() {
    let place = Place::build();
    let failure = opened(&place, &place.home().join(".SSH/id")).unwrap_err();
    assert!(!failure.message.contains("did you mean"), "{failure}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_denial_of_the_system_is_said_to_be_its_own() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::build();
    let file = place.put("closed", "x");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    if nix::unistd::geteuid().is_root() {
        return; // nothing is denied to root
    }
    let failure = opened(&place, &file).unwrap_err();
    assert_eq!(failure.code, ToolErrorCode::DeniedBySystem);
    assert!(failure.message.contains("operating system"));
}

/// While another process swaps a directory for a link into a store, no open ever yields the store's file.
#[test]
fn a_directory_swapped_for_a_link_never_opens_a_store() {
    let place = Place::build();
    place.put("real/id", "open");
    symlink(place.home().join(".ssh"), place.work("bad")).unwrap();
    fs::create_dir(place.work("turn")).unwrap();
    let around = place.around();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::rename(place.work("real"), place.work("turn/it"));
                let _ = fs::rename(place.work("bad"), place.work("real"));
                let _ = fs::rename(place.work("real"), place.work("bad"));
                let _ = fs::rename(place.work("turn/it"), place.work("real"));
            }
        });
        let mut refused = 0;
        for _ in 0..3_000 {
            match open(&place.work("real/id"), Wanted::File, &around.protected) {
                Ok(opened) => {
                    let mut text = String::new();
                    std::io::Read::read_to_string(&mut &opened.file, &mut text).unwrap();
                    assert_eq!(text, "open");
                }
                Err(_) => refused += 1,
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(refused <= 3_000);
    });
}
