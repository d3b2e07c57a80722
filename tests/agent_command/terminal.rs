//! A terminal with somebody before it.

use nix::pty::openpty;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

pub(crate) struct Terminal {
    /// Kept open, so that there always is somebody on the other side.
    slave: OwnedFd,
    keyboard: File,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    pub(crate) fn open() -> std::io::Result<Self> {
        let ends = openpty(None, None)?;
        let keyboard = File::from(ends.master);
        let (mut screen, shown) = (keyboard.try_clone()?, Arc::new(Mutex::new(String::new())));
        let kept = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = screen.read(&mut bytes) {
                kept.lock().expect("lock").push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        Ok(Terminal { slave: ends.slave, keyboard, shown })
    }

    /// A stream of a program that runs on it.
    pub(crate) fn stdio(&self) -> std::io::Result<Stdio> {
        Ok(Stdio::from(self.slave.try_clone()?))
    }

    pub(crate) fn type_in(&mut self, text: &str) -> std::io::Result<()> {
        self.keyboard.write_all(text.as_bytes())
    }

    /// What has appeared so far.
    pub(crate) fn text(&self) -> String {
        self.shown.lock().expect("lock").clone()
    }
}
