//! Homes with interpreters in them, and what a jail could have left behind.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const NONE: [PathBuf; 0] = [];

/// A home with installations in it, and a work dir, somewhere that is not a system directory.
struct Host {
    root: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
    asked: Vec<(String, Bytes)>,
}

impl Host {
    fn new() -> Self {
        let mut host = Host { root: tempfile::tempdir().unwrap(), variables: Vec::new(), asked: Vec::new() };
        fs::create_dir_all(host.path("work")).unwrap();
        for version in ["3.11.7", "3.12.0"] {
            host.python(&format!("home/.pyenv/versions/{version}"));
        }
        host.program("home/.pyenv/shims/python3");
        host.file("home/.pyenv/version", "3.11.7\n");
        host.virtual_environment("home/.v", "home/.pyenv/versions/3.12.0/bin");
        host.variables = vec![("HOME", host.text("home"))];
        host
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(below)
    }

    fn text(&self, below: &str) -> String {
        self.path(below).to_str().unwrap().to_owned()
    }

    fn file(&self, below: &str, content: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn script(&self, below: &str, content: &str) {
        self.file(below, content);
        fs::set_permissions(self.path(below), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn program(&self, below: &str) {
        self.script(below, "\x7fELF");
    }

    fn link(&self, below: &str, target: impl AsRef<Path>) {
        fs::create_dir_all(self.path(below).parent().unwrap()).unwrap();
        symlink(target, self.path(below)).unwrap();
    }

    fn python(&self, prefix: &str) {
        self.program(&format!("{prefix}/bin/python3"));
        self.file(&format!("{prefix}/lib/python3.11/os.py"), "");
    }

    fn node(&self, prefix: &str) {
        self.program(&format!("{prefix}/bin/node"));
        self.script(&format!("{prefix}/lib/node_modules/npm/bin/npm-cli.js"), "#!/usr/bin/env node\n");
        self.link(&format!("{prefix}/bin/npm"), "../lib/node_modules/npm/bin/npm-cli.js");
    }

    fn rust(&self, toolchain: &str) {
        for name in ["cargo", "rustc"] {
            self.program(&format!("home/.rustup/toolchains/{toolchain}/bin/{name}"));
        }
        for file in ["etc/completion", "lib/rustlib/components"] {
            self.file(&format!("home/.rustup/toolchains/{toolchain}/{file}"), "");
        }
    }

    /// rustup with two toolchains, and cargo's secrets beside what it has downloaded.
    fn rustup(&self) {
        self.program("home/.cargo/bin/rustup");
        self.link("home/.cargo/bin/cargo", "rustup");
        fs::hard_link(self.path("home/.cargo/bin/rustup"), self.path("home/.cargo/bin/rustc")).unwrap();
        self.program("home/.cargo/bin/cargo-other");
        for name in ["credentials.toml", "config.toml", "registry/index/private-1/x", "git/db/x"] {
            self.file(&format!("home/.cargo/{name}"), "token");
        }
        self.file("home/.cargo/registry/cache/index.crates.io-1/a.crate", "");
        self.rust("stable-x86_64-unknown-linux-gnu");
        self.rust("nightly-x86_64-unknown-linux-gnu");
        self.file("home/.rustup/settings.toml", "default_toolchain = \"stable-x86_64-unknown-linux-gnu\"\n");
    }

    fn virtual_environment(&self, prefix: &str, base_bin: &str) {
        self.file(&format!("{prefix}/pyvenv.cfg"), &format!("home = {}\n", self.text(base_bin)));
        self.link(&format!("{prefix}/bin/python3"), self.path(base_bin).join("python3"));
    }

    /// With a `PATH` of these directories.
    fn look(&self, argv: &[&str], path: &[&str]) -> Result<Program> {
        let path = std::env::join_paths(path.iter().map(|entry| self.path(entry))).unwrap();
        let variables = |name: &str| match name {
            "PATH" => Some(path.clone()),
            name => self.variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into()),
        };
        let around = Surroundings {
            own: Box::new(variables),
            asked: &self.asked,
            writable: vec![self.path("work")],
            start: Some(self.path("work")),
            scarcity: RefCell::default(),
        };
        let argv: Vec<CString> = argv.iter().map(|word| CString::new(*word).unwrap()).collect();
        Program::find(&argv, &around)
    }

    fn find(&self, name: &str, path: &str) -> Result<Program> {
        self.look(&[name], &[path])
    }

    fn grants(&self, argv: &[&str], path: &[&str]) -> Vec<PathBuf> {
        self.look(argv, path).unwrap().grants
    }

    fn paths(&self, below: &[&str]) -> Vec<PathBuf> {
        below.iter().map(|below| self.path(below)).collect()
    }
}

fn dirs(program: &Program) -> Vec<PathBuf> {
    let usual: Vec<_> = std::env::split_paths(USUAL_PATH).collect();
    std::env::split_paths(&program.search_path).filter(|dir| !usual.contains(dir)).collect()
}

#[test]
fn a_pyenv_shim_leads_to_the_chosen_version_and_grants_only_that() {
    let mut host = Host::new();
    let shim = host.text("home/.pyenv/shims/python3");
    for name in ["python3", &shim] {
        let program = host.find(name, "home/.pyenv/shims").unwrap();
        assert_eq!(program.path, host.path("home/.pyenv/versions/3.11.7/bin/python3"));
        assert_eq!(program.grants, [host.path("home/.pyenv/versions/3.11.7")]);
        assert_eq!(dirs(&program), [host.path("home/.pyenv/versions/3.11.7/bin")]);
    }
    host.variables.push(("PYENV_VERSION", "system:3.12.0".to_owned()));
    let chosen = |host: &Host| {
        let found = host.find(&shim, "nowhere");
        assert_eq!(found.is_ok(), host.find("python3", "home/.pyenv/shims").is_ok());
        found.map(|program| program.path)
    };
    assert_eq!(chosen(&host).unwrap(), host.path("home/.pyenv/versions/3.12.0/bin/python3"));
    for hostile in ["../../..", "..", "/etc", ".", "", "3.11.7/../3.12.0"] {
        host.variables[1].1 = hostile.to_owned();
        let failure = chosen(&host).unwrap_err();
        assert_eq!(failure.kind, FailureKind::NotFound, "{hostile}");
        assert!(failure.message.contains("shims"), "{hostile}");
    }
    host.asked = vec![("PYENV_VERSION".to_owned(), Bytes::from("3.12.0"))];
    assert!(chosen(&host).is_ok(), "the policy chooses before the launcher");
}

#[test]
fn a_virtual_environment_brings_its_base_along() {
    let host = Host::new();
    let python = host.text("home/.v/bin/python3");
    let program = host.find(&python, "nowhere").unwrap();
    assert_eq!(program.path, Path::new(&python));
    assert_eq!(program.grants, host.paths(&["home/.pyenv/versions/3.12.0", "home/.v"]));
    assert_eq!(dirs(&program), [host.path("home/.v/bin")]);
}

#[test]
fn programs_started_by_name_are_found_where_the_launcher_finds_them() {
    let host = Host::new();
    host.node("home/.nvm/versions/node/v20.1.0");
    host.program("home/bin/tool");
    let path = ["home/bin", "home/.v/bin", "home/.nvm/versions/node/v20.1.0/bin", "home/.pyenv/shims"];
    let program = host.look(&["/bin/sh", "-c", "python3"], &path).unwrap();
    assert_eq!(program.path, Path::new("/bin/sh"));
    let installations = [
        "home/.nvm/versions/node/v20.1.0",
        "home/.pyenv/versions/3.11.7",
        "home/.pyenv/versions/3.12.0",
        "home/.v",
    ];
    assert_eq!(program.grants, host.paths(&installations));
    let bins = ["home/.v/bin", "home/.nvm/versions/node/v20.1.0/bin", "home/.pyenv/versions/3.11.7/bin"];
    assert_eq!(dirs(&program), host.paths(&bins));
}

#[test]
fn the_policys_path_counts_instead_of_the_launchers() {
    let mut host = Host::new();
    host.link("home/current", ".v");
    host.asked = vec![("PATH".to_owned(), Bytes::from(host.path("home/current/bin")))];
    let granted = host.grants(&["/bin/sh"], &["home/.pyenv/shims"]);
    assert_eq!(granted, host.paths(&["home/.pyenv/versions/3.12.0", "home/.v", "home/current"]));
}

#[test]
fn the_python_of_uv_is_reached_through_the_links_that_it_was_written_with() {
    let host = Host::new();
    host.python("home/.local/share/uv/python/cpython-3.12.1-linux");
    host.link("home/.local/share/uv/python/cpython-3.12-linux", "cpython-3.12.1-linux");
    host.virtual_environment(
        "home/.local/share/uv/tools/x",
        "home/.local/share/uv/python/cpython-3.12-linux/bin",
    );
    host.script(
        "home/.local/share/uv/tools/x/bin/x",
        &format!("#!{}\n", host.text("home/.local/share/uv/tools/x/bin/python3")),
    );
    host.link("home/.local/bin/x", "../share/uv/tools/x/bin/x");
    host.file("home/.local/share/keyrings/login", "secret");
    let granted = [
        "home/.local/bin/x",
        "home/.local/share/uv/python/cpython-3.12-linux",
        "home/.local/share/uv/python/cpython-3.12.1-linux",
        "home/.local/share/uv/tools/x",
    ];
    let program = host.find("x", "home/.local/bin").unwrap();
    assert_eq!(program.grants, host.paths(&granted));
    assert_eq!(program.path, host.path("home/.local/bin/x"));
}

#[test]
fn the_settings_beside_an_installation_stay_hidden() {
    let host = Host::new();
    host.python("home/conda");
    for name in [".condarc", "pkgs/x", "envs/other/x", "etc/pip.conf", "conda-meta/history", "ssl/cert.pem"] {
        host.file(&format!("home/conda/{name}"), "");
    }
    host.file("home/.v/pip.conf", "password");
    host.python("home/.local");
    host.file("home/.local/share/keyrings/login", "secret");
    let parts = |prefix: &str, parts: &[&str]| -> Vec<PathBuf> {
        parts.iter().map(|part| host.path(prefix).join(part)).collect()
    };
    assert_eq!(
        host.grants(&["python3"], &["home/conda/bin"]),
        parts("home/conda", &["bin", "conda-meta", "lib", "ssl"])
    );
    assert_eq!(host.grants(&["python3"], &["home/.local/bin"]), host.paths(&["home/.local/bin/python3"]));
    let base = [host.path("home/.pyenv/versions/3.12.0")].into_iter();
    let granted: Vec<_> = base.chain(parts("home/.v", &["bin", "pyvenv.cfg"])).collect();
    assert_eq!(host.grants(&["python3"], &["home/.v/bin"]), granted);
}

#[test]
fn scripts_bring_the_interpreters_that_they_name() {
    let host = Host::new();
    host.node("home/node");
    let npm = host.find("npm", "home/node/bin").unwrap();
    assert_eq!((npm.path, npm.grants), (host.path("home/node/bin/npm"), host.paths(&["home/node"])));
    // Two scripts, `env`, and a program that is in no installation.
    host.program("home/bin/engine");
    host.script("home/bin/middle", "#!/usr/bin/env -S engine --fast\n");
    host.script("home/.scripts/outer", &format!("#!{} -x\n", host.text("home/bin/middle")));
    let outer = host.look(&[&host.text("home/.scripts/outer")], &["nowhere", "home/bin"]).unwrap();
    assert_eq!(outer.grants, host.paths(&["home/.scripts/outer", "home/bin/engine", "home/bin/middle"]));
    assert_eq!(dirs(&outer), host.paths(&["home/.scripts", "home/bin"]));
}

#[test]
fn scripts_that_never_end_grant_no_more_than_the_kernel_follows() {
    let host = Host::new();
    host.script("home/bin/self", &format!("#!{}\n", host.text("home/bin/self")));
    assert_eq!(host.grants(&["self"], &["home/bin"]), host.paths(&["home/bin/self"]));
    for at in 0..9 {
        host.script(
            &format!("home/bin/s{at}"),
            &format!("#!{}\n", host.text(&format!("home/bin/s{}", at + 1))),
        );
    }
    assert_eq!(host.grants(&["s0"], &["home/bin"]).len(), 6);
}

#[test]
fn the_tools_of_asdf_and_mise_are_those_of_the_home() {
    let host = Host::new();
    host.node("home/.asdf/installs/nodejs/20.1.0");
    host.python("home/.asdf/installs/python/3.12.1");
    host.python("home/.asdf/installs/python/3.13.0");
    for name in ["node", "npm", "python3"] {
        host.program(&format!("home/.asdf/shims/{name}"));
    }
    host.file("home/.tool-versions", "# mine\npython 3.12.1 3.13.0\n../../.ssh x\nruby\n");
    host.file("home/.config/mise/config.toml", "[tools]\nnodejs = '20.1.0'\n");
    let program = host.find("npm", "home/.asdf/shims").unwrap();
    assert_eq!(program.path, host.path("home/.asdf/installs/nodejs/20.1.0/bin/npm"));
    let installed = ["home/.asdf/installs/nodejs/20.1.0", "home/.asdf/installs/python/3.12.1"];
    assert_eq!(program.grants, host.paths(&installed));
    let bins = ["home/.asdf/installs/nodejs/20.1.0/bin", "home/.asdf/installs/python/3.12.1/bin"];
    assert_eq!(dirs(&program), host.paths(&bins));
}

#[test]
fn rustup_is_passed_by() {
    let mut host = Host::new();
    host.rustup();
    let stable = "home/.rustup/toolchains/stable-x86_64-unknown-linux-gnu";
    let nightly = "home/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu";
    let downloads = "home/.cargo/registry/cache/index.crates.io-1";
    for name in ["cargo", "rustc"] {
        let program = host.find(name, "home/.cargo/bin").unwrap();
        assert_eq!(program.path, host.path(stable).join("bin").join(name));
        assert_eq!(program.grants, host.paths(&[downloads, stable]));
        assert_eq!(program.cargo_home, Some(host.path("home/.cargo")));
    }
    assert_eq!(host.grants(&["/bin/sh"], &["home/.cargo/bin"]), host.paths(&[downloads, stable]));
    let other = host.find("cargo-other", "home/.cargo/bin").unwrap();
    assert_eq!(other.grants, host.paths(&["home/.cargo/bin/cargo-other", downloads, stable]));

    let asked = host.look(&["cargo", "+nightly", "build"], &["home/.cargo/bin"]).unwrap();
    assert_eq!(asked.path, host.path(nightly).join("bin/cargo"));
    assert_eq!(asked.argv, [c"cargo".to_owned(), c"build".to_owned()]);
    assert_eq!(asked.grants, host.paths(&[downloads, nightly]));
    let not_rustups = host.look(&["cargo-other", "+nightly"], &["home/.cargo/bin"]).unwrap();
    assert_eq!(not_rustups.argv.len(), 2);
    assert_eq!(not_rustups.grants, other.grants);

    host.script("home/.scripts/build", "#!/usr/bin/env cargo\n");
    let script = host.look(&["build", "+nightly"], &["home/.scripts", "home/.cargo/bin"]).unwrap();
    assert_eq!(script.argv.len(), 2, "it is the script's argument");
    assert_eq!(script.grants, host.paths(&[downloads, stable, "home/.scripts/build"]));
    host.program("usr/bin/cargo");
    let other = host.look(&["cargo", "+1.0"], &["home/.cargo/bin", "usr/bin"]).unwrap();
    assert_eq!((other.path, other.argv.len()), (host.path("usr/bin/cargo"), 2));

    host.variables.push(("RUSTUP_TOOLCHAIN", "nightly".to_owned()));
    assert_eq!(host.find("cargo", "home/.cargo/bin").unwrap().path, host.path(nightly).join("bin/cargo"));
    for hostile in ["../../..", "/", "..", "1.0", ""] {
        host.variables[1].1 = hostile.to_owned();
        assert_eq!(
            host.find("cargo", "home/.cargo/bin").unwrap_err().kind,
            FailureKind::NotFound,
            "{hostile}"
        );
    }
}

#[test]
fn directories_that_are_links_bring_them_along() {
    let host = Host::new();
    host.python("store/abc-python");
    host.link("store/profile", host.path("store/abc-python"));
    host.link("home/.nix-profile", "../store/profile");
    host.link("home/.w/bin/python3", "../../.nix-profile/bin/python3");
    host.file("home/.w/pyvenv.cfg", &format!("home = {}\n", host.text("home/.nix-profile/bin")));
    let through = host.paths(&["home/.nix-profile", "home/.w", "store/abc-python", "store/profile"]);
    assert_eq!(host.grants(&["python3"], &["home/.w/bin"]), through);
    let direct = host.find("python3", "home/.nix-profile/bin").unwrap();
    assert_eq!(
        (direct.path, direct.grants),
        (host.path("store/abc-python/bin/python3"), host.paths(&["store/abc-python"]))
    );
}

#[test]
fn a_program_beside_secrets_is_granted_alone() {
    let host = Host::new();
    host.program("home/bin/tool");
    host.file("home/lib/python3.11/os.py", "");
    host.file("home/pyvenv.cfg", "home = /\n");
    assert_eq!(
        host.grants(&["tool"], &["home/bin"]),
        host.paths(&["home/bin/tool"]),
        "a home is never a prefix"
    );
    assert_eq!(host.grants(&["/bin/sh"], &["home/bin"]), NONE);
}

#[test]
fn hostile_bases_grant_nothing() {
    let host = Host::new();
    host.file("home/lib/python3.11/os.py", "");
    fs::create_dir_all(host.path("home/bin")).unwrap();
    fs::create_dir_all(host.path("bin")).unwrap();
    host.file("lib/python3.11/os.py", "");
    let values =
        ["/", "../../..", "/bin/../..", "/proc/self/root/etc", "/root/bin", "/home/x/bin"].map(str::to_owned);
    for value in
        values.into_iter().chain([host.text("home/bin"), host.text("bin"), host.text("home/.pyenv/shims")])
    {
        fs::remove_dir_all(host.path("home/.x")).ok();
        host.program("home/.x/bin/python3");
        host.file("home/.x/pyvenv.cfg", &format!("home = {value}\n"));
        assert_eq!(host.grants(&["python3"], &["home/.x/bin"]), host.paths(&["home/.x"]), "{value}");
    }
}

#[test]
fn a_prefix_that_holds_the_work_dir_is_no_prefix() {
    let host = Host::new();
    fs::remove_dir_all(host.path("work")).unwrap();
    host.python("project");
    fs::create_dir_all(host.path("project/sub")).unwrap();
    host.link("work", host.path("project/sub"));
    let around = Surroundings {
        own: Box::new(|_| None),
        asked: &[],
        writable: vec![host.path("project/sub")],
        start: None,
        scarcity: RefCell::default(),
    };
    let argv = [CString::new(host.text("project/bin/python3")).unwrap()];
    assert_eq!(Program::find(&argv, &around).unwrap().grants, host.paths(&["project/bin/python3"]));
}

#[test]
fn nothing_in_the_work_dir_grants_anything() {
    let host = Host::new();
    host.rustup();
    host.script("home/secret", "#!/bin/sh\nkey\n");
    // What a jail could have left behind in an earlier run.
    host.virtual_environment("work/v", "home/.pyenv/versions/3.12.0/bin");
    host.link("work/v/bin/secret", host.path("home/secret"));
    host.script("work/v/bin/script", &format!("#!{}\n", host.text("home/secret")));
    host.node("work/node");
    host.link("work/node_modules/.bin/tool", host.path("home/secret"));
    host.file("work/.python-version", "3.12.0\n");
    host.file("work/.tool-versions", "python 3.12.0\n");
    host.file("work/rust-toolchain.toml", "[toolchain]\nchannel = \"nightly\"\n");
    host.program("work/c/bin/cargo");
    host.program("work/c/bin/rustup");
    host.program("work/shims/python3");
    host.link("work/versions/1", host.path("home/.pyenv/versions/3.12.0"));
    host.file("work/version", "1");
    for name in [
        "v/bin/python3",
        "v/bin/secret",
        "v/bin/script",
        "node/bin/npm",
        "node_modules/.bin/tool",
        "c/bin/cargo",
        "shims/python3",
    ] {
        assert_eq!(host.grants(&[&host.text(&format!("work/{name}"))], &["nowhere"]), NONE, "{name}");
        let (dir, name) = name.rsplit_once('/').unwrap();
        let dir = format!("work/{dir}");
        assert_eq!(host.find(name, &dir).unwrap_err().kind, FailureKind::NotFound, "{name}");
        assert_eq!(host.grants(&["/bin/sh"], &[&dir]), NONE, "{name}");
    }
    // Nor does it change what others grant.
    let program = host.find("python3", "home/.pyenv/shims").unwrap();
    assert_eq!(program.grants, [host.path("home/.pyenv/versions/3.11.7")]);
    let program = host.find("cargo", "home/.cargo/bin").unwrap();
    assert!(!program.grants.iter().any(|grant| grant.to_str().unwrap().contains("nightly")));
}

/// What a run can prepare for the next one: a directory of the work dir replaced by a link to a neighbour.
#[test]
fn no_way_through_the_work_dir_grants_anything() {
    let host = Host::new();
    host.link("work/.venv", host.path("home/.v"));
    host.link("work/bin", "../home/.v/bin");
    host.link("alias", host.path("work"));
    host.link("home/bin3", host.path("work/.venv/bin/python3"));
    for name in ["work/.venv/bin/python3", "work/../work/.venv/bin/python3", "alias/bin/python3", "home/bin3"]
    {
        assert_eq!(host.grants(&[&host.text(name)], &["nowhere"]), NONE, "{name}");
    }
    for path in ["work/.venv/bin", "alias/.venv/bin", "alias/bin", "home/../work/bin"] {
        assert_eq!(host.find("python3", path).unwrap_err().kind, FailureKind::NotFound, "{path}");
        assert_eq!(host.grants(&["/bin/sh"], &[path]), NONE, "{path}");
    }
    // An honest one whose settings lead through it, and signs that do.
    host.file("home/.v/pyvenv.cfg", &format!("home = {}\n", host.text("alias/bin")));
    let granted = host.grants(&[&host.text("home/.v/bin/python3")], &["nowhere"]);
    assert_eq!(granted, host.paths(&["home/.pyenv/versions/3.12.0", "home/.v"]));
    host.program("home/project/bin/tool");
    host.link("home/project/pyvenv.cfg", host.path("work/pyvenv.cfg"));
    host.link("home/project/lib", host.path("work/lib"));
    host.file("work/pyvenv.cfg", "");
    host.file("work/lib/python3.11/os.py", "");
    host.file("work/lib/node_modules/x", "");
    assert_eq!(host.grants(&["tool"], &["home/project/bin"]), host.paths(&["home/project/bin/tool"]));
    host.script("home/bin/go", &format!("#!{}\n", host.text("work/.venv/bin/python3")));
    assert_eq!(host.grants(&["go"], &["home/bin"]), host.paths(&["home/bin/go"]));
}

#[test]
fn a_link_to_a_secret_outside_grants_no_secret() {
    let host = Host::new();
    host.file("home/secret", "key");
    fs::set_permissions(host.path("home/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    host.link("other/bin/x", host.path("home/secret"));
    assert_eq!(host.grants(&[&host.text("other/bin/x")], &["nowhere"]), NONE);
}

#[test]
fn system_programs_need_no_grant() {
    let host = Host::new();
    for name in ["/bin/sh", "/usr/bin/env", "/proc/self/exe", "/no/such/file", "/", "/bin/.."] {
        let program = host.find(name, "nowhere").unwrap();
        assert_eq!((program.path, program.grants), (name.into(), NONE.to_vec()));
    }
    assert_eq!(host.find("/bin/sh", "nowhere").unwrap().search_path, USUAL_PATH);
}

/// Only the order can differ: what the launcher puts first is first.
#[test]
fn the_launchers_order_of_directories_is_kept() {
    let around = Surroundings {
        own: Box::new(|name| (name == "PATH").then(|| "/usr/bin:relative:/usr/games:/bin:/usr/bin".into())),
        asked: &[],
        writable: Vec::new(),
        start: None,
        scarcity: RefCell::default(),
    };
    let program = Program::find(&[c"sh".to_owned()], &around).unwrap();
    assert_eq!(program.path, Path::new("/usr/bin/sh"));
    assert_eq!(
        program.search_path,
        "/usr/bin:/usr/games:/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin"
    );
}

#[test]
fn what_is_there_anyway_is_not_granted_again() {
    let paths = [
        "/opt/b/c",
        "/home",
        "/usr/x",
        "/opt/b",
        "/opt/b-c",
        "/tmp",
        "/home/u",
        "/work",
        "/opt/b",
        "/etc/alternatives/x",
    ];
    let left = outermost(paths.map(PathBuf::from).to_vec());
    assert_eq!(left, ["/home/u", "/opt/b", "/opt/b-c"].map(PathBuf::from));
}
