//! The caller's terminal.

use crate::processes::hold;
use crate::nr;
use crate::sys::{call};
use crate::{Named, Outcome};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;

pub const ATTACKS: &[Named] =
    &[("type_input", type_input), ("type_own", type_own), ("foreground", foreground), ("listen_to_input", listen_to_input)];

/// Puts the second argument and an end of line into the input of a terminal, as if the user had typed it.
fn type_into(terminal: usize, arguments: &[OsString]) -> Outcome {
    const TIOCSTI: usize = 0x5412;
    for byte in arguments[1].as_encoded_bytes().iter().chain(b"\n") {
        call(nr::IOCTL, [terminal, TIOCSTI, byte as *const u8 as usize, 0, 0, 0])?;
    }
    hold(&arguments[0]);
    Ok(())
}

fn type_input(arguments: &[OsString]) -> Outcome {
    type_into(0, arguments)
}

/// Nobody gave this one a descriptor: it has the terminal by its session.
fn type_own(arguments: &[OsString]) -> Outcome {
    type_into(File::open("/dev/tty")?.as_raw_fd() as usize, arguments)
}

/// What is typed at a terminal, such as an interrupt, goes to the foreground.
fn foreground(arguments: &[OsString]) -> Outcome {
    const TIOCSPGRP: usize = 0x5410;
    // The shell that started it is not to take it back.
    crate::processes::block_signals()?;
    // A group of its own, of which it is the leader.
    if crate::sys::fork()? == 0 {
        call(nr::SETPGID, [0; 6])?;
        let group = std::process::id();
        call(nr::IOCTL, [0, TIOCSPGRP, &raw const group as usize, 0, 0, 0])?;
        hold(&arguments[0]);
        return Ok(());
    }
    hold(&arguments[0]);
    Ok(())
}

/// Reads a line that the user types.
fn listen_to_input(_: &[OsString]) -> Outcome {
    let mut line = [0; 256];
    let length = File::open("/dev/tty")?.read(&mut line)?;
    io::stdout().write_all(&line[..length])
}
