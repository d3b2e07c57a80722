//! What a run leaves for programs of the host.

use crate::nr;
use crate::sys::{self, HERE, call};
use crate::{Named, Outcome};
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

pub const ATTACKS: &[Named] = &[
    ("plant_by_fchmod", plant_by_fchmod),
    ("plant_by_fchmodat2", plant_by_fchmodat2),
    ("plant_by_open", plant_by_open),
    ("plant_by_openat2", plant_by_openat2),
    ("plant_by_mknod", plant_by_mknod),
    ("plant_by_unnamed_file", plant_by_unnamed_file),
    ("plant_by_uring", plant_by_uring),
    ("plant_device", plant_device),
    ("plant_program", plant_program),
    ("plant_repository", plant_repository),
    ("plant_bare_repository", plant_bare_repository),
    ("plant_way_to_repository", plant_way_to_repository),
    ("plant_common_directory", plant_common_directory),
    ("replace_by_link", replace_by_link),
];

/// Whoever runs the file has the rights of its owner.
const SET_USER_ID: usize = 0o4755;
/// The same for the group: whoever may not give the one might forget the other.
const SET_GROUP_ID: usize = 0o2755;

fn plant_by_fchmod(arguments: &[OsString]) -> Outcome {
    File::create(&arguments[0])?.set_permissions(Permissions::from_mode(SET_USER_ID as u32))
}

fn plant_by_fchmodat2(arguments: &[OsString]) -> Outcome {
    File::create(&arguments[0])?;
    let path = sys::path(&arguments[0]);
    call(nr::FCHMODAT2, [HERE, path.as_ptr() as usize, SET_GROUP_ID, 0, 0, 0]).map(drop)
}

fn plant_by_open(arguments: &[OsString]) -> Outcome {
    let path = sys::path(&arguments[0]);
    let flags = sys::O_CREAT | sys::O_WRONLY;
    call(nr::OPENAT, [HERE, path.as_ptr() as usize, flags, SET_USER_ID, 0, 0]).map(drop)
}

/// The mode is in memory, where no filter of calls looks.
fn plant_by_openat2(arguments: &[OsString]) -> Outcome {
    let path = sys::path(&arguments[0]);
    let how = [(sys::O_CREAT | sys::O_WRONLY) as u64, SET_USER_ID as u64, 0];
    call(nr::OPENAT2, [HERE, path.as_ptr() as usize, how.as_ptr() as usize, 24, 0, 0]).map(drop)
}

fn plant_by_mknod(arguments: &[OsString]) -> Outcome {
    const REGULAR: usize = 0o100_000;
    let path = sys::path(&arguments[0]);
    call(nr::MKNODAT, [HERE, path.as_ptr() as usize, REGULAR | SET_USER_ID, 0, 0, 0]).map(drop)
}

/// The file of the first argument begins without a name, in the directory of the second.
fn plant_by_unnamed_file(arguments: &[OsString]) -> Outcome {
    const FOLLOW: usize = 0x400;
    #[cfg(target_arch = "x86_64")]
    const O_DIRECTORY: usize = 0o200_000;
    #[cfg(target_arch = "aarch64")]
    const O_DIRECTORY: usize = 0o40_000;
    const O_TMPFILE: usize = 0o20_000_000 | O_DIRECTORY;
    let [path, directory] = [0, 1].map(|at| sys::path(&arguments[at]));
    let flags = O_TMPFILE | sys::O_WRONLY;
    let file = sys::file(call(nr::OPENAT, [HERE, directory.as_ptr() as usize, flags, SET_USER_ID, 0, 0])?);
    let source = sys::path(format!("/proc/self/fd/{}", file.as_raw_fd()));
    call(nr::LINKAT, [HERE, source.as_ptr() as usize, HERE, path.as_ptr() as usize, FOLLOW, 0]).map(drop)
}

fn plant_by_uring(arguments: &[OsString]) -> Outcome {
    sys::uring_open(&arguments[0], sys::O_CREAT | sys::O_WRONLY, SET_USER_ID).map(drop)
}

/// Makes a block device of the disk that the directory of the second argument is on. Nothing opens it.
fn plant_device(arguments: &[OsString]) -> Outcome {
    const BLOCK: usize = 0o060_000;
    let path = sys::path(&arguments[0]);
    let disk = fs::metadata(&arguments[1])?.dev() as usize;
    call(nr::MKNODAT, [HERE, path.as_ptr() as usize, BLOCK | 0o600, disk, 0, 0]).map(drop)
}

/// Makes an executable of the second argument's text.
fn plant_program(arguments: &[OsString]) -> Outcome {
    let path = Path::new(&arguments[0]);
    fs::create_dir_all(path.parent().expect("a file in a directory"))?;
    let mut file = File::create(path)?;
    file.write_all(arguments[1].as_encoded_bytes())?;
    file.set_permissions(Permissions::from_mode(0o755))
}

/// What git knows a repository by.
fn plant_store(repository: &Path) -> Outcome {
    for part in ["objects", "refs/heads"] {
        fs::create_dir_all(repository.join(part))?;
    }
    fs::write(repository.join("HEAD"), "ref: refs/heads/main\n")
}

/// Makes a repository in the directory of the first argument, with the second's text as what is to be run.
fn plant_repository(arguments: &[OsString]) -> Outcome {
    let repository = Path::new(&arguments[0]).join(".git");
    plant_store(&repository)?;
    let hook = repository.join("hooks/pre-commit");
    plant_program(&[hook.into_os_string(), arguments[1].clone()])
}

/// Moves the file or directory of the first argument aside, and puts a link to the second in its place.
fn replace_by_link(arguments: &[OsString]) -> Outcome {
    let mut aside = arguments[0].clone();
    aside.push(".aside");
    fs::rename(&arguments[0], aside)?;
    symlink(&arguments[1], &arguments[0])
}

/// Makes a second repository beside that of the first argument's directory, which git then takes its hooks from.
fn plant_common_directory(arguments: &[OsString]) -> Outcome {
    let directory = Path::new(&arguments[0]);
    plant_repository(&[directory.join("common").into_os_string(), arguments[1].clone()])?;
    fs::write(directory.join(".git/commondir"), "../common/.git\n")
}

/// Makes the directory of the first argument a repository itself, with the second's text as its settings.
fn plant_bare_repository(arguments: &[OsString]) -> Outcome {
    let directory = Path::new(&arguments[0]);
    plant_store(directory)?;
    fs::write(directory.join("config"), arguments[1].as_encoded_bytes())
}

/// Makes a repository beside the directory of the first argument, and a file there that leads to it.
fn plant_way_to_repository(arguments: &[OsString]) -> Outcome {
    let directory = Path::new(&arguments[0]);
    fs::create_dir(directory)?;
    let beside = directory.with_file_name("beside").into_os_string();
    plant_repository(&[beside, arguments[1].clone()])?;
    fs::write(directory.join(".git"), "gitdir: ../beside/.git\n")
}
