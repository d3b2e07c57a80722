//! The jail of macOS, attacked on the real thing. Each attack is first performed without it, where it has to succeed.
//!
//! The other suites that attack the jail know Linux's tools and its `/proc`; what they show is shown here in small.

#[cfg(target_os = "macos")]
#[path = "support/mod.rs"]
mod support;

#[cfg(not(target_os = "macos"))]
fn main() {
    println!("nothing to test: this is not macOS");
}

#[cfg(target_os = "macos")]
fn main() -> std::process::ExitCode {
    suite::main()
}

#[cfg(target_os = "macos")]
mod suite {
    use super::support::listener::Listener;
    use super::support::{self, Stop, eventually, trial};
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, ExitCode, Output, Stdio};
    use std::time::{Duration, Instant};

    const LONG: Duration = Duration::from_secs(10);

    pub(crate) fn main() -> ExitCode {
        support::run(vec![
            trial("the_probe_says_seatbelt", the_probe_says_seatbelt),
            trial("ordinary_commands_run", ordinary_commands_run),
            trial("exit_codes_are_as_elsewhere", exit_codes_are_as_elsewhere),
            trial("nothing_outside_is_read", nothing_outside_is_read),
            trial("nothing_outside_is_written", nothing_outside_is_written),
            trial("what_is_hidden_stays_where_it_is", what_is_hidden_stays_where_it_is),
            trial("no_second_name_for_a_file", no_second_name_for_a_file),
            trial("no_set_user_id_bits", no_set_user_id_bits),
            trial("no_set_user_id_programs", no_set_user_id_programs),
            trial("git_names_stay_as_they_are", git_names_stay_as_they_are),
            trial("no_listener_is_reached", no_listener_is_reached),
            trial("no_process_outside_is_signalled", no_process_outside_is_signalled),
            trial("two_jails_are_apart", two_jails_are_apart),
            trial("no_daemon_outlives_the_run", no_daemon_outlives_the_run),
            trial("nothing_outlives_a_killed_helper", nothing_outlives_a_killed_helper),
            trial("variables_are_not_inherited", variables_are_not_inherited),
            trial("limits_end_the_run", limits_end_the_run),
            trial("output_is_cut_and_counted", output_is_cut_and_counted),
            trial("signals_are_passed_on", signals_are_passed_on),
            trial("what_cannot_be_had_is_refused_by_name", what_cannot_be_had_is_refused_by_name),
            trial("what_is_required_and_partial_is_refused", what_is_required_and_partial_is_refused),
        ])
    }

    /// A directory of the test's own, with a work dir, a directory outside of it, and one for private directories.
    struct Desk {
        root: PathBuf,
        _removed: tempfile::TempDir,
    }

    impl Desk {
        fn new() -> Result<Desk, Stop> {
            let directory = support::temp_dir()?;
            let root = directory.path().canonicalize()?;
            for name in ["work", "outside", "tmp"] {
                fs::create_dir(root.join(name))?;
            }
            fs::write(root.join("outside/secret"), "canary-of-the-test")?;
            Ok(Desk { root, _removed: directory })
        }

        fn path(&self, below: &str) -> PathBuf {
            self.root.join(below)
        }

        fn text(&self, below: &str) -> String {
            self.path(below).to_string_lossy().into_owned()
        }

        /// The helper with these flags, for a script in the work dir.
        fn jail(&self, flags: &[&str], script: &str) -> Command {
            let mut command = Command::new(env!("CARGO_BIN_EXE_agentkit-jail"));
            command.arg("--workdir").arg(self.path("work")).args(flags).args(["--", "/bin/sh", "-c", script]);
            command.env("TMPDIR", self.path("tmp")).stdin(Stdio::null());
            command
        }

        fn run(&self, flags: &[&str], script: &str) -> Result<Output, Stop> {
            Ok(self.jail(flags, script).output()?)
        }

        /// The same without the jail.
        fn control(&self, script: &str) -> Result<Output, Stop> {
            Ok(Command::new("/bin/sh").args(["-c", script]).current_dir(self.path("work")).output()?)
        }

        /// What the jail has left of its private directories.
        fn left(&self) -> Result<Vec<PathBuf>, Stop> {
            Ok(fs::read_dir(self.path("tmp"))?
                .map(|entry| Ok(entry?.path()))
                .collect::<std::io::Result<_>>()?)
        }
    }

    fn succeeded(what: &str, output: &Output) -> Result<(), Stop> {
        if output.status.success() { Ok(()) } else { Err(Stop::Fail(format!("{what}: {}", shown(output)))) }
    }

    fn failed(what: &str, output: &Output) -> Result<(), Stop> {
        // 125 would mean that nothing ran.
        match output.status.code() {
            Some(0 | 125) | None => Err(Stop::Fail(format!("{what}: {}", shown(output)))),
            Some(_) => Ok(()),
        }
    }

    fn shown(output: &Output) -> String {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        format!("{}, {:?}, {:?}", output.status, text(&output.stdout), text(&output.stderr))
    }

    fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<(), Stop> {
        if holds { Ok(()) } else { Err(Stop::Fail(what())) }
    }

    fn the_probe_says_seatbelt() -> Result<(), Stop> {
        let output = Command::new(env!("CARGO_BIN_EXE_agentkit-jail")).arg("--probe").output()?;
        succeeded("--probe", &output)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let level =
            |control: &str| text.lines().find_map(|line| line.strip_prefix(control)).unwrap_or("").trim();
        expect(level("mechanism") == "seatbelt", || text.clone())?;
        expect(level("network_blocked") == "full" && level("filesystem_confined") == "full", || {
            text.clone()
        })?;
        expect(level("syscalls_filtered").starts_with("none: "), || text.clone())?;
        expect(level("killed_as_a_tree").starts_with("polled: "), || text.clone())
    }

    fn ordinary_commands_run() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let script = "echo made > new && mkdir d && mv new d/moved && cat d/moved && ls / >/dev/null && date >/dev/null \
                      && echo x > \"$TMPDIR/t\" && echo y > \"$HOME/h\" && perl -e 'print \"perl\\n\"' && rm -r d && pwd";
        let output = desk.run(&[], script)?;
        succeeded("ordinary commands", &output)?;
        let expected = format!("made\nperl\n{}\n", desk.text("work"));
        expect(output.stdout == expected.as_bytes(), || shown(&output))?;
        expect(desk.left()?.is_empty(), || "private directories are left".to_owned())?;
        let stubborn = "cd \"$TMPDIR\" && mkdir d && touch d/f && chflags uchg d/f && chmod 0 d && cd / && cp -p /bin/ls \"$HOME/ls\"";
        succeeded("flags and modes", &desk.run(&[], stubborn)?)?;
        expect(desk.left()?.is_empty(), || "private directories are left".to_owned())
    }

    fn exit_codes_are_as_elsewhere() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let code = |flags: &[&str], script: &str| desk.run(flags, script).map(|output| output.status.code());
        expect(code(&[], "exit 7")? == Some(7), || "exit 7".to_owned())?;
        expect(code(&[], "kill -SEGV $$")? == Some(139), || "a signal".to_owned())?;
        expect(code(&["--wall", "200ms"], "sleep 60")? == Some(124), || "the wall clock".to_owned())?;
        let direct = |program: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_agentkit-jail"));
            command
                .args(["--", program])
                .env("TMPDIR", desk.path("tmp"))
                .output()
                .map(|output| output.status.code())
        };
        expect(direct("no-such-program")? == Some(127), || "127".to_owned())?;
        expect(direct("/etc/hosts")? == Some(126), || "126".to_owned())
    }

    fn nothing_outside_is_read() -> Result<(), Stop> {
        let desk = Desk::new()?;
        for path in
            [desk.text("outside/secret"), format!("/System/Volumes/Data{}", desk.text("outside/secret"))]
        {
            let script = format!("cat '{path}'");
            succeeded("without the jail", &desk.control(&script)?)?;
            let output = desk.run(&[], &script)?;
            failed("reading outside", &output)?;
            expect(!shown(&output).contains("canary-of-the-test"), || shown(&output))?;
        }
        let list = format!("ls '{}'", desk.text("outside"));
        succeeded("without the jail", &desk.control(&list)?)?;
        failed("listing outside", &desk.run(&[], &list)?)?;
        let shown_by_rule =
            desk.run(&["--ro", &desk.text("outside")], &format!("cat '{}'", desk.text("outside/secret")))?;
        succeeded("what a rule shows", &shown_by_rule)
    }

    fn nothing_outside_is_written() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let planted = desk.text("outside/planted");
        let script = format!("echo x > '{planted}'");
        succeeded("without the jail", &desk.control(&script)?)?;
        fs::remove_file(&planted)?;
        let read_only = ["--ro", &desk.text("outside")];
        for flags in [&[][..], &read_only[..]] {
            failed("writing outside", &desk.run(flags, &script)?)?;
            expect(!Path::new(&planted).exists(), || "something was planted".to_owned())?;
        }
        let work = desk.text("work");
        failed(
            "replacing the work dir",
            &desk.run(&[], &format!("cd / && rmdir '{work}' && ln -s /etc '{work}'"))?,
        )?;
        expect(desk.path("work").is_dir(), || "the work dir is gone".to_owned())
    }

    fn what_is_hidden_stays_where_it_is() -> Result<(), Stop> {
        let desk = Desk::new()?;
        fs::create_dir_all(desk.path("work/a/b"))?;
        fs::write(desk.path("work/a/b/secret"), "canary-of-the-test")?;
        let script = "mv a moved && cat moved/b/secret && mv moved a";
        succeeded("without the jail", &desk.control(script)?)?;
        let output = desk.run(&["--hide", &desk.text("work/a/b")], script)?;
        failed("moving what is above", &output)?;
        // Most volumes open it by this name too.
        let other_letters = desk.run(&["--hide", &desk.text("work/A/B")], "cat a/b/secret")?;
        failed("hidden by other letters", &other_letters)?;
        expect(!shown(&output).contains("canary-of-the-test"), || shown(&output))?;
        succeeded("beside it", &desk.run(&["--hide", &desk.text("work/a/b")], "echo x > a/new")?)
    }

    fn no_second_name_for_a_file() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let secret = desk.text("outside/secret");
        for make in ["ln", "cp -c"] {
            let script = format!("{make} '{secret}' again && cat again && rm -f again");
            succeeded("without the jail", &desk.control(&script)?)?;
            failed("a link or a clone", &desk.run(&[], &script)?)?;
        }
        fs::create_dir_all(desk.path("work/a/b"))?;
        fs::write(desk.path("work/a/b/secret"), "canary-of-the-test")?;
        // clonefileat, from and to the current directory.
        let script = "/usr/bin/perl -e 'exit(syscall(462, -2, \"a\", -2, \"clone\", 0) == 0 ? 0 : 1)' && cat clone/b/secret";
        succeeded("without the jail", &desk.control(script)?)?;
        fs::remove_dir_all(desk.path("work/clone"))?;
        failed("a clone of a directory", &desk.run(&["--hide", &desk.text("work/a/b")], script)?)?;
        let script = format!("ln '{secret}' again && echo changed > again");
        failed("a link to what can be read", &desk.run(&["--ro", &desk.text("outside")], &script)?)?;
        expect(fs::read_to_string(&secret)? == "canary-of-the-test", || "it was changed".to_owned())
    }

    fn no_set_user_id_bits() -> Result<(), Stop> {
        let desk = Desk::new()?;
        for mode in ["u+s", "g+s"] {
            let script = format!("touch f && chmod {mode} f");
            succeeded("without the jail", &desk.control(&script)?)?;
            fs::remove_file(desk.path("work/f"))?;
            failed("chmod", &desk.run(&[], &script)?)?;
            let mode = fs::metadata(desk.path("work/f"))?.permissions().mode();
            expect(mode & 0o6000 == 0, || format!("{mode:o}"))?;
        }
        Ok(())
    }

    fn no_set_user_id_programs() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let script = "/bin/ps -p $$ >/dev/null";
        succeeded("without the jail", &desk.control(script)?)?;
        failed("ps", &desk.run(&[], script)?)
    }

    fn git_names_stay_as_they_are() -> Result<(), Stop> {
        let desk = Desk::new()?;
        fs::create_dir_all(desk.path("work/.git/hooks"))?;
        let attacks = [
            "echo x > .git/hooks/pre-commit",
            "echo x > .GIT/config",
            "mkdir n && mkdir n/.git",
            "mkdir n && mv n sub.git && mv sub.git .Git",
            "mv .git other",
            "mkdir bare && echo x > bare/HEAD",
        ];
        for attack in attacks {
            failed(attack, &desk.run(&[], attack)?)?;
            succeeded(attack, &desk.run(&["--git", "off"], &format!("rm -rf n bare; {attack}"))?)?;
            for made in [".git", "other", "n", "bare", "sub.git"] {
                let _ = fs::remove_dir_all(desk.path("work").join(made));
            }
            fs::create_dir_all(desk.path("work/.git/hooks"))?;
        }
        succeeded(
            "an object",
            &desk.run(&[], "mkdir .git/objects && echo x > .git/objects/y && echo z > .git/HEAD")?,
        )
    }

    fn no_listener_is_reached() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let listener = Listener::start()?;
        let script = format!("/usr/bin/nc -z -w 2 127.0.0.1 {}", listener.address().port());
        succeeded("without the jail", &desk.control(&script)?)?;
        for net in ["none", "loopback"] {
            failed(net, &desk.run(&["--net", net], &script)?)?;
        }
        succeeded("host", &desk.run(&["--net", "host"], &script)?)?;
        let count = listener.into_count()?;
        expect(count == 2, || format!("{count} connections"))
    }

    fn no_process_outside_is_signalled() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let mut victim = Command::new("/bin/sleep").arg("60").spawn()?;
        let script = format!("kill -0 {}", victim.id());
        let control = desk.control(&script)?;
        let output = desk.run(&[], &script)?;
        let slower = format!("/usr/bin/renice 5 -p {}", victim.id());
        let slowed = [desk.run(&[], &slower)?, desk.control(&slower)?];
        victim.kill()?;
        victim.wait()?;
        succeeded("without the jail", &control)?;
        failed("kill", &output)?;
        failed("renice", &slowed[0])?;
        succeeded("without the jail", &slowed[1])?;
        succeeded("its own", &desk.run(&[], "sleep 60 & kill $! && ! wait $!")?)
    }

    /// Waits for a jailed command to say something, and returns it.
    fn say(mut command: Command) -> Result<(Child, String), Stop> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let mut reader = std::io::BufReader::new(child.stdout.take().into_iter().next().ok_or_else(gone)?);
        std::io::BufRead::read_line(&mut reader, &mut line)?;
        Ok((child, line.trim().to_owned()))
    }

    fn gone() -> Stop {
        Stop::Fail("no standard output".to_owned())
    }

    fn two_jails_are_apart() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let (mut other, pid) = say(desk.jail(&["--wall", "60s"], "echo $$; exec sleep 60"))?;
        let script = format!("kill -0 {pid}");
        let control = desk.control(&script)?;
        let output = desk.run(&[], &script)?;
        other.kill()?;
        other.wait()?;
        succeeded("without the jail", &control)?;
        failed("another jail's process", &output)
    }

    /// Whether the process table has a command line with this in it, by a program outside.
    fn lives(marker: &str) -> bool {
        let output = Command::new("/bin/ps").args(["-axo", "command"]).output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(marker))
    }

    /// A command that leaves its parent, its group and its session, and ignores what it can.
    fn daemon(marker: &str) -> String {
        format!(
            "/usr/bin/perl -e 'use POSIX; fork && exit; setsid; fork && exit; setpgrp; $SIG{{$_}} = \"IGNORE\" for qw(HUP \
             INT TERM); sleep 600' {marker} >/dev/null 2>&1 </dev/null"
        )
    }

    fn marker(of: &str) -> String {
        format!("agentkit-test-{of}-{}", std::process::id())
    }

    fn no_daemon_outlives_the_run() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let own = marker("control");
        succeeded("without the jail", &desk.control(&daemon(&own))?)?;
        eventually("the daemon runs", LONG, || lives(&own))?;
        Command::new("/usr/bin/pkill").args(["-KILL", "-f", &own]).status()?;
        let jailed = marker("jailed");
        succeeded("in the jail", &desk.run(&[], &format!("{}; sleep 0.3", daemon(&jailed)))?)?;
        expect(!lives(&jailed), || "a daemon is left".to_owned())
    }

    fn nothing_outlives_a_killed_helper() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let own = marker("orphan");
        let script = format!("{}; echo ready; sleep 600", daemon(&own));
        let (mut helper, ready) = say(desk.jail(&["--wall", "600s"], &script))?;
        expect(ready == "ready" && lives(&own), || format!("{ready:?}"))?;
        helper.kill()?;
        helper.wait()?;
        eventually("all of it dies", LONG, || !lives(&own))?;
        eventually("the private directories go", LONG, || desk.left().is_ok_and(|left| left.is_empty()))
    }

    fn variables_are_not_inherited() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let mut command = desk.jail(&["--env", "GIVEN=yes"], "env");
        let output = command.env("AGENTKIT_TEST_SECRET", "canary-of-the-test").output()?;
        succeeded("env", &output)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        expect(text.contains("GIVEN=yes") && !text.contains("canary-of-the-test"), || text.clone())
    }

    fn limits_end_the_run() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let memory = "/usr/bin/perl -e '$x = \"x\" x (300 << 20); sleep 60'";
        let output = desk.run(&["--memory", "64M"], memory)?;
        expect(output.status.code() == Some(137), || shown(&output))?;
        let disk = "cd \"$TMPDIR\" && for i in 1 2 3 4; do dd if=/dev/zero of=f$i bs=1m count=8 2>/dev/null; done; sleep 60";
        let output = desk.run(&["--disk", "16M"], disk)?;
        expect(output.status.code() == Some(137), || shown(&output))?;
        let begin = Instant::now();
        let output = desk.run(
            &["--cpu", "1s", "--wall", "60s"],
            "while :; do :; done & while :; do :; done & wait; sleep 60",
        )?;
        expect(matches!(output.status.code(), Some(137 | 152)), || shown(&output))?;
        expect(begin.elapsed() < Duration::from_secs(30), || "the processors were not bounded".to_owned())?;
        let bomb = "b() { b | b & }; b; sleep 1";
        let output = desk.run(&["--processes", "16", "--wall", "2s"], bomb)?;
        expect(output.status.code() != Some(125), || shown(&output))
    }

    fn output_is_cut_and_counted() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let output = desk.run(&["--output", "1K"], "yes | head -c 100000")?;
        succeeded("much output", &output)?;
        expect(output.stdout.len() == 1024, || format!("{} bytes", output.stdout.len()))?;
        expect(String::from_utf8_lossy(&output.stderr).contains("98976 bytes more"), || shown(&output))?;
        let mut command = desk.jail(&[], "cat");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        child.stdin.take().ok_or_else(gone)?.write_all(b"through")?;
        let output = child.wait_with_output()?;
        expect(output.stdout == b"through", || shown(&output))
    }

    fn signals_are_passed_on() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done";
        let (mut helper, ready) = say(desk.jail(&["--wall", "60s"], script))?;
        Command::new("/bin/kill").args(["-TERM", &helper.id().to_string()]).status()?;
        let status = helper.wait()?;
        expect(ready == "ready" && status.code() == Some(9), || format!("{ready:?} {status}"))
    }

    fn what_cannot_be_had_is_refused_by_name() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let refused = |output: Output, name: &str| {
            let told = String::from_utf8_lossy(&output.stderr).contains(name);
            expect(output.status.code() == Some(125) && told, || format!("{name}: {}", shown(&output)))
        };
        refused(desk.run(&["--tmpfs", &desk.text("outside")], "true")?, "empty directory")?;
        refused(desk.run(&["--rw", "/usr/local"], "true")?, "hand the host")?;
        let mut overlay = Command::new(env!("CARGO_BIN_EXE_agentkit-jail"));
        overlay.arg("--workdir").arg(format!("{}:overlay", desk.text("work"))).args(["--", "true"]);
        refused(overlay.output()?, "overlay")?;
        expect(desk.left()?.is_empty(), || "private directories are left".to_owned())
    }

    fn what_is_required_and_partial_is_refused() -> Result<(), Stop> {
        let desk = Desk::new()?;
        let output = desk.run(&["--require", "syscalls_filtered"], "echo ran > ran")?;
        expect(output.status.code() == Some(125), || shown(&output))?;
        expect(!desk.path("work/ran").exists(), || "it ran".to_owned())?;
        let mut strict = Command::new(env!("CARGO_BIN_EXE_agentkit-jail"));
        succeeded("--strict", &strict.args(["--strict", "--", "/usr/bin/true"]).output()?)
    }
}
