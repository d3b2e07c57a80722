//! Ctrl-C, SIGTERM and SIGHUP: what the run has made outside of itself is removed before it dies.
//!
//! Nothing else needs care: a jail dies with its client.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// 128 and the number of SIGINT, as shells say it.
const INTERRUPTED: i32 = 130;

static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file or directory that is removed on an interrupt, until this is dropped.
#[derive(Debug)]
pub(crate) struct Removable(PathBuf);

impl Removable {
    pub(crate) fn new(path: &Path) -> Self {
        made().push(path.to_owned());
        Removable(path.to_owned())
    }
}

impl Drop for Removable {
    fn drop(&mut self) {
        made().retain(|path| *path != self.0);
    }
}

/// From now on an interrupt cleans up and ends this process.
pub(crate) fn clean_up_on_interrupt() -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // Held to the end: nothing new is made meanwhile.
            let made = made();
            made.iter().for_each(|path| remove(path));
            std::process::exit(INTERRUPTED);
        }
    });
    Ok(())
}

fn made() -> MutexGuard<'static, Vec<PathBuf>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What cannot be removed has to stay; the process is about to end either way.
fn remove(path: &Path) {
    let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
}
