//! Interpreters in a home that the jail hides: they work, what lies beside them stays hidden, and nothing that a jail
//! could have left in its work dir shows the next one more.

use super::judge::text;
use crate::jail::desk::{Desk, json};
use crate::jail::launch::Launch;
use crate::jail::run::Run;
use crate::jail::stage;
use crate::jail::who::Who;
use crate::support::need::need;
use crate::support::user::UNPRIVILEGED_ID;
use crate::support::{Stop, write_program};
use crate::tests;
use agentkit_protocol::{Access, Bytes, Choice, Control, FailureKind, Policy, Rule, WorkDir};
use nix::libc;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

tests![
    a_virtual_environment_of_a_python_under_home,
    a_tool_of_uv_behind_links,
    node_and_its_scripts,
    the_toolchain_that_rustup_would_choose,
    the_version_that_pyenv_would_choose,
    a_virtual_environment_in_the_work_dir,
    files_left_in_the_work_dir_show_no_secret,
    a_bind_mount_of_the_work_dir_in_path,
    what_listens_in_an_installation_is_not_reached,
];

/// A launcher with a home, `PATH` and all.
struct Home {
    who: Who,
    root: TempDir,
}

impl Home {
    fn of(who: Who) -> Result<Home, Stop> {
        who.can_launch()?;
        let home = Home { who, root: stage::open_directory()? };
        for name in ["home", "work", "outputs"] {
            fs::create_dir(home.path(name))?;
            who.own(&home.path(name))?;
        }
        Ok(home)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    fn file(&self, below: &str, content: impl AsRef<[u8]>) -> Result<(), Stop> {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        Ok(fs::write(path, content)?)
    }

    fn link(&self, below: &str, target: impl AsRef<Path>) -> Result<(), Stop> {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        Ok(symlink(target, path)?)
    }

    fn script(&self, below: &str, content: &str) -> Result<(), Stop> {
        write_program(&self.path(below), content.as_bytes())
    }

    /// A real program that can be told what to do.
    fn shell(&self, below: &str) -> Result<(), Stop> {
        write_program(&self.path(below), &fs::read("/bin/sh")?)
    }

    /// A Python whose prefix is under home; returns its `bin`.
    fn python(&self, prefix: &str) -> Result<PathBuf, Stop> {
        let script =
            "import os, sys; print(os.path.realpath(sys.executable)); print(os.path.dirname(os.__file__))";
        let output = Command::new(self.who.python()?).args(["-Ic", script]).output()?;
        let says = text(&output.stdout);
        let (Some(program), Some(library)) = (says.lines().next(), says.lines().nth(1).map(Path::new)) else {
            return Err(Stop::Skip(format!("this Python does not say where it is: {says:?}")));
        };
        if !library.starts_with("/usr") {
            return Err(Stop::Skip(format!("needs a Python of the system: {library:?}")));
        }
        let bin = self.path(prefix).join("bin");
        write_program(&bin.join("python3"), &fs::read(program)?)?;
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        self.link(&format!("{prefix}/lib/{name}"), library)?;
        Ok(bin)
    }

    fn virtual_environment(&self, prefix: &str, base: &Path) -> Result<(), Stop> {
        let mut command = Command::new(base.join("python3"));
        let made = command.args(["-Im", "venv", "--without-pip"]).arg(self.path(prefix)).output()?;
        if !made.status.success() {
            return Err(Stop::Skip(format!(
                "this Python makes no virtual environment: {}",
                text(&made.stderr)
            )));
        }
        Ok(())
    }

    /// Launches with these directories first in `PATH`.
    fn launch(&self, path: &[&str], argv: &[&str]) -> Result<Run, Stop> {
        let workdir = WorkDir::Bind(Bytes::from(self.path("work")));
        self.launch_with(&Policy { workdir, ..Policy::new(argv.iter().map(|word| Bytes::from(*word))) }, path)
    }

    fn launch_with(&self, policy: &Policy, path: &[&str]) -> Result<Run, Stop> {
        let dirs = path
            .iter()
            .map(|dir| self.path(dir))
            .chain(["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from));
        let path = std::env::join_paths(dirs).map_err(|error| Stop::Fail(error.to_string()))?;
        let env = vec![("HOME".to_owned(), self.path("home").into()), ("PATH".to_owned(), path)];
        let launch = Launch { env, ..Launch::plain(self.who, self.path("outputs"), self.path("work")) };
        launch.jail(&serde_json::to_vec(policy)?)?.finish()
    }

    /// The same, for a command that must succeed.
    fn says(&self, path: &[&str], argv: &[&str]) -> Result<String, Stop> {
        let run = self.launch(path, argv)?;
        assert_eq!(run.status.code(), Some(0), "{:?}: {run:?}", self.who);
        Ok(text(&run.stdout))
    }

    fn text(&self, below: &str) -> String {
        self.path(below).to_string_lossy().into_owned()
    }
}

fn everybody(test: impl Fn(Home) -> Result<(), Stop>) -> Result<(), Stop> {
    Who::everybody().iter().try_for_each(|who| test(Home::of(*who)?))
}

/// Everything of the launcher's home that there is, by name.
const LIST: &str = "find \"$0\" -maxdepth 2 -mindepth 1 2>&1 | sort | sed \"s|$0/||\"";

fn a_virtual_environment_of_a_python_under_home() -> Result<(), Stop> {
    everybody(|home| {
        let base = home.python("home/.p")?;
        home.virtual_environment("home/.v", &base)?;
        home.file("home/.v/pip.conf", "password")?;
        home.file("home/.ssh/key", "secret")?;
        let script = "import os, ssl, sys\nprint(sys.prefix, sys.base_prefix)\nprint(*sorted(os.listdir(sys.argv[1])))\n\
                      print('pip.conf' in os.listdir(sys.prefix))";
        let python = home.text("home/.v/bin/python3");
        let expected = format!("{} {}\n.p .v\nFalse\n", home.text("home/.v"), home.text("home/.p"));
        for (name, path) in [(python.as_str(), "nowhere"), ("python3", "home/.v/bin")] {
            assert_eq!(home.says(&[path], &[name, "-c", script, &home.text("home")])?, expected);
        }
        let by_a_shell = "python3 -c 'import sys; print(sys.prefix)'";
        assert_eq!(home.says(&["home/.v/bin"], &["sh", "-c", by_a_shell])?, home.text("home/.v") + "\n");
        Ok(())
    })
}

fn a_tool_of_uv_behind_links() -> Result<(), Stop> {
    everybody(|home| {
        home.python("home/.local/share/uv/python/cpython-3.1.2")?;
        home.link("home/.local/share/uv/python/cpython-3.1", "cpython-3.1.2")?;
        let base = home.path("home/.local/share/uv/python/cpython-3.1/bin");
        home.virtual_environment("home/.local/share/uv/tools/x", &base)?;
        let python = home.text("home/.local/share/uv/tools/x/bin/python3");
        let script = format!("#!{python}\nimport sys\nprint(sys.prefix)\n");
        home.script("home/.local/share/uv/tools/x/bin/x", &script)?;
        home.link("home/.local/bin/x", "../share/uv/tools/x/bin/x")?;
        home.file("home/.local/share/keyrings/login", "secret")?;
        let expected = home.text("home/.local/share/uv/tools/x") + "\n";
        assert_eq!(home.says(&["home/.local/bin"], &["x"])?, expected);
        let seen =
            home.says(&["home/.local/share/uv/tools/x/bin"], &["sh", "-c", LIST, &home.text("home")])?;
        assert_eq!(seen, ".local\n.local/share\n");
        Ok(())
    })
}

fn node_and_its_scripts() -> Result<(), Stop> {
    everybody(|home| {
        let prefix = "home/.nvm/versions/node/v1.2.3";
        let bin = format!("{prefix}/bin");
        home.shell(&format!("{bin}/node"))?;
        let npm = "#!/usr/bin/env node\necho npm; cat \"$1\" 2>&1; echo\n";
        home.script(&format!("{prefix}/lib/node_modules/npm/bin/npm-cli.js"), npm)?;
        home.link(&format!("{bin}/npm"), "../lib/node_modules/npm/bin/npm-cli.js")?;
        home.file(&format!("{prefix}/etc/npmrc"), "token")?;
        home.file("home/.npmrc", "token")?;
        for secret in ["home/.npmrc", &format!("{prefix}/etc/npmrc")] {
            for argv in [&["npm", &home.text(secret)][..], &["sh", "-c", "npm \"$0\"", &home.text(secret)]] {
                let output = home.says(&[&bin], argv)?;
                assert!(output.starts_with("npm\ncat: ") && output.contains("No such file"), "{output}");
            }
        }
        Ok(())
    })
}

fn the_toolchain_that_rustup_would_choose() -> Result<(), Stop> {
    everybody(|home| {
        home.script("home/.cargo/bin/rustup", "#!/bin/sh\necho rustup was asked\n")?;
        for name in ["cargo", "rustc"] {
            home.link(&format!("home/.cargo/bin/{name}"), "rustup")?;
            for toolchain in ["stable", "nightly"] {
                home.shell(&format!("home/.rustup/toolchains/{toolchain}/bin/{name}"))?;
                home.file(&format!("home/.rustup/toolchains/{toolchain}/lib/rustlib/name"), toolchain)?;
            }
        }
        home.file("home/.rustup/settings.toml", "default_toolchain = \"stable\"\n")?;
        for name in ["credentials.toml", "config.toml", "registry/cache/private-1/x", "git/db/x"] {
            home.file(&format!("home/.cargo/{name}"), "token")?;
        }
        home.file("home/.cargo/registry/cache/index.crates.io-1/a.crate", "")?;
        // What a jail could have left there.
        home.file("work/rust-toolchain.toml", "[toolchain]\nchannel = \"nightly\"\n")?;
        let path = ["home/.cargo/bin"];
        let look = "rustc -c 'cat \"$0\"/.rustup/toolchains/*/lib/rustlib/name; echo' \"$0\"; find \"$0\"/.cargo -type f; echo $CARGO_HOME";
        let cargo = home.text("home/.cargo");
        let seen =
            |toolchain| format!("{toolchain}\n{cargo}/registry/cache/index.crates.io-1/a.crate\n{cargo}\n");
        assert_eq!(home.says(&path, &["cargo", "-c", look, &home.text("home")])?, seen("stable"));
        assert_eq!(home.says(&path, &["sh", "-c", look, &home.text("home")])?, seen("stable"));
        assert_eq!(
            home.says(&path, &["cargo", "+nightly", "-c", look, &home.text("home")])?,
            seen("nightly")
        );
        let missing = home.launch(&path, &["cargo", "+1.2"])?;
        assert_eq!((missing.status.code(), missing.failure()?.kind), (Some(127), FailureKind::NotFound));
        Ok(())
    })
}

fn the_version_that_pyenv_would_choose() -> Result<(), Stop> {
    everybody(|home| {
        home.script("home/.pyenv/shims/python3", "#!/bin/sh\necho pyenv was asked\n")?;
        home.file("home/.pyenv/version", "3.1\n")?;
        home.file("home/.pyenv/versions/9.9/secret", "secret")?;
        home.file("work/.python-version", "9.9\n")?;
        let base = home.python("home/.pyenv/versions/3.1")?;
        let expected = format!("{}\n", base.join("python3").display());
        let script = "import sys; print(sys.executable)";
        let path = ["home/.pyenv/shims"];
        assert_eq!(home.says(&path, &["python3", "-c", script])?, expected);
        assert_eq!(home.says(&path, &["sh", "-c", "python3 -c \"$0\"", script])?, expected);
        let seen = home.says(&path, &["sh", "-c", "ls \"$0\"", &home.text("home/.pyenv/versions")])?;
        assert_eq!(seen, "3.1\n");
        Ok(())
    })
}

/// It is nobody's to say which Python it is made from but `PATH`'s.
fn a_virtual_environment_in_the_work_dir() -> Result<(), Stop> {
    everybody(|home| {
        let base = home.python("home/.p")?;
        home.virtual_environment("work/.venv", &base)?;
        let script = "import sys; print(sys.prefix)";
        for name in [&home.text("work/.venv/bin/python3"), ".venv/bin/python3"] {
            let run = home.launch(&[], &[name, "-c", script])?;
            let failure = run.failure()?;
            assert_eq!((run.status.code(), failure.kind), (Some(127), FailureKind::NotFound), "{run:?}");
            assert!(failure.hint.is_some_and(|hint| hint.contains(&*base.to_string_lossy())), "{run:?}");
            assert_eq!(home.says(&["home/.p/bin"], &[name, "-c", script])?, home.text("work/.venv") + "\n");
        }
        Ok(())
    })
}

/// Each is performed twice: where no jail can write it shows the secret, so it is what would be acted on.
fn files_left_in_the_work_dir_show_no_secret() -> Result<(), Stop> {
    everybody(|home| {
        // An installation that nobody asked for, with something in it.
        home.shell("home/other/bin/python3")?;
        home.file("home/other/lib/python3.1/os.py", "")?;
        home.file("home/other/lib/secret", "canary")?;
        for place in ["home/apart", "work"] {
            let of_venv = format!("home = {}\n", home.text("home/other/bin"));
            home.file(&format!("{place}/venv/pyvenv.cfg"), of_venv)?;
            home.shell(&format!("{place}/venv/bin/tool"))?;
            home.link(&format!("{place}/linked/tool"), home.path("home/other/bin/python3"))?;
            home.link(&format!("{place}/whole"), home.path("home/other/bin"))?;
            let script = format!("#!{}\ncat \"$3\"\n", home.text("home/other/bin/python3"));
            home.script(&format!("{place}/script/tool"), &script)?;
            home.script(&format!("{place}/env/tool"), "#!/usr/bin/env tool2\ncat \"$3\"\n")?;
            home.link(&format!("{place}/env/tool2"), home.path("home/other/bin/python3"))?;
            home.shell(&format!("{place}/shims/tool"))?;
            home.link(&format!("{place}/versions/1"), home.path("home/other"))?;
            home.file(&format!("{place}/version"), "1")?;
            home.link("home/other/bin/tool", "python3").ok();
        }
        home.link("home/alias", home.path("work"))?;
        let secret = home.text("home/other/lib/secret");
        let shows = |place: &str, plant: &str| -> Result<[bool; 3], Stop> {
            let dir = format!("{place}/{plant}");
            let argv = ["tool", "-c", "cat \"$0\"", &secret];
            let tool = home.text(&format!("{dir}/tool"));
            let by_path = home.launch(&[&dir], &argv)?;
            let by_name = home.launch(&[&dir], &[&tool, "-c", "cat \"$0\"", &secret])?;
            let by_shell = home.launch(&[&dir], &["sh", "-c", "cat \"$0\"", &secret])?;
            Ok([by_path, by_name, by_shell].map(|run| run.gave_out("canary")))
        };
        for plant in ["venv/bin", "linked", "whole", "script", "env", "shims"] {
            let apart = shows("home/apart", plant)?;
            assert!(apart.contains(&true), "{plant} would never show anything: {apart:?}");
            assert_eq!(shows("work", plant)?, [false; 3], "{plant} as {:?}", home.who);
            assert_eq!(shows("home/alias", plant)?, [false; 3], "{plant} by another name as {:?}", home.who);
            let dir = format!("work/{plant}");
            let mut policy = Policy::new(["tool", "-c", "cat \"$0\"", &secret]);
            policy.rules = vec![Rule { path: Bytes::from(home.path("work")), access: Access::Rw }];
            let by_rule = home.launch_with(&policy, &[&dir])?;
            assert!(
                !by_rule.gave_out("canary"),
                "{plant} where a rule lets the jail write, as {:?}",
                home.who
            );
        }
        Ok(())
    })
}

/// A host program has a socket and a pipe among the files of an installation, open to everybody. By each mechanism: what it
/// does not keep from them it must not claim.
fn what_listens_in_an_installation_is_not_reached() -> Result<(), Stop> {
    let script = "import os, socket, sys\n\
        place = sys.argv[1]\n\
        try: os.write(os.open(place + '/pipe', os.O_WRONLY | os.O_NONBLOCK), b'from the jail')\n\
        except OSError as error: print(error)\n\
        try: socket.socket(socket.AF_UNIX).connect(place + '/socket')\n\
        except OSError as error: print(error)\n";
    for (who, mechanism) in Who::everybody().iter().flat_map(|who| {
        [Choice::Namespaces, Choice::Bubblewrap, Choice::Landlock].map(|mechanism| (*who, mechanism))
    }) {
        let home = Home::of(who)?;
        home.file("home/tool/bin/x", "")?;
        home.file("home/tool/lib/node_modules/x", "")?;
        let place = home.path("home/tool/lib");
        let listener = UnixListener::bind(place.join("socket"))?;
        listener.set_nonblocking(true)?;
        mkfifo(&place.join("pipe"), Mode::empty())?;
        for name in ["socket", "pipe"] {
            fs::set_permissions(place.join(name), fs::Permissions::from_mode(0o666))?;
        }
        let mut pipe =
            File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(place.join("pipe"))?;
        let argv = ["/usr/bin/python3", "-c", script, &place.to_string_lossy()].map(Bytes::from);
        let run = home.launch_with(&Policy { mechanism, ..Policy::new(argv) }, &["home/tool/bin"])?;
        let Ok(started) = run.started() else { continue };
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        let level = started.capabilities.level(Control::NetworkBlocked);
        let is_reached = listener.accept().is_ok() || pipe.read(&mut [0; 16]).is_ok();
        assert!(!(is_reached && level.is_full()), "{who:?} {mechanism:?}: {run:?}");
        if mechanism == Choice::Namespaces && !started.read_back.installations_as_on_host {
            assert!(!is_reached && level.is_full(), "{who:?}: {run:?}");
        }
        assert!(mechanism == Choice::Namespaces || !level.is_full(), "{who:?}: {mechanism:?} {level}");
    }
    Ok(())
}

/// The same files by another name: `PATH` holds a bind mount of the work dir, or of a part of it.
fn a_bind_mount_of_the_work_dir_in_path() -> Result<(), Stop> {
    need("root")?;
    for (who, part) in Who::everybody().iter().flat_map(|who| [(who, ""), (who, "sub")]) {
        let home = Home::of(*who)?;
        home.file("secret/lib/creds", "the secret")?;
        home.file("secret/lib/node_modules/x", "")?;
        home.file("secret/bin/x", "")?;
        home.file("alias/x", "")?;
        let left = Path::new("work").join(part).display().to_string();
        home.file(&format!("{left}/lib/python3/os.py"), "")?;
        home.file(&format!("{left}/bin/x"), "")?;
        home.file(&format!("{left}/pyvenv.cfg"), format!("home = {}\n", home.path("secret/bin").display()))?;
        let secret = home.path("secret/lib/creds").display().to_string();
        let workdir = WorkDir::Bind(Bytes::from(home.path("work")));
        let policy = Policy { workdir, ..Policy::new(["sh", "-c", &format!("cat {secret} || echo hidden")]) };
        let script = "set -e; mount --bind \"$1\" \"$2\"; PATH=$2/bin:$PATH; shift 2; exec \"$@\"";
        let [place, alias] = [home.path(&left), home.path("alias")].map(|path| path.display().to_string());
        let mut words: Vec<_> =
            ["unshare", "-m", "sh", "-c", script, "sh", &place, &alias].map(str::to_owned).into();
        if *who == Who::User {
            let id = UNPRIVILEGED_ID.to_string();
            words.extend(["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"].map(str::to_owned));
        }
        let output = Desk::anywhere()?.call_under(&words, &[], &json(&policy)?)?;
        assert_eq!(text(&output.stdout), "hidden\n", "{who:?} {part:?}: {output:?}");
    }
    Ok(())
}
