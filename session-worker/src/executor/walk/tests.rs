use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    sync::{Mutex, atomic::AtomicBool},
};

use super::*;
use crate::executor::{
    fixture::Place,
    paths::{self, Wanted},
};

/// Reads every file that a walk meets.
#[derive(Default)]
struct Reader(Mutex<Vec<(PathBuf, String)>>);

impl Visitor for Reader {
    type Own = ();
    type More = ();

    fn wants(&self, _: &Node, entry: &Entry) -> bool {
        entry.kind == Kind::File
    }

    fn visit(&self, directory: &Node, entries: &[Entry], (): &mut ()) -> Vec<(Key, ())> {
        for entry in entries {
            if let Ok(file) = directory.open(&entry.name) {
                let text = std::io::read_to_string(file).unwrap_or_default();
                self.0.lock().unwrap().push((directory.path_of(entry), text));
            }
        }
        Vec::new()
    }

    fn go_on(&self, (): (), (): &mut ()) {}
}

#[test]
fn a_key_orders_as_paths_do() {
    let root = Key::default();
    let key = |path: &str| path.split('/').fold(root.clone(), |key, name| key.below(name.as_bytes()));
    for (before, after) in
        [("a", "a/b"), ("a/b", "a-b"), ("a/z", "a-b"), ("a/b/c", "a/b0"), ("A", "a"), ("a\u{1}", "ab")]
    {
        assert!(key(before) < key(after), "{before} {after}");
        assert_eq!(
            PathBuf::from(before).components().lt(PathBuf::from(after).components()),
            key(before) < key(after)
        );
    }
    assert!(key("a").piece(0) < key("a").piece(256) && key("a").piece(256) < key("b"));
}

#[test]
fn a_bound_moves_to_the_front_only() {
    let key = |name: &str| Key::default().below(name.as_bytes());
    let bound = Bound::default();
    assert!(!bound.is_set() && !bound.is_before(&key("z")));
    bound.move_to(&key("m"));
    bound.move_to(&key("x"));
    assert!(bound.is_before(&key("n")) && !bound.is_before(&key("m")) && !bound.is_before(&key("a")));
}

/// While directories are swapped for links that lead into a store, a walk never reads what is in the store.
#[test]
fn a_directory_swapped_for_a_link_is_not_entered() {
    let place = Place::build();
    place.put("tree/real/deep/id", "open");
    fs::create_dir(place.home().join(".ssh/deep")).unwrap();
    fs::write(place.home().join(".ssh/deep/id"), "secret").unwrap();
    symlink(place.home().join(".ssh"), place.work("link")).unwrap();
    let around = place.around();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::rename(place.work("tree/real"), place.work("aside"));
                let _ = fs::rename(place.work("link"), place.work("tree/real"));
                let _ = fs::rename(place.work("tree/real"), place.work("link"));
                let _ = fs::rename(place.work("aside"), place.work("tree/real"));
            }
        });
        for _ in 0..300 {
            let root = paths::open(&place.work("tree"), Wanted::Directory, &around.protected).unwrap();
            let bound = Bound::default();
            let plan = Plan {
                protected: &around.protected,
                stop: &around.stop,
                bound: &bound,
                max_depth: u64::MAX,
                ignoring: Ignoring::Nothing,
            };
            let reader = Reader::default();
            let _ = below(root, &plan, &reader);
            for (path, text) in reader.0.into_inner().unwrap() {
                assert_eq!(text, "open", "{}", path.display());
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_visitor_that_panics_does_not_hang_the_others() {
    struct Panics;
    impl Visitor for Panics {
        type Own = ();
        type More = ();
        fn wants(&self, _: &Node, _: &Entry) -> bool {
            true
        }
        fn visit(&self, _: &Node, _: &[Entry], (): &mut ()) -> Vec<(Key, ())> {
            panic!("as the test wants it")
        }
        fn go_on(&self, (): (), (): &mut ()) {}
    }
    let place = Place::build();
    place.put("a/b", "");
    let around = place.around();
    let root = paths::open(&place.work(""), Wanted::Directory, &around.protected).unwrap();
    let bound = Bound::default();
    let plan = Plan {
        protected: &around.protected,
        stop: &around.stop,
        bound: &bound,
        max_depth: u64::MAX,
        ignoring: Ignoring::Nothing,
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| below(root, &plan, &Panics)));
    assert!(outcome.is_err());
}
