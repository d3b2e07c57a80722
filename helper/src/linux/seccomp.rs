//! Step 9: the system-call filter, compiled from `profiles/seccomp` at build time.

use super::layers::Layer;
use super::sys::{self, Instruction};
use crate::error::{Context, Hint, Result};
use nix::libc;

const STEP: &str = "seccomp";
const NO_FILTERS: &str = "the kernel must have filters of system calls (CONFIG_SECCOMP_FILTER), and whatever filter the launcher is \
    under must let seccomp(2) through";

/// For a jail that can write files of the host, and for one that can write none.
static HOST: &[Instruction] = include!(concat!(env!("OUT_DIR"), "/seccomp_host.rs"));
static PRIVATE: &[Instruction] = include!(concat!(env!("OUT_DIR"), "/seccomp_private.rs"));

/// Without a loopback there is nothing to say to the internet's families, so they are refused like all others.
#[rustfmt::skip]
const UNIX_SOCKETS_ONLY: [Instruction; 6] = [
    // Codes of linux/bpf_common.h, offsets and actions of linux/seccomp.h. The architecture was checked by the filter.
    (0x20, 0, 0, 0),                                       // load the number of the call
    (0x15, 0, 3, libc::SYS_socket as u32),                 // anything but socket(2) is allowed
    (0x20, 0, 0, 16),                                      // load the lower half of its first argument
    (0x15, 1, 0, libc::AF_UNIX as u32),
    (0x06, 0, 0, 0x0005_0000 | libc::EAFNOSUPPORT as u32), // SECCOMP_RET_ERRNO
    (0x06, 0, 0, 0x7fff_0000),                             // SECCOMP_RET_ALLOW
];

/// Loads the filter; it cannot be taken off again.
pub(crate) fn load(loopback: bool, writes_host_files: bool) -> Result<()> {
    if Layer::Filter.is_off() {
        return Ok(());
    }
    let filter = if writes_host_files { HOST } else { PRIVATE };
    sys::load_seccomp_filter(filter).context(STEP, "load the filter").hint(NO_FILTERS)?;
    if loopback {
        return Ok(());
    }
    sys::load_seccomp_filter(&UNIX_SOCKETS_ONLY).context(STEP, "load the filter for a jail without loopback")
}

/// What stands in for namespaces: in every jail without them, and in one that has no network.
#[cfg(without_namespaces)]
mod without_namespaces {
    use super::Instruction;
    pub(super) static ALL: &[Instruction] = include!(concat!(env!("OUT_DIR"), "/seccomp_shared.rs"));
    pub(super) static OFFLINE: &[Instruction] = include!(concat!(env!("OUT_DIR"), "/seccomp_offline.rs"));
    pub(super) static EMPTYING: &[Instruction] = include!(concat!(env!("OUT_DIR"), "/seccomp_emptying.rs"));
}

/// What a jail without namespaces needs more.
#[cfg(without_namespaces)]
pub(crate) struct More {
    /// There is no network.
    pub(crate) offline: bool,
    /// Landlock does not know yet how to forbid that files are emptied.
    pub(crate) emptying: bool,
}

/// Loads the filters of a jail without namespaces, several: of their answers the strictest counts.
#[cfg(without_namespaces)]
pub(crate) fn load_without_namespaces(more: &More) -> Result<()> {
    let filters = [
        Some(HOST),
        Some(without_namespaces::ALL),
        more.offline.then_some(without_namespaces::OFFLINE),
        more.emptying.then_some(without_namespaces::EMPTYING),
    ];
    for filter in filters.into_iter().flatten() {
        sys::load_seccomp_filter(filter).context(STEP, "load a filter").hint(NO_FILTERS)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same rules as seccompiler compiles them: one program for each errno, of which the last one's answer counts.
    static HOST_REFERENCE: Reference = include!(concat!(env!("OUT_DIR"), "/seccomp_host_reference.rs"));
    static PRIVATE_REFERENCE: Reference = include!(concat!(env!("OUT_DIR"), "/seccomp_private_reference.rs"));
    type Reference = &'static [&'static [Instruction]];
    static BOTH: [(&[Instruction], Reference); 2] = [(HOST, HOST_REFERENCE), (PRIVATE, PRIVATE_REFERENCE)];
    #[cfg(without_namespaces)]
    static MORE: [(&[Instruction], Reference); 3] = [
        (without_namespaces::ALL, include!(concat!(env!("OUT_DIR"), "/seccomp_shared_reference.rs"))),
        (without_namespaces::OFFLINE, include!(concat!(env!("OUT_DIR"), "/seccomp_offline_reference.rs"))),
        (without_namespaces::EMPTYING, include!(concat!(env!("OUT_DIR"), "/seccomp_emptying_reference.rs"))),
    ];
    #[cfg(not(without_namespaces))]
    static MORE: [(&[Instruction], Reference); 0] = [];

    fn all() -> impl Iterator<Item = &'static (&'static [Instruction], Reference)> {
        BOTH.iter().chain(&MORE)
    }

    const ALLOW: u32 = 0x7fff_0000;
    const KILL: u32 = 0x8000_0000;
    const ENOSYS: u32 = 0x0005_0000 | 38;
    /// Offset of the architecture in `struct seccomp_data`, and this machine's.
    #[cfg(target_arch = "x86_64")]
    const ARCHITECTURE: u32 = 0xc000_003e;
    #[cfg(target_arch = "aarch64")]
    const ARCHITECTURE: u32 = 0xc000_00b7;

    /// Runs a program of the instructions that filters are made of, see bpf(4) and linux/bpf_common.h.
    fn run(program: &[Instruction], data: &[u32; 16]) -> u32 {
        run_and(program, data, |_| ())
    }

    fn looks_at_arguments(program: &[Instruction], data: &[u32; 16]) -> bool {
        let mut looks = false;
        run_and(program, data, |word| looks |= word >= 4);
        looks
    }

    /// `load` is told each word that is loaded.
    fn run_and(program: &[Instruction], data: &[u32; 16], mut load: impl FnMut(usize)) -> u32 {
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let (code, yes, no, k) = program[at];
            let jump = |holds: bool| usize::from(if holds { yes } else { no });
            at += 1;
            match code {
                0x20 => {
                    load(k as usize / 4);
                    accumulator = data[k as usize / 4];
                }
                0x54 => accumulator &= k,
                0x05 => at += k as usize,
                0x15 => at += jump(accumulator == k),
                0x25 => at += jump(accumulator > k),
                0x35 => at += jump(accumulator >= k),
                0x45 => at += jump(accumulator & k != 0),
                0x06 => return k,
                _ => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    /// `struct seccomp_data`: number, architecture, instruction pointer, six arguments.
    fn data(number: u32, architecture: u32, arguments: [u64; 6]) -> [u32; 16] {
        let mut data = [0; 16];
        (data[0], data[1]) = (number, architecture);
        for (at, argument) in arguments.into_iter().enumerate() {
            (data[4 + 2 * at], data[5 + 2 * at]) = (argument as u32, (argument >> 32) as u32);
        }
        data
    }

    fn answer(reference: Reference, data: &[u32; 16]) -> u32 {
        let answers = reference.iter().rev().map(|program| run(program, data));
        answers.into_iter().find(|&answer| answer != ALLOW).unwrap_or(ALLOW)
    }

    /// Every operand of the rules, and its neighbours: where a mistake would show.
    fn interesting() -> Vec<u64> {
        let programs = all().flat_map(|(_, reference)| reference.iter());
        let operands = programs.flat_map(|program| program.iter()).map(|&(_, _, _, k)| u64::from(k));
        let mut values: Vec<u64> =
            operands.flat_map(|k| [k, k.wrapping_sub(1), k + 1, k | 1 << 32]).collect();
        values.extend([0, u64::MAX, 1 << 32, 1 << 63, 0o7777, 0o6000 | 0o100_000]);
        values.sort_unstable();
        values.dedup();
        values
    }

    #[test]
    fn every_call_is_answered_as_by_the_reference() {
        let values = interesting();
        for number in 0..=462 {
            // Where neither looks at arguments one answer is all answers.
            let plain = data(number, ARCHITECTURE, [0; 6]);
            let looks = all().any(|(filter, reference)| {
                [*filter].iter().chain(*reference).any(|program| looks_at_arguments(program, &plain))
            });
            let values = if looks { &values[..] } else { &[0] };
            for (&value, other, at) in values.iter().flat_map(|value| {
                [0, u64::MAX, 0o6100]
                    .into_iter()
                    .flat_map(move |other| (0..4).map(move |at| (value, other, at)))
            }) {
                let mut arguments = [other; 6];
                arguments[at] = value;
                let data = data(number, ARCHITECTURE, arguments);
                for (filter, reference) in all() {
                    assert_eq!(
                        run(filter, &data),
                        answer(reference, &data),
                        "call {number} with {arguments:x?}"
                    );
                }
            }
        }
    }

    #[test]
    fn foreign_entries_and_unknown_numbers_get_nowhere() {
        // int 0x80, 32-bit ARM, and the other 64-bit one.
        for architecture in [0x4000_0003, 0x4000_0028, 0] {
            let data = data(1, architecture, [0; 6]);
            assert!(all().all(|(filter, _)| run(filter, &data) == KILL));
        }
        for number in [463, 0x4000_0000, 0x4000_0000 | 59, u32::MAX] {
            let data = data(number, ARCHITECTURE, [0; 6]);
            assert!(all().all(|(filter, _)| run(filter, &data) == ENOSYS));
        }
    }

    #[test]
    fn the_group_bit_is_refused_where_the_host_would_keep_it() {
        let create = [libc::AT_FDCWD as u64, 0, libc::O_CREAT as u64, 0o2755, 0, 0];
        let data = data(libc::SYS_openat as u32, ARCHITECTURE, create);
        assert_eq!([HOST, PRIVATE].map(|filter| run(filter, &data)), [0x0005_0000 | 1, ALLOW]);
    }

    #[test]
    fn without_a_loopback_only_unix_sockets_are_left() {
        let answer = |number: i64, family: u64| {
            let arguments = [family, 1, 0, 0, 0, 0];
            run(&UNIX_SOCKETS_ONLY, &data(number as u32, ARCHITECTURE, arguments))
        };
        let refused = 0x0005_0000 | libc::EAFNOSUPPORT as u32;
        let high_bits = 1 << 32 | libc::AF_INET as u64;
        assert_eq!(answer(libc::SYS_socket, libc::AF_UNIX as u64), ALLOW);
        for family in [libc::AF_INET as u64, libc::AF_INET6 as u64, high_bits] {
            assert_eq!(answer(libc::SYS_socket, family), refused);
            assert_eq!(answer(libc::SYS_socketpair, family), ALLOW);
        }
    }

    proptest! {
        #[test]
        fn any_arguments_are_answered_as_by_the_reference(
            number in 0_u32..=462, arguments in any::<[u64; 6]>(),
        ) {
            let data = data(number, ARCHITECTURE, arguments);
            for (filter, reference) in all() {
                prop_assert_eq!(run(filter, &data), answer(reference, &data));
            }
        }

        #[test]
        fn combined_values_are_answered_as_by_the_reference(
            number in 0_u32..=462, picks in any::<[prop::sample::Index; 6]>(),
        ) {
            let values = interesting();
            let data = data(number, ARCHITECTURE, picks.map(|pick| values[pick.index(values.len())]));
            for (filter, reference) in all() {
                prop_assert_eq!(run(filter, &data), answer(reference, &data));
            }
        }
    }
}
