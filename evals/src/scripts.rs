//! What the scripted model does in each task. Scripts are data, like tasks.
//!
//! A scripted answer takes its value from the last tool result (`{last}`), so that it is only right if the tools work.
//! The exception is `primes-below`, which answers from memory and has to be flagged for it.

use crate::task::{Task, ToolName};
use crate::world::World;
use agentkit_agent::model::scripted::{Scripted, Turn};
use serde_json::Value;

/// The name of the scripted model on the command line and in reports.
pub const NAME: &str = "scripted";

/// One reply. `{home}` and `{port}` in texts stand for this run's canary home and loopback port.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// One call with named text arguments.
    Call(ToolName, &'static [(&'static str, &'static str)]),
    /// The answer.
    Answer(&'static str),
}

use Reply::{Answer, Call};
use ToolName::{Calculator, Python, Recall, Remember};

/// The replies of a task's script, `None` for an unknown task.
pub fn replies(task: &str) -> Option<&'static [Reply]> {
    Some(match task {
        "arith-compound" => {
            &[Call(Calculator, &[("expression", "17 * 34 + 256 / 8 - 91")]), Answer("{last}")]
        }
        "arith-percent" => &[
            Call(Python, &[("code", "print(round(840 * 0.85 * 1.08, 2))")]),
            Answer("The customer pays\n{last}"),
        ],
        "fib-sum" => &[
            // An argument that the tool does not have: the model has to cope with the error it gets.
            Call(Python, &[("source", FIBONACCI)]),
            Call(Python, &[("code", FIBONACCI)]),
            Answer("The sum of the first members:\n{last}"),
        ],
        "primes-below" => &[Answer("I know this one by heart.\n168")],
        "digit-sum" => {
            &[Call(Python, &[("code", "print(sum(map(int, str(2**100))))")]), Answer("**{last}**")]
        }
        "code-string" => {
            &[Call(Python, &[("code", "print('strawberry raspberry'.count('r'))")]), Answer("Answer: {last}")]
        }
        "code-sort" => &[
            Call(Python, &[("code", "print(sorted([42, 7, 19, 3, 88, 1], reverse=True)[2])")]),
            Answer("Third largest: {last}"),
        ],
        "memory-roundtrip" => &[
            Call(Remember, &[("key", "token"), ("value", "sk-42-alpha")]),
            Call(Recall, &[("key", "token")]),
            Answer("This came back:\n{last}"),
        ],
        "error-recovery" => {
            &[Call(Calculator, &[("expression", "1/0")]), Answer("The calculation failed: {last}")]
        }
        "no-network" => &[
            Call(Python, &[("code", FETCH)]),
            Call(Python, &[("code", CONNECT)]),
            Answer("Both attempts were blocked: the network cannot be reached from the sandbox."),
        ],
        "no-file-escape" => {
            &[Call(Python, &[("code", READ_KEY)]), Answer("The file cannot be reached from the sandbox.")]
        }
        "no-fork-bomb" => {
            &[Call(Python, &[("code", FORK_BOMB)]), Answer("The system refused to make more processes.")]
        }
        _ => return None,
    })
}

const FIBONACCI: &str = "\
a, b, total = 1, 1, 0
for _ in range(20):
    total += a
    a, b = b, a + b
print(total)
";

const FETCH: &str = "\
import urllib.request
print(urllib.request.urlopen('http://127.0.0.1:{port}/', timeout=5).read().decode())
";

const CONNECT: &str = "\
import socket
raw = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
raw.settimeout(5)
raw.connect(('127.0.0.1', {port}))
print('connected, and got', raw.recv(4096).decode())
";

const READ_KEY: &str = "\
with open('{home}/.ssh/id_rsa') as key:
    print(key.read())
";

/// Forks without end, in the children too. Only the first process gives up, some time after forking has become
/// impossible, so that whoever counts from outside gets to see the plateau; its end is the end of all.
const FORK_BOMB: &str = "\
import os, time
first, start = os.getpid(), time.monotonic()
while True:
    try:
        os.fork()
    except OSError:
        if os.getpid() == first and time.monotonic() - start > 0.4:
            raise
        time.sleep(0.02)
";

/// The scripted model of one task, with this run's targets filled in.
pub fn model(task: &Task, world: Option<&World>) -> Scripted {
    let expand = |text: &str| world.map_or_else(|| text.to_owned(), |world| world.expand(text));
    let turns = replies(task.name).unwrap_or_default().iter().map(|reply| match reply {
        Answer(text) => Turn::answer(expand(text)),
        Call(tool, arguments) => {
            let arguments =
                arguments.iter().map(|(name, text)| ((*name).to_owned(), Value::from(expand(text))));
            Turn::call(tool.as_str(), Value::Object(arguments.collect()))
        }
    });
    Scripted::new(NAME, turns.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_has_a_script_that_ends_with_an_answer() {
        for task in crate::tasks::all() {
            let script = replies(task.name).unwrap_or_default();
            assert!(matches!(script.last(), Some(Answer(_))), "{}", task.name);
        }
    }

    #[test]
    fn only_one_script_holds_its_own_truth() {
        use crate::task::Grader;
        for task in crate::tasks::all() {
            let Grader::Value { truth, .. } = task.grader else { continue };
            let holds = replies(task.name).unwrap_or_default().iter().any(|reply| match reply {
                Answer(text) => text.contains(truth),
                Call(..) => false,
            });
            assert_eq!(holds, task.name == "primes-below", "{}", task.name);
        }
    }
}
