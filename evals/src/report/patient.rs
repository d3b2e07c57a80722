//! A writer that lets the run go on when nobody reads its table any more.

use std::io::{self, ErrorKind, Write};

/// Passes everything on until that fails, and then drops what comes.
#[derive(Debug)]
pub(crate) struct Patient<W> {
    out: W,
    failure: Option<io::Error>,
}

impl<W: Write> Patient<W> {
    pub(crate) fn new(out: W) -> Self {
        Patient { out, failure: None }
    }

    /// The first failure, if there was one.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.failure.map_or(Ok(()), Err)
    }

    fn keep<T>(&mut self, result: io::Result<T>, instead: T) -> io::Result<T> {
        result.or_else(|why| match why.kind() {
            ErrorKind::Interrupted => Err(why),
            _ => {
                self.failure = Some(why);
                Ok(instead)
            }
        })
    }
}

impl<W: Write> Write for Patient<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failure.is_some() {
            return Ok(bytes.len());
        }
        let written = self.out.write(bytes);
        self.keep(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.failure.is_some() {
            return Ok(());
        }
        let flushed = self.out.flush();
        self.keep(flushed, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has room for so many writes.
    struct Pipe(usize);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_first_failure_is_kept_and_stops_nothing() {
        let mut patient = Patient::new(Pipe(1));
        for _ in 0..3 {
            writeln!(patient, "x").unwrap();
            patient.flush().unwrap();
        }
        assert_eq!(patient.finish().unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert!(Patient::new(Pipe(1)).finish().is_ok());
    }
}
