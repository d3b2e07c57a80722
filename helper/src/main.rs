//! `agentkit-jail`: all of it lives in the library, so that other programs can offer the same door.

#![cfg_attr(all(target_os = "linux", target_env = "gnu"), no_main)]

/// What std does before its own `main` takes some twenty calls, a fiftieth of a launch: a handler that explains stack
/// overflows, mostly. The rest is done by the jail's first step.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library calls this very name; there is no other of it")]
#[unsafe(no_mangle)]
extern "C" fn main() -> std::ffi::c_int {
    agentkit_jail::main()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn main() {
    std::process::exit(agentkit_jail::main());
}

#[cfg(target_os = "linux")]
mod memory {
    //! Memory, or the end of the process with the code of a jail that failed. std would abort, which to a caller looks
    //! like a command that was killed. Whatever is in the jail dies with the process.

    use std::alloc::{GlobalAlloc, Layout, System};
    use std::io::Write;

    struct OrEnd;

    #[global_allocator]
    static ALLOCATOR: OrEnd = OrEnd;

    #[expect(
        unsafe_code,
        reason = "std's exit expects to be called by a process that shares its memory with none"
    )]
    fn or_end(memory: *mut u8) -> *mut u8 {
        if memory.is_null() {
            // Allocates nothing, and nobody else can do more about it.
            let _ = std::io::stderr().write_all(b"agentkit-jail: memory: allocate: Cannot allocate memory\n");
            // SAFETY: takes no memory, and does not come back.
            unsafe { libc::_exit(agentkit_jail::exit_code::FAILED) }
        }
        memory
    }

    #[expect(unsafe_code, reason = "an allocator can be made in no other way")]
    // SAFETY: the system's keeps to the contract, and of what it gives only null is not passed on.
    unsafe impl GlobalAlloc for OrEnd {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller keeps to the same contract.
            or_end(unsafe { System.alloc(layout) })
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller keeps to the same contract.
            or_end(unsafe { System.alloc_zeroed(layout) })
        }

        unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            // SAFETY: the caller keeps to the same contract.
            or_end(unsafe { System.realloc(memory, layout, size) })
        }

        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            // SAFETY: the caller keeps to the same contract.
            unsafe { System.dealloc(memory, layout) }
        }
    }
}
