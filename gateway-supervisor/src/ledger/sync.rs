//! Syncing several journals at the same time: the file system then writes its own journal once for all of them.
//!
//! Invariant: asleep while nothing is synced; the helpers are started by the first group that needs them.

use std::{
    fs::File,
    io,
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

/// How a journal is made durable. On macOS the standard library asks for `F_FULLFSYNC` here.
pub(super) type SyncFile = fn(&File) -> io::Result<()>;

/// Threads beside the ledger's own: more were not faster on a disk that takes 0.1 ms.
const HELPERS: usize = 3;

/// One file to sync, by its place in the group.
type Job = (usize, Arc<File>);

/// Syncs groups of files.
#[derive(Debug)]
pub(super) struct Syncers {
    sync: SyncFile,
    helpers: Vec<Sender<Vec<Job>>>,
    results: Receiver<(usize, io::Result<()>)>,
    answer: Sender<(usize, io::Result<()>)>,
}

impl Syncers {
    /// Syncs with `sync`.
    pub(super) fn new(sync: SyncFile) -> Self {
        let (answer, results) = mpsc::channel();
        Self { sync, helpers: Vec::new(), results, answer }
    }

    /// Syncs every file once and says of each how it went, in the same order.
    pub(super) fn sync(&mut self, files: Vec<Arc<File>>) -> Vec<io::Result<()>> {
        if files.len() < 2 {
            return files.iter().map(|file| (self.sync)(file)).collect();
        }
        self.start_helpers();
        let total = files.len();
        let workers = self.helpers.len() + 1;
        let mut shares: Vec<Vec<Job>> = (0..workers).map(|_| Vec::new()).collect();
        for job in files.into_iter().enumerate() {
            shares[job.0 % workers].push(job);
        }
        let mut own = shares.pop().unwrap_or_default();
        for (helper, share) in self.helpers.iter().zip(shares) {
            if let Err(mpsc::SendError(share)) = helper.send(share) {
                own.extend(share);
            }
        }
        let unanswered = || Err(io::Error::other("the sync was not answered"));
        let mut outcomes: Vec<io::Result<()>> = (0..total).map(|_| unanswered()).collect();
        let helped = total - own.len();
        for (place, file) in own {
            outcomes[place] = (self.sync)(&file);
        }
        for _ in 0..helped {
            // This side holds a sender too, so this ends only by an answer; a helper answers whatever happens.
            if let Ok((place, outcome)) = self.results.recv() {
                outcomes[place] = outcome;
            }
        }
        outcomes
    }

    fn start_helpers(&mut self) {
        while self.helpers.len() < HELPERS {
            let (give, take) = mpsc::channel::<Vec<Job>>();
            let (sync, answer) = (self.sync, self.answer.clone());
            let started = thread::Builder::new().name("ledger-sync".to_owned()).spawn(move || {
                for (place, file) in take.into_iter().flatten() {
                    let _ = answer.send((place, sync(&file)));
                }
            });
            match started {
                Ok(_) => self.helpers.push(give),
                // Without helpers the ledger's own thread does it all.
                Err(_) => return,
            }
        }
    }
}
