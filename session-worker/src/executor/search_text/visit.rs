//! Searches the files that a walk meets; large ones in pieces, at the same time.

use std::{
    fs::{File, Metadata},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use memchr::memchr;
use sandbox_profiles::{FileIdentity, Judgement, Protected};

use super::{
    context,
    needle::Needle,
    piece::{CHUNK, Extent, Found, Search, Span, WHOLE, Window},
    render::Shown,
};
use crate::executor::{
    tools::Stop,
    walk::{
        Entry, Key, Kind, Node, Visitor,
        filter::NameFilter,
        shelf::{Amount, Shelf},
    },
};

/// Bytes of a piece. A file of two pieces or more is worth sharing among threads.
const PIECE: u64 = 4 * 1024 * 1024;

/// A file with a zero byte among this many at its start is binary.
const BINARY_BYTES: usize = 8 * 1024;

/// What was met on the way.
#[derive(Debug, Default)]
pub(super) struct Counts {
    lines: AtomicU64,
    files: AtomicU64,
    searched: AtomicU64,
    binary: AtomicU64,
    unreadable: AtomicU64,
    not_utf8: AtomicU64,
}

impl Counts {
    /// Lines with the text.
    pub(super) fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    /// Files with such lines.
    pub(super) fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Files that were searched.
    pub(super) fn searched(&self) -> u64 {
        self.searched.load(Ordering::Relaxed)
    }

    /// Binary files.
    pub(super) fn binary(&self) -> u64 {
        self.binary.load(Ordering::Relaxed)
    }

    /// Files that could not be read.
    pub(super) fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Lines with the text that are not UTF-8.
    pub(super) fn not_utf8(&self) -> u64 {
        self.not_utf8.load(Ordering::Relaxed)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The hits of a piece of a file.
#[derive(Debug)]
pub(super) struct PieceFound {
    pub(super) path: Arc<Path>,
    /// Which piece, from 0.
    pub(super) number: u32,
    /// Lines that end in it.
    pub(super) lines: u64,
    pub(super) hits: Vec<Shown>,
}

/// A file, or a piece of a large one.
#[derive(Debug)]
pub(super) struct Piece {
    file: Arc<SearchedFile>,
    key: Key,
    number: u32,
    span: Span,
}

/// A file that is searched.
#[derive(Debug)]
pub(super) struct SearchedFile {
    file: File,
    path: Arc<Path>,
    has_hit: AtomicBool,
}

impl SearchedFile {
    pub(super) fn new(file: File, path: PathBuf) -> Self {
        SearchedFile { file, path: Arc::from(path), has_hit: AtomicBool::new(false) }
    }
}

/// What a thread keeps for itself.
#[derive(Debug, Default)]
pub(super) struct Own {
    window: Window,
    needle: Option<Needle>,
}

/// The search.
#[derive(Debug)]
pub(super) struct Searcher<'a> {
    pub(super) needle: Needle,
    pub(super) filter: NameFilter,
    pub(super) context: usize,
    pub(super) extent: Extent,
    pub(super) protected: &'a Protected,
    pub(super) stop: &'a Stop,
    pub(super) shelf: Shelf<PieceFound>,
    pub(super) counts: Counts,
}

impl Searcher<'_> {
    /// The pieces of a file of this size.
    pub(super) fn pieces_of(&self, file: SearchedFile, key: &Key, bytes: u64) -> Vec<(Key, Piece)> {
        let mut start = [0; BINARY_BYTES];
        match file.file.read_at(&mut start, 0) {
            Ok(read) if memchr(0, &start[..read]).is_some() => {
                count(&self.counts.binary);
                return Vec::new();
            }
            Ok(_) => count(&self.counts.searched),
            Err(_) => {
                count(&self.counts.unreadable);
                return Vec::new();
            }
        }
        let file = Arc::new(file);
        // Few enough to be queued at once, however large the file is.
        let size = PIECE.max(bytes / 16_384);
        let pieces = u32::try_from(bytes.div_ceil(size)).unwrap_or(u32::MAX).max(1);
        (0..pieces)
            .map(|number| {
                let start = u64::from(number) * size;
                // The last takes what the file grows by meanwhile.
                let end = if number + 1 == pieces { u64::MAX } else { start + size };
                let key = key.piece(number);
                let span = Span { start, end };
                (key.clone(), Piece { file: Arc::clone(&file), key, number, span })
            })
            .collect()
    }

    fn search_entry(&self, directory: &Node, entry: &Entry, own: &mut Own) -> Vec<(Key, Piece)> {
        let key = directory.key_of(&entry.name);
        if self.shelf.bound().is_before(&key) {
            return Vec::new();
        }
        let opened = directory.open(&entry.name);
        let Ok(file) = opened.and_then(|file| own.window.open(&file, 0).map(|()| file)) else {
            count(&self.counts.unreadable);
            return Vec::new();
        };
        if is_binary(&own.window) {
            count(&self.counts.binary);
            return Vec::new();
        }
        let needle = own.needle.get_or_insert_with(|| self.needle.clone());
        if own.window.holds_the_end() && needle.find(own.window.bytes(), 0).is_none() {
            count(&self.counts.searched);
            return Vec::new();
        }
        // Only now is the file's metadata worth a call.
        let Ok(metadata) = file.metadata() else { return Vec::new() };
        let path = directory.path_of(entry);
        if !metadata.is_file() || self.is_protected(&path, &metadata) {
            return Vec::new();
        }
        let file = SearchedFile::new(file, path);
        if metadata.len() >= 2 * PIECE {
            return self.pieces_of(file, &key, metadata.len());
        }
        count(&self.counts.searched);
        self.search(&Piece { file: Arc::new(file), key, number: 0, span: WHOLE }, own);
        Vec::new()
    }

    /// A file of one name was judged by its path on the way here.
    fn is_protected(&self, path: &Path, metadata: &Metadata) -> bool {
        let identity = FileIdentity::of(metadata);
        identity.links > 1 && self.protected.judge(path, Some(identity)) != Judgement::Open
    }

    /// Searches a piece from the window that is open at its start.
    fn search(&self, piece: &Piece, own: &mut Own) {
        let needle = own.needle.get_or_insert_with(|| self.needle.clone());
        let goes_on = || !self.stop.is_raised() && !self.shelf.bound().is_before(&piece.key);
        let search = Search::new(needle, self.extent, piece.span);
        let found = search.run(&piece.file.file, &mut own.window, &goes_on);
        own.window.shrink();
        let Ok(found) = found else {
            count(&self.counts.unreadable);
            return;
        };
        self.counts.lines.fetch_add(found.count, Ordering::Relaxed);
        self.counts.not_utf8.fetch_add(found.not_utf8, Ordering::Relaxed);
        if found.count > 0 && !piece.file.has_hit.swap(true, Ordering::Relaxed) {
            count(&self.counts.files);
        }
        // Of a large file also what holds no hit: later pieces count their lines from here.
        if found.count > 0 || piece.span.end != WHOLE.end {
            self.put(piece, found);
        }
    }

    fn put(&self, piece: &Piece, found: Found) {
        let SearchedFile { file, path, .. } = &*piece.file;
        let hits: Vec<Shown> = found
            .hits
            .into_iter()
            .map(|hit| {
                let (before, after) = if self.context == 0 {
                    (Vec::new(), Vec::new())
                } else {
                    context::around(file, &hit, self.context)
                };
                Shown { line: hit.line, column: hit.column, text: hit.text, before, after }
            })
            .collect();
        let overhead = path.as_os_str().len() + 8;
        let bytes: usize = hits
            .iter()
            .flat_map(|hit| hit.before.iter().chain(&hit.after).chain([&hit.text]))
            .map(|line| line.len() + overhead)
            .sum();
        let amount = Amount { count: hits.len() as u64, bytes: bytes as u64 };
        let path = Arc::clone(path);
        let found = PieceFound { path, number: piece.number, lines: found.lines, hits };
        self.shelf.put(piece.key.clone(), amount, found);
    }
}

impl Visitor for Searcher<'_> {
    type Own = Own;
    type More = Piece;

    fn wants(&self, directory: &Node, entry: &Entry) -> bool {
        entry.kind == Kind::File && self.filter.takes(directory, entry)
    }

    fn visit(&self, directory: &Node, entries: &[Entry], own: &mut Own) -> Vec<(Key, Piece)> {
        let mut pieces = Vec::new();
        for entry in entries {
            if self.stop.is_raised() {
                break;
            }
            pieces.extend(self.search_entry(directory, entry, own));
        }
        pieces
    }

    fn go_on(&self, piece: Piece, own: &mut Own) {
        match own.window.open(&piece.file.file, piece.span.start.saturating_sub(1)) {
            Ok(()) => self.search(&piece, own),
            Err(_) => count(&self.counts.unreadable),
        }
    }
}

fn is_binary(window: &Window) -> bool {
    let bytes = window.bytes();
    memchr(0, &bytes[..bytes.len().min(BINARY_BYTES)]).is_some()
}

const _: () = assert!(BINARY_BYTES < CHUNK, "the first chunk tells whether a file is binary");
