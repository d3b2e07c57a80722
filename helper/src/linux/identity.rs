//! Step 4: who the jail is.
//!
//! An ordinary user's jail runs as that user. A root launcher's must not run as root even inside a user namespace: the
//! process limit does not bind a task whose uid is 0 outside, and `/proc/sys/kernel/core_pattern` stays writable for
//! it, which is code execution as root on the host. So root first becomes a user that nobody else is, and everything
//! after that is the launch of an ordinary user.

use super::layers::Layer;
use super::sys;
use crate::error::{Context, Hint, Result, failure};
use agentkit_protocol::FailureKind;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const STEP: &str = "identity";

/// The user and group inside: an ordinary one, so that neither uid 0's remaining privileges nor programs that behave
/// differently for root come into play.
pub(crate) const INNER_ID: u32 = 1000;

/// First of the uids that root's jails run as. systemd leaves 1879048192 to 2147483647 unused
/// (<https://systemd.io/UIDS-GIDS/>), distributions and container managers stay below.
const POOL_START: u32 = 1_900_000_000;
const POOL_SIZE: u32 = 4096;
/// Where the pool is not mapped (most containers have 65536 ids), the "nobody" of every distribution.
const NOBODY: u32 = 65534;

/// The user and group outside.
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    gives_up_root: bool,
    /// Holds the claim on `uid` until the last copy of the descriptor is gone: with supervisor and init.
    _claim: Option<UnixDatagram>,
}

impl Identity {
    /// The launcher's own identity, or for root one that no other jail has.
    pub(crate) fn choose() -> Result<Self> {
        let (uid, gid) = (Uid::effective().as_raw(), Gid::effective().as_raw());
        let own = Identity { uid, gid, gives_up_root: false, _claim: None };
        if uid != 0 || Layer::Identity.is_off() || Layer::UserNamespace.is_off() {
            return Ok(own);
        }
        let uids = IdMap::read("/proc/self/uid_map")?;
        let gids = IdMap::read("/proc/self/gid_map")?;
        let mapped = |id| uids.contains(id) && gids.contains(id);
        if mapped(POOL_START) && mapped(POOL_START + 2 * POOL_SIZE - 1) {
            claim_from_pool()
        } else if mapped(NOBODY) {
            Ok(Identity { uid: NOBODY, gid: NOBODY, gives_up_root: true, _claim: None })
        } else if uids.outer(0).is_some_and(|outer| outer != 0) {
            // Root of a user namespace with a single id is an ordinary user outside.
            Ok(own)
        } else {
            let message =
                "this root has no other uid to become: neither the pool nor 65534 is in /proc/self/uid_map";
            Err(failure(FailureKind::Host, STEP, message)).hint("start it as an ordinary user")
        }
    }

    /// Whether [`Identity::assume`] changes who this process is.
    pub(crate) fn gives_up_root(&self) -> bool {
        self.gives_up_root
    }

    /// Whether no other process is that user's, as far as jails know of each other.
    #[cfg(without_namespaces)]
    pub(crate) fn is_exclusive(&self) -> bool {
        self._claim.is_some()
    }

    /// Becomes that user for good, without supplementary groups; `closed` to its other processes, or not yet.
    pub(crate) fn assume(&self, closed: bool) -> Result<()> {
        if self.gives_up_root {
            let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
            let hint = "root without CAP_SETUID and CAP_SETGID: start it as an ordinary user";
            setgroups(&[]).map_err(io::Error::from).context(STEP, "setgroups to none").hint(hint)?;
            setresgid(gid, gid, gid)
                .map_err(io::Error::from)
                .context(STEP, format_args!("setresgid {gid}"))
                .hint(hint)?;
            setresuid(uid, uid, uid)
                .map_err(io::Error::from)
                .context(STEP, format_args!("setresuid {uid}"))
                .hint(hint)?;
        }
        // The change of identity, or an unreadable executable, gave /proc/self to root; the new process has to write
        // its id maps there. It takes this back as soon as that is done.
        nix::sys::prctl::set_dumpable(!closed).map_err(io::Error::from).context(STEP, "prctl PR_SET_DUMPABLE")
    }
}

/// One jail a uid: pipes, keys and watches are accounted by uid, and a signal from a jail that shares ours would count
/// as one from ourselves.
///
/// The claim comes first, so that of two launches that want the same uid only one comes to the question whether anybody
/// has it already. A claim is not all: it ends with supervisor and init, whom a command of `rlimits` can kill and go on,
/// and it is not seen from other network namespaces.
fn claim_from_pool() -> Result<Identity> {
    let start = std::process::id() % POOL_SIZE;
    for offset in (start..POOL_SIZE).chain(0..start) {
        let id = POOL_START.saturating_add(offset);
        // An abstract socket is a lock that the kernel drops with its last holder, and that leaves no file behind.
        let name = SocketAddr::from_abstract_name(format!("agentkit-jail/uid/{id}"))
            .context(STEP, "name a claim")?;
        match UnixDatagram::bind_addr(&name) {
            Ok(_) if sys::is_somebody(id) => {}
            Ok(claim) => return Ok(Identity { uid: id, gid: id, gives_up_root: true, _claim: Some(claim) }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).context(STEP, format_args!("claim uid {id}")),
        }
    }
    // Any user can take the names. That costs root's jails their exclusive uids, but must not stop them.
    let id = (POOL_START + POOL_SIZE).saturating_add(start);
    Ok(Identity { uid: id, gid: id, gives_up_root: true, _claim: None })
}

/// A map of a user namespace, see user_namespaces(7): lines of first id inside, first id outside, count.
struct IdMap(Vec<[u32; 3]>);

impl IdMap {
    fn read(path: &str) -> Result<Self> {
        let text = std::fs::read_to_string(path).context(STEP, format_args!("read {path}"))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok());
        IdMap(
            text.lines()
                .filter_map(|line| {
                    let mut words = line.split_whitespace();
                    Some([number(words.next())?, number(words.next())?, number(words.next())?])
                })
                .collect(),
        )
    }

    fn outer(&self, id: u32) -> Option<u32> {
        self.0.iter().find_map(|&[inside, outside, count]| {
            let offset = id.checked_sub(inside)?;
            if offset < count { outside.checked_add(offset) } else { None }
        })
    }

    fn contains(&self, id: u32) -> bool {
        self.outer(id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_maps_are_read_as_the_kernel_prints_them() {
        let whole = IdMap::parse("         0          0 4294967295\n");
        assert_eq!(whole.outer(0), Some(0));
        assert!(whole.contains(POOL_START + POOL_SIZE - 1));
        let container = IdMap::parse("0 100000 65536\n");
        assert_eq!(container.outer(NOBODY), Some(165_534));
        assert!(!container.contains(POOL_START));
        let single = IdMap::parse("0 1000 1\n");
        assert_eq!(single.outer(0), Some(1000));
        assert!(!single.contains(1));
        assert!(!IdMap::parse("").contains(0));
    }
}
