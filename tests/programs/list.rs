//! The programs, and what each is made to do.

/// A program, or one side of it.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) does: &'static str,
    /// Shell commands that print its version, and fail where it is not installed.
    pub(crate) version: &'static str,
    pub(crate) work: Work,
}

/// How it is started.
pub(crate) enum Work {
    /// An interpreter with a file, by name and content. The last line of its output is what goes into the table.
    Script(&'static str, &'static str, &'static str),
    /// A file for the Python of a virtual environment that is made in the launcher's home, which the jail hides.
    Venv(&'static str, &'static str),
    /// Cargo from wherever it is installed, on a package in the work dir.
    Cargo,
}

macro_rules! script {
    ($interpreter:literal, $file:literal) => {
        Work::Script($interpreter, $file, include_str!($file))
    };
}

const fn program(name: &'static str, does: &'static str, version: &'static str, work: Work) -> Program {
    Program { name, does, version, work }
}

const PYTHON: &str = "python3 --version";

pub(crate) const PROGRAMS: &[Program] = &[
    program("CPython", "200 threads at the same time", PYTHON, script!("python3", "threads.py")),
    program(
        "CPython",
        "`subprocess`: pipes, shells, signals, timeouts",
        PYTHON,
        script!("python3", "children.py"),
    ),
    program(
        "CPython",
        "`multiprocessing`: fork, spawn, forkserver; pools, queues, shared values, managers",
        PYTHON,
        script!("python3", "pools.py"),
    ),
    program("CPython", "shared memory and mapped files", PYTHON, script!("python3", "shared_memory.py")),
    program(
        "SQLite",
        "write-ahead log: readers beside a writer, eight writers, checkpoint",
        "python3 -c 'import sqlite3; print(sqlite3.sqlite_version)'",
        script!("python3", "sqlite.py"),
    ),
    program(
        "OpenSSL",
        "a key, a certificate, and TLS over the jail's own loopback",
        "python3 --version >/dev/null && openssl version | cut -d ' ' -f 1-2",
        script!("python3", "tls.py"),
    ),
    program(
        "CPython",
        "`asyncio`: 100 connections, a unix socket, children, worker threads",
        PYTHON,
        script!("python3", "asyncio_many.py"),
    ),
    program("CPython", "an HTTP server of its own", PYTHON, script!("python3", "http_server.py")),
    program(
        "NumPy",
        "linear algebra and a mapped array",
        "python3 -c 'import numpy; print(numpy.__version__)'",
        script!("python3", "numpy_solve.py"),
    ),
    program(
        "CPython",
        "a virtual environment under a home that is hidden otherwise",
        "python3 -m venv --help >/dev/null && python3 --version",
        Work::Venv("venv.py", include_str!("venv.py")),
    ),
    program(
        "Node.js",
        "8 worker threads, a child, an HTTP server, `os.cpus()`",
        "node --version",
        script!("node", "workers.js"),
    ),
    program(
        "npm",
        "install a local package offline, and use it",
        "node --version >/dev/null && npm --version",
        script!("sh", "node_modules.sh"),
    ),
    program(
        "Java",
        "compile and run: 16 threads, a socket, a child",
        "javac -version 2>&1",
        script!("java", "Threads.java"),
    ),
    program(
        "Git",
        "init, commit, branch, linked worktree, merge, gc, clone",
        "git --version",
        script!("sh", "git.sh"),
    ),
    program(
        "GCC",
        "compile with link-time optimisation, run",
        "echo gcc $(gcc -dumpfullversion)",
        script!("sh", "gcc.sh"),
    ),
    program("make", "40 targets, 8 jobs", "make --version | head -1", script!("sh", "make.sh")),
    program("Cargo", "build and run a small crate offline", "cargo --version", Work::Cargo),
    program(
        "bash",
        "here-documents, process substitution, job control, coprocesses",
        "bash -c 'echo $BASH_VERSION'",
        script!("bash", "bash.sh"),
    ),
    program(
        "tar, cp",
        "trees with links, FIFOs, times and modes, in a setgid directory",
        "tar --version | head -1",
        script!("sh", "files.sh"),
    ),
    program(
        "sort, xargs",
        "300,000 lines in 1 MiB of memory",
        "sort --version | head -1",
        script!("sh", "sort.sh"),
    ),
    program("mkfifo", "two processes and a FIFO", "mkfifo --version | head -1", script!("sh", "mkfifo.sh")),
    program(
        "truncate, dd, cp",
        "a sparse file of 4 GiB",
        "truncate --version | head -1",
        script!("sh", "sparse.sh"),
    ),
    program("Perl", "fork, pipe, wait", "perl -e 'print \"$^V\\n\"'", script!("perl", "perl.pl")),
    program(
        "vim",
        "edit a file by script",
        "vim --version | head -1 | cut -d '(' -f 1",
        script!("sh", "vim.sh"),
    ),
    program(
        "ssh-keygen",
        "a key, for which it asks who the user is",
        "command -v ssh-keygen >/dev/null && ssh -V 2>&1 | cut -d , -f 1",
        script!("sh", "ssh_keygen.sh"),
    ),
    program(
        "ps, free, top",
        "look at the jail's own processes and the memory",
        "ps --version",
        script!("sh", "procps.sh"),
    ),
    program(
        "curl",
        "ask for a page where there is no network",
        "curl --version | head -1 | cut -d ' ' -f 1-2",
        script!("sh", "curl.sh"),
    ),
    program("strace", "trace a command", "strace --version | head -1", script!("sh", "tracers.sh")),
    program("unshare", "make a user namespace", "unshare --version", script!("sh", "unshare.sh")),
];
