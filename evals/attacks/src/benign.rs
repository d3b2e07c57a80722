//! What ordinary code of an agent needs. A launcher that contains by breaking everything shows here.

use crate::launcher::Launcher;
use crate::perform::finish;
use crate::scene::Scene;
use serde::Serialize;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;

/// One thing that should work.
#[derive(Debug)]
pub struct Task {
    /// Unique in the list, of lower-case words.
    pub name: &'static str,
    /// A program that it needs beside a shell and the usual tools.
    pub needs: Option<&'static str>,
    /// For `sh -e`, in the granted directory; it prints `worked` as its last line if all went well.
    script: &'static str,
}

/// Whether it works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// As it does without a sandbox.
    Works,
    /// Not as it does without one: what was said instead.
    Broken(String),
    /// It does not work without a sandbox either: why.
    CannotTell(String),
}

const fn task(name: &'static str, needs: Option<&'static str>, script: &'static str) -> Task {
    Task { name, needs, script }
}

const PYTHON: Option<&str> = Some("python3");
const GIT: Option<&str> = Some("git");

/// The list.
pub const BENIGN: &[Task] = &[
    task("files", None, "mkdir -p a/b; echo text >a/b/c; mv a/b/c a/d; [ \"$(cat a/d)\" = text ]; rm -r a"),
    task("links", None, "echo x >f; ln -s f l; ln f h; [ \"$(readlink l)\" = f ] && [ f -ef h ]"),
    task(
        "modes_and_times",
        None,
        "echo x >f; chmod 750 f; touch -d 2001-02-03 f; [ \"$(stat -c %a f)\" = 750 ]",
    ),
    task(
        "a_program_of_its_own",
        None,
        "printf '#!/bin/sh\\necho made' >p; chmod +x p; [ \"$(./p)\" = made ]",
    ),
    task("temporary_files", None, "f=$(mktemp); echo x >$f; [ -s $f ]; rm $f"),
    task("a_home", None, "cd; echo x >.file; [ -s .file ]; rm .file"),
    task("pipes", None, "[ \"$(seq 1000 | sort -rn | head -n 1)\" = 1000 ]"),
    task("here_documents", None, "[ \"$(cat <<END\nline\nEND\n)\" = line ]"),
    task("background_jobs", None, "(exit 3) & r=0; wait $! || r=$?; [ $r = 3 ]"),
    task("fifos", None, "mkfifo p; echo x >p & [ \"$(cat p)\" = x ]"),
    task("sparse_files", None, "truncate -s 1M s; [ \"$(stat -c %s s)\" = 1048576 ]"),
    task("archives", None, "mkdir d; echo x >d/f; tar cf t.tar d; rm -r d; tar xf t.tar; [ -s d/f ]"),
    task("copies", None, "mkdir c; echo x >c/f; cp -a c e; cmp c/f e/f"),
    task("a_large_sort", None, "seq 100000 | sort -R | sort -n | tail -n 1 | grep -qx 100000"),
    task(
        "devices",
        None,
        "echo x >/dev/null; head -c 9 /dev/urandom | wc -c | grep -qx 9; head -c 4 /dev/zero >/dev/null",
    ),
    task("who_am_i", None, "id -un >/dev/null; [ \"$(id -u)\" -ge 0 ]"),
    task(
        "processes_of_its_own",
        None,
        "[ -d /proc/self ]; sleep 30 & kill $!; wait $! || true; nproc >/dev/null",
    ),
    task("tables_of_processes", Some("ps"), "ps ax >/dev/null; free >/dev/null"),
    task("certificates", None, "[ ! -d /etc/ssl/certs ] || ls /etc/ssl/certs >/dev/null"),
    task("the_time_zone", None, "date +%Z >/dev/null"),
    task("python", PYTHON, "[ \"$(python3 -c 'print(6*7)')\" = 42 ]"),
    task(
        "python_threads",
        PYTHON,
        "python3 -c 'import threading as t\nx=[t.Thread(target=print) for _ in range(9)]\n[y.start() for y in x]; [y.join() for y in x]' >/dev/null",
    ),
    task(
        "python_subprocesses",
        PYTHON,
        "python3 -c 'import subprocess as s; assert s.check_output([\"echo\",\"x\"]) == b\"x\\n\"'",
    ),
    task(
        "python_multiprocessing",
        PYTHON,
        "cat >m.py <<'END'\nimport multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n    with m.Pool(2) as p: assert p.map(f, [1, 2]) == [1, 4]\nEND\npython3 m.py",
    ),
    task(
        "python_sqlite",
        PYTHON,
        "python3 -c 'import sqlite3 as s; c=s.connect(\"d.db\"); c.execute(\"pragma journal_mode=wal\"); c.execute(\"create table t(x)\"); c.commit()'",
    ),
    task("python_asyncio", PYTHON, "python3 -c 'import asyncio; asyncio.run(asyncio.sleep(0))'"),
    task("python_tls", PYTHON, "python3 -c 'import ssl; ssl.create_default_context()'"),
    task(
        "a_server_of_its_own",
        PYTHON,
        "python3 -c 'import socket as s; a=s.create_server((\"127.0.0.1\",0)); b=s.create_connection(a.getsockname()); a.accept()[0].sendall(b\"x\"); assert b.recv(1)==b\"x\"'",
    ),
    task(
        "file_locks",
        PYTHON,
        "python3 -c 'import fcntl; f=open(\"l\",\"w\"); fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX)'",
    ),
    task(
        "git_commits",
        GIT,
        "git init -q r; cd r; git config user.name x; git config user.email x@x; echo x >f; git add f; git commit -qm x; git log --oneline | grep -q x",
    ),
    task(
        "a_compiler",
        Some("cc"),
        "echo 'int main(){return 7;}' >m.c; cc m.c -o m; r=0; ./m || r=$?; [ $r = 7 ]",
    ),
    task("make", Some("make"), "printf 'a:\\n\\techo made >a\\n' >Makefile; make -s; [ -s a ]"),
    task("node", Some("node"), "[ \"$(node -e 'console.log(6*7)')\" = 42 ]"),
    task("bash_process_substitution", Some("bash"), "bash -c '[ \"$(cat <(echo x))\" = x ]'"),
];

/// Tries one, first without any sandbox.
pub fn try_benign(task: &Task, launcher: &Launcher, base: &Path) -> Use {
    let result = try_by(task, &Launcher::Bare, base).and_then(|outside| match outside {
        Some(said) => Ok(Use::CannotTell(said)),
        None => Ok(try_by(task, launcher, base)?.map_or(Use::Works, Use::Broken)),
    });
    result.unwrap_or_else(|error| Use::Broken(error.to_string()))
}

/// What was said if it did not work.
fn try_by(task: &Task, launcher: &Launcher, base: &Path) -> io::Result<Option<String>> {
    let scene = Scene::new(base)?;
    let needs = task
        .needs
        .map(|program| format!("command -v {program} >/dev/null || {{ echo no {program} >&2; exit 1; }}\n"));
    let script = format!("{}{}\necho worked", needs.unwrap_or_default(), task.script);
    let argv = ["sh".into(), "-ec".into(), OsString::from(script), scene.marker().to_owned()];
    let mut command = launcher.command(&scene, "", &argv);
    command.process_group(0);
    let run = finish(command, &scene, || ())?;
    let worked = run.status.success() && run.stdout.ends_with(b"worked\n");
    Ok((!worked).then(|| run.says()))
}
