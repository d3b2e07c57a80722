//! Ctrl-C, SIGTERM and SIGHUP: what the run has made outside of itself is removed before it dies.
//!
//! A jail dies with its client; what else goes on has to be ended first.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// 128 and the number of SIGINT, as shells say it.
const INTERRUPTED: i32 = 130;

/// More than enough to outlast whoever writes into a directory with two entries.
const ATTEMPTS: usize = 100;

static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file or directory that is removed on an interrupt, until this is dropped.
#[derive(Debug)]
pub(crate) struct Removable(PathBuf);

impl Removable {
    /// Makes something at a path of its own choice. No interrupt can come between that and the note of it.
    pub(crate) fn make<T>(
        make: impl FnOnce() -> io::Result<T>,
        path: impl FnOnce(&T) -> &Path,
    ) -> io::Result<(T, Self)> {
        let mut noted = made();
        let thing = make()?;
        let path = path(&thing).to_owned();
        noted.push(path.clone());
        Ok((thing, Removable(path)))
    }
}

impl Drop for Removable {
    fn drop(&mut self) {
        made().retain(|path| *path != self.0);
    }
}

/// From now on an interrupt ends what goes on, by `end`, cleans up and ends this process.
pub(crate) fn clean_up_on_interrupt(end: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            end();
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

/// The rest of the process may be filling or emptying the same directory, so that one attempt can fail half-way. What
/// cannot be removed has to stay; the process is about to end either way.
fn remove(path: &Path) {
    for _ in 0..ATTEMPTS {
        let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        if path.symlink_metadata().is_err() {
            return;
        }
    }
}
