//! What the helper must refuse: code 125, one line, and nothing runs.

use super::judge::{one_line_and_125, refused, text};
use crate::jail::desk::{Desk, json};
use crate::jail::stage::helper;
use crate::support::{Stop, need::need, user, write_program};
use crate::tests;
use agentkit_protocol::{Access, Bytes, Choice, FailureKind, Policy, Rule, WorkDir, frame};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

tests![
    truncated_frames_run_nothing,
    truncated_json_runs_nothing,
    malformed_policies_run_nothing,
    wrong_versions_run_nothing,
    oversized_policies_run_nothing,
    random_bytes_run_nothing,
    policies_that_ask_for_too_much_run_nothing,
    wrong_arguments_run_nothing,
    a_client_without_a_socket_runs_nothing,
    too_many_rules_for_the_launchers_descriptors,
    hostile_text_in_a_policy_stays_on_one_line,
    a_helper_with_borrowed_privileges_refuses
];

/// The helper must not run anything on this input. What it says names a reason.
fn runs_nothing(desk: &Desk, input: &[u8]) -> Result<String, Stop> {
    let run = desk.launch_after("", input)?;
    assert_eq!(refused(desk, &run, 125)?, FailureKind::Policy, "{:?}", input.escape_ascii().to_string());
    Ok(run.failure()?.message)
}

fn truncated_frames_run_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let whole = frame::encode(&desk.tracer())?;
    for end in (1..14).chain((14..whole.len()).step_by(9)).chain([whole.len() - 1]) {
        let message = runs_nothing(&desk, &whole[..end])?;
        assert!(message.contains("truncated"), "{end}: {message}");
    }
    Ok(())
}

fn truncated_json_runs_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let whole = json(&desk.tracer())?;
    for end in (1..whole.len()).step_by(23).chain([whole.len() - 1]) {
        assert!(runs_nothing(&desk, &whole[..end])?.contains("malformed JSON"));
    }
    assert!(runs_nothing(&desk, b"")?.contains("empty"));
    Ok(())
}

fn malformed_policies_run_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let valid = text(&json(&desk.tracer())?);
    let with = |field: &str| valid.replacen('{', &format!("{{{field},"), 1).into_bytes();
    assert!(runs_nothing(&desk, &with(r#""evil":1"#))?.contains("evil"));
    assert!(runs_nothing(&desk, &with(r#""version":1"#))?.contains("version"), "a field twice");
    assert!(
        runs_nothing(&desk, &valid.replace(r#""wall_ms""#, r#""wall_s""#).into_bytes())?.contains("wall_s")
    );
    assert!(runs_nothing(&desk, &valid.replace(r#""bind""#, r#""own""#).into_bytes())?.contains("own"));
    for tail in ["x", "{}", "\0", &valid] {
        runs_nothing(&desk, format!("{valid}{tail}").as_bytes())?;
    }
    let frame = frame::encode(&desk.tracer())?;
    for tail in [&b"x"[..], b"\0", &frame] {
        assert!(runs_nothing(&desk, &[&frame, tail].concat())?.contains("left over"));
    }
    for junk in [&b"\xff\xfe{}"[..], b"null", b"[]", b"\"\"", b"{}", b"A", b"AKJ", b"AKJ\x01", b"\0"] {
        runs_nothing(&desk, junk)?;
    }
    runs_nothing(&desk, &vec![b'['; 100_000])?;
    Ok(())
}

fn wrong_versions_run_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for version in [0, 2, u16::MAX] {
        let policy = Policy { version, ..desk.tracer() };
        for input in [json(&policy)?, frame::encode(&policy)?] {
            assert!(runs_nothing(&desk, &input)?.contains(&format!("version {version} is not supported")));
        }
        let mut frame = frame::encode(&desk.tracer())?;
        frame[4..6].copy_from_slice(&version.to_le_bytes());
        assert!(runs_nothing(&desk, &frame)?.contains(&format!("version {version} is not supported")));
    }
    Ok(())
}

fn oversized_policies_run_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for announced in [u32::MAX, frame::MAX_PAYLOAD as u32 + 1] {
        let mut frame = frame::encode(&desk.tracer())?;
        frame[6..10].copy_from_slice(&announced.to_le_bytes());
        assert!(runs_nothing(&desk, &frame)?.contains("oversized"));
    }
    let mut padded = json(&desk.tracer())?;
    padded.resize(frame::MAX_PAYLOAD + 1, b' ');
    assert!(runs_nothing(&desk, &padded)?.contains("oversized"));
    Ok(())
}

fn random_bytes_run_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let valid = frame::encode(&desk.tracer())?;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        // xorshift64, Marsaglia 2003.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..24 {
        let mut bytes: Vec<u8> = (0..next() % 200).map(|_| next() as u8).collect();
        if round % 2 == 0 {
            // Past the header, so that the decoder sees it.
            let length = (bytes.len() as u32).to_le_bytes();
            bytes = [&valid[..6], &length, &bytes].concat();
        }
        runs_nothing(&desk, &bytes)?;
    }
    Ok(())
}

fn policies_that_ask_for_too_much_run_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let missing = desk.path("missing").to_string_lossy().into_owned();
    let file = desk.path("outputs/out").to_string_lossy().into_owned();
    for path in [
        "/",
        "/etc",
        "/usr",
        "/proc/self",
        "/dev/shm",
        "/tmp",
        "/home",
        "/root",
        "/var",
        "/run",
        &file,
        &missing,
    ] {
        let policy = Policy { workdir: WorkDir::Bind(Bytes::from(path)), ..desk.tracer() };
        let run = desk.launch(&policy)?;
        assert_eq!(run.status.code(), Some(125), "{path}: {run:?}");
        assert!(run.failure()?.message.contains(path.trim_end_matches("/self")), "{run:?}");
        assert!(!desk.ran());
    }
    Ok(())
}

fn wrong_arguments_run_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let policy = json(&desk.tracer())?;
    let wrong: [&[&str]; 8] = [
        &["--unknown"],
        &["--"],
        &["--json"],
        &["--report-fd"],
        &["--report-fd", "1"],
        &["--report-fd", "99"],
        &["--probe", "--report-fd", "5"],
        &["-c"],
    ];
    for arguments in wrong {
        one_line_and_125(&desk, &desk.call(arguments, &policy)?);
    }
    Ok(())
}

fn a_client_without_a_socket_runs_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for arguments in [&["--client"][..], &["--probe", "--client"]] {
        let output = desk.call(arguments, &frame::encode(&desk.tracer())?)?;
        one_line_and_125(&desk, &output);
        assert!(text(&output.stderr).contains("is no socket"), "{output:?}");
    }
    Ok(())
}

/// Root needs a descriptor for each, all at once.
fn too_many_rules_for_the_launchers_descriptors() -> Result<(), Stop> {
    need("root")?;
    let desk = Desk::new()?;
    let rule = |at: u32| -> Result<Rule, Stop> {
        let path = desk.path(&format!("outputs/{at}"));
        fs::write(&path, "")?;
        Ok(Rule { path: Bytes::from(path), access: Access::Ro })
    };
    let rules = (0..200).map(rule).collect::<Result<_, _>>()?;
    let script = "ulimit -n 200; exec setpriv --bounding-set -sys_resource \"$@\"";
    let before = ["sh", "-c", script, "sh"].map(str::to_owned);
    let policy = Policy { rules, mechanism: Choice::Namespaces, ..desk.tracer() };
    let output = desk.call_under(&before, &[], &json(&policy)?)?;
    one_line_and_125(&desk, &output);
    assert!(text(&output.stderr).contains("fs.nr_open"), "{output:?}");
    Ok(())
}

fn hostile_text_in_a_policy_stays_on_one_line() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let hostile = "\n\x1b[2Jagentkit-jail: all is well\r\n\u{202e}";
    let policies = [
        Policy { argv: vec![Bytes::from(hostile)], ..desk.tracer() },
        Policy { workdir: WorkDir::Bind(Bytes::from(hostile)), ..desk.tracer() },
        Policy { env: [(format!("{hostile}="), Bytes::default())].into(), ..desk.tracer() },
        Policy { files: [(format!("{hostile}/"), Bytes::default())].into(), ..desk.tracer() },
    ];
    for policy in policies {
        let output = desk.call(&[], &json(&policy)?)?;
        let message = text(&output.stderr);
        assert!(message.trim_end_matches('\n').chars().all(|c| !c.is_control()), "{message:?}");
        assert!([Some(125), Some(127)].contains(&output.status.code()) && !desk.ran(), "{output:?}");
    }
    Ok(())
}

fn a_helper_with_borrowed_privileges_refuses() -> Result<(), Stop> {
    need("root")?;
    let desk = Desk::new()?;
    let borrowed = desk.path("borrowed");
    fs::set_permissions(desk.path("work"), fs::Permissions::from_mode(0o777))?;
    // `cap_net_bind_service=ep` in revision 2 of the kernel's struct vfs_cap_data, see capabilities(7).
    let capability = "import os, struct, sys; \
                      os.setxattr(sys.argv[1], 'security.capability', struct.pack('<5I', 0x02000001, 1 << 10, 0, 0, 0))";
    for (mode, script) in [(0o4755, ""), (0o2755, ""), (0o755, capability)] {
        write_program(&borrowed, &fs::read(helper())?)?;
        fs::set_permissions(&borrowed, fs::Permissions::from_mode(mode))?;
        assert!(Command::new("python3").args(["-c", script]).arg(&borrowed).status()?.success());
        let mut command = user::unprivileged(&borrowed)?;
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(&json(&desk.tracer())?);
        }
        let output = child.wait_with_output()?;
        one_line_and_125(&desk, &output);
        assert!(text(&output.stderr).contains("set-user-id"), "{output:?}");
    }
    Ok(())
}
