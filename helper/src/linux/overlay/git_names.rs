//! Names by which git, run on the host later, would execute what the jail wrote. A commit leaves them out.

/// Directly in a git directory: programs and configuration, what says that they are elsewhere or whom git talks to,
/// commands of an interrupted rebase, and further git directories.
const IN_GIT_DIRECTORY: [&[u8]; 10] = [
    b"hooks",
    b"config",
    b"config.worktree",
    b"commondir",
    b"gitdir",
    b"remotes",
    b"branches",
    b"rebase-merge",
    b"modules",
    b"worktrees",
];

/// Git looks for `.git`, and a file system that ignores case finds others by that name.
pub(super) fn is_git_directory(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

/// Whether a changed name has to stay out.
///
/// `path` is the name with what leads to it: from the git directory that holds it, or else from anywhere. `merged`
/// means that it is a directory before and after.
pub(super) fn is_host_executed(path: &[u8], in_git_directory: bool, merged: bool) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    if is_git_directory(name) {
        return !merged;
    }
    let first = path.split(|&byte| byte == b'/').next().unwrap_or(path);
    if in_git_directory && IN_GIT_DIRECTORY.iter().any(|known| first.eq_ignore_ascii_case(known)) {
        return true;
    }
    // Any directory with a `HEAD` can be a repository of its own, with a configuration beside it.
    let has_heads = in_git_directory && (path == name || first == b"logs" || first == b"refs");
    name.eq_ignore_ascii_case(b"HEAD") && !has_heads
}

#[cfg(test)]
mod tests {
    use super::is_host_executed;

    #[test]
    fn new_git_directories_and_repositories_stay_out() {
        for path in [".git", "a/.git", "a/.GIT", "HEAD", "a/b/HEAD", "a/head"] {
            assert!(is_host_executed(path.as_bytes(), false, false), "{path}");
        }
        for path in ["git", "a.git", ".gitignore", ".github", "HEADS", "config", "hooks", "a/config"] {
            assert!(!is_host_executed(path.as_bytes(), false, false), "{path}");
        }
        assert!(!is_host_executed(b"a/.git", false, true), "one that exists is looked into");
    }

    #[test]
    fn in_a_git_directory_commits_pass_and_programs_do_not() {
        for path in
            ["hooks", "hooks/pre-commit", "config", "Config", "config.worktree", "modules/x/config", "x/HEAD"]
        {
            assert!(is_host_executed(path.as_bytes(), true, false), "{path}");
        }
        for path in
            ["HEAD", "index", "objects/ab/cd", "refs/heads/config", "logs/HEAD", "refs/remotes/o/HEAD"]
        {
            assert!(!is_host_executed(path.as_bytes(), true, false), "{path}");
        }
        assert!(is_host_executed(b"hooks", true, true), "not even by way of a directory that exists");
    }
}
