//! Whether what is mounted in the jail is restricted as its place asks. Bubblewrap leaves out what it cannot look up: what is
//! mounted in a directory that is closed to it stays as it is on the host, and somebody could open that directory.

use super::STEP;
use super::names::PRIVATE;
use crate::error::{Hint, Result, failure};
use crate::linux::mount_table::MountTable;
use crate::linux::own_files::DEVICES;
use agentkit_protocol::FailureKind;
use std::path::Path;

const READ_ONLY: &[u8] = b"ro";
const CLOSED: [&[u8]; 2] = [b"nosuid", b"nodev"];

/// `writable` are the host's places that the command may write.
pub(super) fn check(table: &MountTable, writable: &[&Path]) -> Result<()> {
    for (point, options) in table.uncovered() {
        let lacking = wanted(&point, writable).into_iter().find(|option| !options.contains(option));
        if let Some(option) = lacking {
            let option = String::from_utf8_lossy(option);
            let message = format_args!("what is mounted at {point:?} could not be made {option}");
            return Err(failure(FailureKind::Host, STEP, message)).hint(
                "bubblewrap must be able to reach it, as the launcher's user or the one that root becomes; or name in the rule \
                 what does not hold it",
            );
        }
    }
    Ok(())
}

fn wanted(point: &Path, writable: &[&Path]) -> Vec<&'static [u8]> {
    let is_writable = [PRIVATE, "/proc"].iter().any(|own| point == Path::new(own))
        || writable.iter().any(|place| point.starts_with(place));
    if DEVICES.iter().any(|device| point == Path::new(device)) {
        vec![b"nosuid"]
    } else if is_writable {
        CLOSED.to_vec()
    } else {
        CLOSED.into_iter().chain([READ_ONLY]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(point: &str, options: &str) -> bool {
        let table = MountTable::from(format!("2 1 0:2 / {point} {options} - tmpfs t rw\n"));
        check(&table, &[Path::new("/work")]).is_err()
    }

    #[test]
    fn what_is_not_to_be_written_is_read_only() {
        for point in ["/", "/usr", "/usr/in", "/srv/a/b", "/proc/sys", "/privately", "/workshop"] {
            assert!(!fails(point, "ro,nosuid,nodev,relatime"), "{point}");
            assert!(fails(point, "rw,nosuid,nodev"), "{point}");
        }
        for point in ["/work", "/work/in", "/private", "/proc"] {
            assert!(!fails(point, "rw,nosuid,nodev"), "{point}");
        }
    }

    #[test]
    fn nothing_gives_privileges_or_devices() {
        for point in ["/usr", "/work", "/work/in", "/private", "/proc"] {
            assert!(fails(point, "ro,nosuid") && fails(point, "ro,nodev"), "{point}");
        }
        assert!(
            !fails("/dev/null", "rw,nosuid") && fails("/dev/null", "rw") && fails("/dev/other", "rw,nosuid")
        );
    }
}
