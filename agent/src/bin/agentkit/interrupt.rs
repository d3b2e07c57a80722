//! Ctrl-C, SIGTERM and SIGHUP: the first ends the run, which kills what runs in a sandbox and writes the transcript to
//! its end. The second ends this process as if nothing had been said about signals; a jail dies with its client.

use agentkit_agent::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The signal that came, if one did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicU8>);

impl Interrupt {
    /// From now on a signal raises `cancel`.
    pub(crate) fn raises(cancel: &Cancel) -> io::Result<Self> {
        let interrupt = Interrupt::default();
        let came = Arc::new(AtomicBool::new(false));
        let heeded = heeded();
        for signal in heeded.iter().copied() {
            // In this order: what comes first finds the flag still down.
            flag::register_conditional_default(signal, Arc::clone(&came))?;
            flag::register(signal, Arc::clone(&came))?;
        }
        let mut signals = Signals::new(heeded)?;
        let (cancel, of_thread) = (cancel.clone(), interrupt.clone());
        std::thread::Builder::new().name("agentkit-signals".to_owned()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                of_thread.0.store(u8::try_from(signal).unwrap_or(0), Ordering::SeqCst);
                cancel.cancel();
            }
        })?;
        Ok(interrupt)
    }

    pub(crate) fn signal(&self) -> Option<u8> {
        Some(self.0.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}

/// The signals that whoever started this program has not told it to ignore, as nohup(1) does with SIGHUP and a shell with
/// the SIGINT of what runs in its background. Only Linux tells.
fn heeded() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let is_heeded = |signal: &i32| ignored >> (signal - 1) & 1 == 0;
    [SIGHUP, SIGINT, SIGTERM].into_iter().filter(is_heeded).collect()
}
