//! What the supervisor tells an init that is another program: everything that one made by a mere fork would know.

use super::STEP;
use crate::error::{Context, Result};
use crate::linux::enclosed::Gap;
use crate::linux::message;
use crate::linux::program::Program;
use crate::linux::read_back::Namespaces;
use crate::linux::relay::Relays;
use crate::linux::task::Task;
use crate::linux::view::View;
use crate::validate::Plan;
use agentkit_protocol::{Bytes, Policy, Rule, VERSION, Watch, frame};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What to do. Comes with a file that holds it, since it may be long, and with the command's streams: output, error, and
/// input if there is one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Handover {
    /// Judged once more inside, by the same rules.
    pub(super) policy: Policy,
    program: Option<Executable>,
    directory: Bytes,
    spelling: Bytes,
    /// What must stand inside where it was judged outside: path, device and inode.
    shown: Vec<(Bytes, u64, u64)>,
    /// Where what of that is mounted that the command may write.
    writable: Vec<Bytes>,
    workdir: Option<Bytes>,
    pub(super) launcher: Namespaces,
    pub(super) memory_group: Option<u64>,
    pub(super) installations_as_on_host: bool,
    /// What keeps the view from being held.
    pub(super) gap: Gap,
}

/// A [`Program`] in words.
#[derive(Debug, Serialize, Deserialize)]
struct Executable {
    path: Bytes,
    argv: Vec<Bytes>,
    search_path: Bytes,
    cargo_home: Option<Bytes>,
}

impl Handover {
    pub(super) fn new(
        task: &Task,
        view: &View,
        launcher: Namespaces,
        gap: Gap,
        writable: &[PathBuf],
    ) -> Self {
        let sources = view.entries.iter().filter(|entry| entry.access.has_source());
        Handover {
            policy: policy(task.plan),
            program: task.program.map(|program| Executable {
                path: bytes(&program.path),
                argv: program.argv.iter().map(|word| Bytes::from(word.to_bytes())).collect(),
                search_path: bytes(&program.search_path),
                cargo_home: program.cargo_home.as_ref().map(bytes),
            }),
            directory: bytes(&task.directory),
            spelling: bytes(&task.spelling),
            writable: writable.iter().map(bytes).collect(),
            shown: sources.map(|it| (bytes(&it.path), it.identity().0, it.identity().1)).collect(),
            workdir: view.workdir.as_ref().map(bytes),
            launcher,
            memory_group: task.group.as_ref().map(|group| group.limit),
            installations_as_on_host: view.has_installations(),
            gap,
        }
    }

    /// Before there is an init.
    pub(super) fn send(&self, channel: BorrowedFd, relays: &Relays) -> Result<()> {
        let streams = relays.ends().context(STEP, "duplicate the command's streams")?;
        let write = || -> io::Result<File> {
            let mut file = File::from(memfd_create(c"handover", MFdFlags::MFD_CLOEXEC)?);
            file.write_all(&frame::encode(self).map_err(io::Error::other)?)?;
            file.rewind()?;
            Ok(file)
        };
        let file = write().context(STEP, "write down what init has to do")?;
        let descriptors: Vec<_> = [file.as_fd()].into_iter().chain(streams.iter().map(AsFd::as_fd)).collect();
        message::send(channel, &(), &descriptors).context(STEP, "tell init what to do")
    }

    /// By init, with the streams.
    pub(super) fn receive(channel: BorrowedFd) -> Result<(Self, Vec<OwnedFd>)> {
        let receive = || -> io::Result<_> {
            let gone = || io::Error::other("the supervisor is gone");
            let ((), descriptors) = message::receive(channel)?.ok_or_else(gone)?;
            let mut descriptors = descriptors.into_iter();
            let file = File::from(descriptors.next().ok_or_else(gone)?);
            let handover = frame::read(file).map_err(io::Error::other)?.ok_or_else(gone)?;
            Ok((handover, descriptors.collect()))
        };
        receive().context(STEP, "receive what to do")
    }

    /// Nothing in a probe.
    pub(super) fn program(&self) -> Result<Option<Program>> {
        let Some(told) = &self.program else { return Ok(None) };
        let argv = told.argv.iter().map(|word| CString::new(word.0.clone()));
        Ok(Some(Program {
            path: path(&told.path).to_path_buf(),
            argv: argv
                .collect::<std::result::Result<_, _>>()
                .map_err(io::Error::from)
                .context(STEP, "its arguments")?,
            grants: Vec::new(),
            search_path: OsString::from(path(&told.search_path)),
            cargo_home: told.cargo_home.as_ref().map(|home| path(home).to_path_buf()),
        }))
    }

    pub(super) fn directory(&self) -> &Path {
        path(&self.directory)
    }

    pub(super) fn spelling(&self) -> &Path {
        path(&self.spelling)
    }

    pub(super) fn workdir(&self) -> Option<&Path> {
        self.workdir.as_ref().map(path)
    }

    /// Path, device and inode of each.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&Path, (u64, u64))> {
        self.shown.iter().map(|(at, device, inode)| (path(at), (*device, *inode)))
    }

    pub(super) fn writable(&self) -> Vec<&Path> {
        self.writable.iter().map(path).collect()
    }
}

/// A policy that makes the same plan.
fn policy(plan: &Plan) -> Policy {
    let file = |(name, content): &(PathBuf, Vec<u8>)| {
        (name.to_string_lossy().into_owned(), Bytes::from(content.as_slice()))
    };
    let rule = |(path, access): &(PathBuf, _)| Rule { path: bytes(path), access: *access };
    Policy {
        version: VERSION,
        argv: plan.argv.iter().map(|word| Bytes::from(word.to_bytes())).collect(),
        env: plan.env.iter().cloned().collect(),
        workdir: plan.workdir.clone(),
        rules: plan.rules.iter().map(rule).collect(),
        proc: plan.proc,
        net: plan.net,
        git: plan.git,
        tty: plan.tty,
        files: plan.files.iter().map(file).collect(),
        limits: plan.limits.clone(),
        watch: Watch { forks: plan.watch_forks, ..Watch::default() },
        require: plan.require.clone(),
        mechanism: plan.mechanism,
    }
}

fn bytes(path: impl AsRef<OsStr>) -> Bytes {
    Bytes::from(path.as_ref().as_bytes())
}

fn path(bytes: &Bytes) -> &Path {
    Path::new(OsStr::from_bytes(&bytes.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate;
    use agentkit_protocol::{Access, Net, WorkDir};

    #[test]
    fn a_plan_goes_in_as_a_policy_and_comes_out_the_same() {
        let mut asked = Policy::new(["sh", "-c", "echo"]);
        asked.rules = vec![Rule { path: "/srv/a".into(), access: Access::Ro }];
        asked.env = [("A".to_owned(), "\u{e4}".into())].into();
        asked.files = [("x".to_owned(), "content".into())].into();
        (asked.net, asked.workdir, asked.watch.forks) = (Net::None, WorkDir::Bind("/srv".into()), true);
        let plan = validate::plan(asked.clone()).unwrap();
        assert_eq!(policy(&plan), asked);
        assert_eq!(format!("{:?}", validate::plan(policy(&plan)).unwrap()), format!("{plan:?}"));
    }
}
