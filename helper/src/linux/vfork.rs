//! Processes that are still in their parent's memory: between vfork(2) and exec each of the two shows all of it, however
//! it is counted. `posix_spawn` works like this too.

use super::usage::{self, Process};
use nix::libc;
use std::os::fd::OwnedFd;

/// The processes without those that are in the memory of another. Who has a child like that waits in the call that made
/// it, with the call's arguments where the kernel shows them and nobody can change them.
pub(crate) fn each_memory_once(proc: &OwnedFd, processes: &[Process]) -> Vec<Process> {
    let mut kept = processes.to_vec();
    for parent in processes {
        if kept.iter().any(|process| process.parent == parent.pid) {
            let waiting = usage::threads(proc, parent.pid).into_iter().filter(|thread| {
                let call = usage::read(proc, &format!("{}/task/{thread}/syscall", parent.pid));
                call.is_ok_and(|call| lends_memory(&call))
            });
            waiting.for_each(|_| take_borrower(&mut kept, parent));
        }
    }
    kept
}

/// Which child it is does not show, but that it shows as much as its parent.
fn take_borrower(kept: &mut Vec<Process>, parent: &Process) {
    let children = kept.iter().enumerate().filter(|(_, process)| process.parent == parent.pid);
    let borrower = children.min_by_key(|(_, child)| child.resident.abs_diff(parent.resident));
    if let Some((at, _)) = borrower {
        kept.swap_remove(at);
    }
}

/// By the text of `/proc/PID/syscall`: number and arguments of the call that a thread waits in. The filter refuses
/// clone3(2), whose flags would be in the jail's memory.
fn lends_memory(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    let number = words.next().and_then(|word| word.parse().ok());
    let flags = words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    match (number, flags) {
        #[cfg(target_arch = "x86_64")]
        (Some(libc::SYS_vfork), _) => true,
        (Some(libc::SYS_clone), Some(flags)) => {
            let waits_for_its_child = libc::CLONE_VM | libc::CLONE_VFORK;
            // A thread is no process, and a brother no child.
            let others = libc::CLONE_THREAD | libc::CLONE_PARENT;
            flags & u64::from((waits_for_its_child | others).unsigned_abs())
                == u64::from(waits_for_its_child.unsigned_abs())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_clone(flags: i32) -> bool {
        lends_memory(&format!(
            "{} {:#x} 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n",
            libc::SYS_clone,
            flags | libc::SIGCHLD
        ))
    }

    #[test]
    fn only_a_child_in_the_same_memory_that_is_waited_for_borrows() {
        use libc::*;
        assert!(by_clone(CLONE_VM | CLONE_VFORK) && by_clone(CLONE_VM | CLONE_VFORK | CLONE_FILES));
        for other in [0, CLONE_VM, CLONE_VFORK] {
            assert!(!by_clone(other), "{other:#x}");
        }
        for other in [CLONE_THREAD, CLONE_PARENT] {
            assert!(!by_clone(CLONE_VM | CLONE_VFORK | other), "{other:#x}");
        }
        assert!(!lends_memory("running\n") && !lends_memory("-1 0x0 0x0\n") && !lends_memory(""));
    }

    #[test]
    fn of_the_children_one_of_the_parents_size_is_the_borrower() {
        let process = |pid, parent, resident| Process { pid, parent, resident, ..Process::default() };
        let (parent, other) = (process(2, 1, 100), process(9, 1, 100));
        let mut kept = vec![parent.clone(), process(3, 2, 900), process(4, 2, 101), other];
        take_borrower(&mut kept, &parent);
        let mut pids: Vec<_> = kept.iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [2, 3, 9]);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "\\PC{0,60}") {
            lends_memory(&text);
        }
    }
}
