//! Attacks on the record of attempts: what was tried is seen, what was not tried cannot be made up.

use crate::attacks;
use crate::jail::who::Who;
use crate::scene::Scene;
use crate::support::Stop;
use agentkit_protocol::Attempt;

attacks![
    attempts_that_are_made,
    attempts_to_write,
    attempts_that_are_not_made,
    attempt_made_up_by_setting_the_times,
    attempt_made_up_by_replacing_the_path,
    attempt_on_another_port,
];

const PORT: u16 = 39_811;

/// What was opened and written of the path, how often the port was called, and what the payload said last.
fn record(who: Who, payload: &str) -> Result<((bool, bool), u64, String), Stop> {
    let scene = Scene::new(who)?;
    scene.canary("home/key")?;
    let key = scene.path("home/key");
    let attack =
        scene.attack(&format!("import socket\npath, port = arguments[0], int(arguments[1])\n{payload}"));
    let attack = attack.knows(&key).knows(PORT.to_string()).policy(|policy| {
        policy.watch.paths.push(key.clone().into());
        policy.watch.tcp_ports.push(PORT);
    });
    let inside = attack.jailed()?;
    inside.must_have_attempted()?;
    match &inside.ended()?.attempts[..] {
        [Attempt::Path { seen, written, .. }, Attempt::Tcp { count, .. }] => {
            Ok(((*seen, *written), *count, inside.answer()?))
        }
        other => Err(Stop::Fail(format!("{other:?}"))),
    }
}

fn attempts_that_are_made(who: Who) -> Result<(), Stop> {
    let opened = [
        "open(path).read()",
        "os.close(os.open(path, os.O_NOFOLLOW))",
        "os.close(os.open('key', 0, dir_fd=os.open(os.path.dirname(path), 0)))",
        "os.system('cat ' + path)",
    ];
    for open in opened {
        let payload = format!(
            "said = attempt(lambda: {open})\n\
             said += ' ' + attempt(socket.create_connection, ('127.0.0.1', port), 5)\n\
             answer(said)"
        );
        let (seen, count, said) = record(who, &payload)?;
        assert_eq!((seen, count), ((true, false), 1), "{open}: {said}");
        assert_eq!(said, "done ECONNREFUSED", "{open}");
    }
    Ok(())
}

/// Nothing that is written is there afterwards, and what holds the file open is closed by its end.
fn attempts_to_write(who: Who) -> Result<(), Stop> {
    let tried = [
        ("os.open(path, os.O_WRONLY)", "done"),
        ("os.open(path, os.O_RDWR | os.O_APPEND)", "done"),
        ("os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)", "done"),
        ("write(path, 'x')", "ENOSPC"),
        ("write(path, 'x' * 100_000)", "ENOSPC"),
        ("os.truncate(path, 5)", "done"),
        // Many events of another kind hide none.
        ("[os.close(os.open(path, 0)) for _ in range(20_000)] + [os.open(path, os.O_WRONLY)]", "done"),
    ];
    for (write, error) in tried {
        // A length that was given to it is one of zeros.
        let payload =
            format!("said = attempt(lambda: {write})\nanswer(said + ' ' + open(path).read().strip(chr(0)))");
        let (found, _, said) = record(who, &payload)?;
        assert_eq!((found, &said[..]), ((true, true), &*format!("{error} ")), "{write}");
    }
    Ok(())
}

/// Looking at a name is not opening what it names.
fn attempts_that_are_not_made(who: Who) -> Result<(), Stop> {
    let payload = "os.path.lexists(path); attempt(os.listdir, os.path.dirname(path)); attempt(open, path + 'x')\n\
                   attempt(os.stat, path); attempt(os.readlink, path); attempt(os.path.realpath, path)\n\
                   attempt(os.access, path, os.R_OK); attempt(os.execv, path, ['key'])\n\
                   s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                   attempt(s.sendto, b'x', ('127.0.0.1', port)); attempt(s.connect, ('127.0.0.1', port))\n\
                   print('open', path, 'No such file or directory; connect', port, 'refused')\n\
                   answer('nothing')";
    assert_eq!(record(who, payload)?, ((false, false), 0, "nothing".to_owned()));
    Ok(())
}

fn attempt_made_up_by_setting_the_times(who: Who) -> Result<(), Stop> {
    for times in ["", ", (time.time(), 5)", ", (5, 5)"] {
        let said =
            record(who, &format!("answer(attempt(lambda: os.utime(path{times}, follow_symlinks=False)))"))?;
        // Whether the kernel lets the jail do it or not: it does not count.
        assert_eq!(said.0, (false, false), "{said:?}");
    }
    Ok(())
}

fn attempt_made_up_by_replacing_the_path(who: Who) -> Result<(), Stop> {
    let payload = "attempt(os.rmdir, path); attempt(os.rename, path, path + '2'); attempt(os.unlink, path)\n\
                   attempt(os.symlink, 'x', path); attempt(os.mkdir, path)\n\
                   answer(str(os.stat(path).st_size))";
    let said = record(who, payload)?;
    assert_eq!((said.0, &said.2[..]), ((false, false), "0"));
    Ok(())
}

fn attempt_on_another_port(who: Who) -> Result<(), Stop> {
    let payload = "attempt(socket.create_connection, ('127.0.0.1', port + 1), 5)\n\
                   attempt(socket.create_connection, ('127.0.0.2', port), 5)\n\
                   listener = socket.create_server(('127.0.0.1', 0))\n\
                   socket.create_connection(listener.getsockname(), 5, ('127.0.0.1', port))\n\
                   answer('tried')";
    assert_eq!(record(who, payload)?, ((false, false), 0, "tried".to_owned()));
    Ok(())
}
