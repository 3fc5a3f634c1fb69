//! A program that swaps, links, replaces and moves the file, its parent and the staged files as fast as it can, while
//! the session writes.
//!
//! Every version of the file has a text of its own, and the adversary destroys none: what it displaces it carries to
//! a graveyard. So in the end every version must be somewhere: in its place, in the graveyard, recorded as what a
//! write replaced, or kept and named by an outcome.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;
use crate::executor::atomic_write::sys::{self, Entry};

struct Adversary<'s> {
    scene: &'s Scene,
    /// The directory of the target, wherever it is.
    home: File,
    graveyard: File,
    workshop: File,
    count: usize,
    random: u64,
    versions: Vec<String>,
}

impl<'s> Adversary<'s> {
    fn new(scene: &'s Scene) -> Self {
        for name in ["graveyard", "workshop"] {
            fs::create_dir(scene.path(name)).unwrap();
        }
        let open = |name: &str| File::open(scene.path(name)).unwrap();
        Self {
            scene,
            home: open("home"),
            graveyard: open("graveyard"),
            workshop: open("workshop"),
            count: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            versions: Vec::new(),
        }
    }

    fn next(&mut self, choices: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % choices
    }

    fn act(&mut self) {
        match self.next(10) {
            0..5 => self.put_version(),
            5 => self.put(|path, scene| symlink(scene.outside("secret"), path).unwrap()),
            6 => self.put(|path, scene| fs::hard_link(scene.outside("linked"), path).unwrap()),
            7 => self.put(|path, _| fs::create_dir(path).unwrap()),
            8 => self.steal_staged(),
            _ => self.move_parent(),
        }
        // Sometimes at once, sometimes after a while in which several writes can go through.
        let pause = std::time::Duration::from_micros(self.next(3) * self.next(1_500));
        let begun = std::time::Instant::now();
        while begun.elapsed() < pause {
            std::thread::yield_now();
        }
        match self.next(8) {
            0 => self.bury(OsStr::new("file")),
            1..5 => self.put_version(),
            _ => {}
        }
    }

    fn put_version(&mut self) {
        self.count += 1;
        let version = format!("theirs {}", self.count);
        self.versions.push(version.clone());
        self.put(move |path, _| fs::write(path, version).unwrap());
    }

    /// Makes something and gives it the file's name; what had the name goes to the graveyard.
    fn put(&mut self, make: impl FnOnce(&Path, &Scene)) {
        self.count += 1;
        let name = format!("made-{}", self.count);
        make(&self.scene.path("workshop").join(&name), self.scene);
        let made = Entry { directory: &self.workshop, name: OsStr::new(&name) };
        let file = Entry { directory: &self.home, name: OsStr::new("file") };
        let buried = Entry { directory: &self.graveyard, name: OsStr::new(&name) };
        if sys::exchange(made, file).is_ok() || sys::move_new(made, file).is_err() {
            sys::move_new(made, buried).unwrap();
        }
    }

    fn bury(&mut self, name: &OsStr) {
        self.count += 1;
        let buried = format!("buried-{}", self.count);
        let from = Entry { directory: &self.home, name };
        let _ = sys::move_new(from, Entry { directory: &self.graveyard, name: OsStr::new(&buried) });
    }

    fn steal_staged(&mut self) {
        let staged = fs::read_dir(self.scene.path("home"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name())
            .find(|name| name.to_string_lossy().starts_with(".gateway-"));
        if let Some(name) = staged {
            self.bury(&name);
        }
    }

    /// For a moment the parent is elsewhere and a link to the outside has its name.
    fn move_parent(&mut self) {
        let (home, away) = (self.scene.path("home"), self.scene.path("away"));
        fs::rename(&home, &away).unwrap();
        symlink(self.scene.outside(""), &home).unwrap();
        std::thread::yield_now();
        fs::remove_file(&home).unwrap();
        fs::rename(&away, &home).unwrap();
    }
}

/// What became of the session's writes.
#[derive(Default)]
struct Story {
    applied: Vec<String>,
    recorded_before: HashSet<String>,
    /// How many writes came as far as their commit.
    committed: usize,
    refused: BTreeMap<&'static str, usize>,
    unclear: BTreeMap<String, usize>,
}

impl Story {
    fn write(&mut self, scene: &Scene) {
        let target = scene.target("home/file");
        let version = format!("ours {}", self.committed);
        // What is refused at the look costs nothing and proves nothing.
        let Ok(current) = Current::look(&scene.root, &target, &scene.protected) else { return };
        let name = TempName::for_action(ActionId::mint());
        let before = current.content().map(|seen| String::from_utf8(seen.bytes().to_vec()).unwrap());
        let staged = current.stage(&Content::of(version.as_bytes()), name, MODES);
        let Ok(staged) = staged.and_then(|written| written.sync()) else { return };
        let record = record(staged.prepared());
        self.committed += 1;
        match staged.commit(&record) {
            Commit::Applied { .. } => {
                self.recorded_before.extend(before);
                self.applied.push(version);
            }
            Commit::NotApplied(refusal) => *self.refused.entry(refusal.code().text()).or_default() += 1,
            Commit::Indeterminate { why, kept, observed } => {
                assert!(kept.is_none_or(|kept| kept.starts_with(".gateway-")), "{observed:?}");
                self.recorded_before.extend(before);
                *self.unclear.entry(why).or_default() += 1;
            }
        }
    }
}

fn contents_below(path: &Path, found: &mut HashSet<String>) {
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            contents_below(&path, found);
        } else if metadata.is_file() {
            found.insert(fs::read_to_string(&path).unwrap());
        }
    }
}

/// Goes on until `writes` writes came as far as their commit.
fn survive(writes: usize) {
    let scene = Scene::new();
    fs::create_dir(scene.path("home")).unwrap();
    for name in ["secret", "linked", "file"] {
        fs::write(scene.outside(name), format!("outside {name}")).unwrap();
    }
    let mut adversary = Adversary::new(&scene);
    let over = AtomicBool::new(false);
    let mut story = Story::default();
    let versions = std::thread::scope(|scope| {
        let enemy = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                adversary.act();
            }
            adversary.versions
        });
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(300);
        while story.committed < writes && std::time::Instant::now() < deadline {
            story.write(&scene);
        }
        over.store(true, Ordering::Relaxed);
        enemy.join().unwrap()
    });

    let mut there = HashSet::new();
    contents_below(scene.root.path(), &mut there);
    let mut outside: Vec<_> =
        fs::read_dir(scene.outside("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    outside.sort();
    assert_eq!(outside, ["file", "linked", "secret"], "nothing came to be outside the root");
    for name in ["secret", "linked", "file"] {
        assert_eq!(fs::read_to_string(scene.outside(name)).unwrap(), format!("outside {name}"));
    }
    for version in versions.iter().chain(&story.applied) {
        assert!(there.contains(version) || story.recorded_before.contains(version), "{version:?} was lost");
    }
    let Story { applied, committed, refused, unclear, .. } = story;
    println!("{} of {committed} applied; refused {refused:?}; unclear {unclear:?}", applied.len());
    assert_eq!(committed, writes, "out of time");
    assert!(!applied.is_empty(), "no write was applied");
    assert!(!refused.is_empty(), "no write was interfered with");
}

#[test]
fn a_program_that_interferes_loses_nothing_and_reaches_nothing_outside() {
    survive(200);
}

#[test]
#[ignore = "takes a minute; run by name for the full count"]
fn a_program_that_interferes_with_10_000_writes_loses_nothing() {
    survive(10_000);
}
