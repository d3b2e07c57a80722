//! The Linux part of [`crate::fuzzing`].

use super::mount_table::MountTable;
use super::program::{self, AnyInterpreter};
use super::{git, proc_files, shared, sockets, usage};
use std::path::{Path, PathBuf};

/// A repository's `config`.
pub fn git_settings(text: &[u8]) {
    let found = git::read_settings(text);
    let values = found.hooks.iter().chain(&found.included).chain(&found.trees);
    assert!(values.map(Vec::len).sum::<usize>() <= text.len());
}

/// A repository's `index`, with either kind of hash.
pub fn git_index(index: &[u8]) {
    for long in [false, true] {
        if git::check_index(index, long).is_some() {
            assert!(index.starts_with(b"DIRC"));
        }
    }
}

/// What says which program is meant: the first line of a script, `pyvenv.cfg`, files of version managers.
pub fn programs(text: &[u8]) {
    if let Some(AnyInterpreter::At(path) | AnyInterpreter::Named { env: path, .. }) =
        program::parse_script(text)
    {
        assert!(path.is_absolute());
    }
    if let Some(home) = program::home_in(text) {
        assert!(home.starts_with(b"/") && !home.contains(&b'\n'));
    }
    for (tool, version) in text.split(|byte| *byte == b'\n').filter_map(program::tool_in) {
        assert!(!tool.is_empty() && !version.is_empty());
    }
    if let Ok(text) = std::str::from_utf8(text) {
        let chosen = program::toolchain_in(text, Some(Path::new("/srv/a")));
        assert!(chosen.is_none_or(|name| !name.contains(&b'\n')));
    }
}

/// What the kernel says, in which names that a jail chose stand as they are.
pub fn kernel_files(bytes: &[u8]) {
    let mounts = MountTable(bytes.to_vec());
    assert!(mounts.of_processes().count() <= bytes.len());
    let place = [PathBuf::from("/srv")];
    assert!(mounts.other_names(&place).iter().all(|name| !name.starts_with("/srv")));
    let text = String::from_utf8_lossy(bytes);
    let _ = (usage::parse_stat(&text), proc_files::status_field(&text, "VmRSS").map(usage::parse_kilobytes));
    assert!(shared::parse(&text).count() <= text.len());
    drop(sockets::take_messages(bytes, &mut |answer: &[u8]| {
        assert!(sockets::unix_memory(answer, 1 << 20) > 0 && sockets::inet_memory(answer) > 0);
    }));
}
