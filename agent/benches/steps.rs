//! What the runtime adds to a step, with a model and a tool that take no time.
//!
//! Two claims are checked, and the program fails if one does not hold: less than a millisecond a step, and time and
//! memory that grow with the number of steps and no faster. The times are of a whole step: asking the model on its
//! thread, checking the arguments, running the tool on its thread, keeping the books.

use agentkit_agent::model::{Message, Reply, Request, ToolCall};
use agentkit_agent::{
    Agent, AgentEvent, Bounds, Context, EventSink, Model, ModelError, Registry, StopReason, Transcript, tool,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Does nothing.
#[tool]
fn nothing(_number: usize) -> &'static str {
    "done"
}

/// Replies so often: calls the tool, each time with other arguments, and answers at the last.
struct Calls(usize);

impl Model for Calls {
    fn name(&self) -> &str {
        "calls"
    }

    fn reply(&self, _context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        let replies = request.messages.len() / 2 + 1;
        let number = self.0.saturating_sub(replies);
        if number == 0 {
            return Ok(Reply { text: "done".to_owned(), ..Reply::default() });
        }
        let arguments = format!("{{\"_number\":{number}}}");
        let call = ToolCall { id: String::new(), name: "nothing".to_owned(), arguments };
        Ok(Reply { calls: vec![call], tokens: Some(1), ..Reply::default() })
    }
}

struct Count;

impl EventSink for Count {
    fn emit(&self, event: AgentEvent) {
        std::hint::black_box(event);
    }
}

/// A run of so many steps: its time, and by how much the memory of the process was larger at its end than before.
fn run(steps: usize, recorded: bool) -> (Duration, usize) {
    let mut registry = Registry::new();
    registry.add(nothing::tool()).expect("a tool");
    let bounds = Bounds {
        max_steps: steps,
        max_calls: steps,
        max_tokens: u64::MAX,
        context_tokens: u64::MAX,
        wall: Duration::from_secs(600),
        ..Bounds::default()
    };
    let directory = tempfile::tempdir().expect("a directory");
    let mut agent = Agent::new(Calls(steps), registry).bounds(bounds);
    if recorded {
        let transcript = Transcript::create(directory.path().join("run.jsonl")).expect("a transcript");
        agent = agent.transcript(transcript).events(Arc::new(Count));
    }
    let (before, started) = (resident(), Instant::now());
    let trajectory = agent.run("go");
    let (elapsed, after) = (started.elapsed(), resident());
    assert_eq!((&trajectory.stop, trajectory.steps.len()), (&StopReason::Answered, steps));
    let results = |message: &&Message| matches!(message, Message::Tool { .. });
    assert_eq!(trajectory.conversation.messages().iter().filter(results).count(), steps - 1);
    (elapsed, after.saturating_sub(before))
}

/// Bytes of memory in use, where Linux tells.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or_default() * 4096
}

/// Processor time of all threads so far, where Linux tells: the 14th and 15th field of proc_pid_stat(5), in hundredths of
/// a second.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = after_name.split_whitespace().skip(11).take(2).flat_map(str::parse::<u32>);
    Duration::from_millis(10) * ticks.sum::<u32>()
}

/// Runs of a length, in all so many steps.
struct Measured {
    best: Duration,
    processor: Duration,
    memory: usize,
}

const STEPS: usize = 10_000;

fn measure(steps: usize, recorded: bool) -> Measured {
    let before = processor();
    let runs = (0..STEPS / steps).map(|_| run(steps, recorded));
    let (best, memory) = runs.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))).expect("a run");
    let each = |time: Duration, of: usize| time / of as u32;
    Measured { best: each(best, steps), processor: each(processor() - before, STEPS), memory }
}

fn main() {
    // The first run pays for what every program pays once.
    run(100, true);
    println!(
        "{:>6}  {:>12}  {:>12}  {:>12}  {:>24}",
        "steps", "a step", "processor", "memory", "with transcript, events"
    );
    let mut processor = Vec::new();
    for steps in [10, 100, 1_000, 10_000] {
        let (plain, recorded) = (measure(steps, false), measure(steps, true));
        println!(
            "{steps:>6}  {:>12.1?}  {:>12.1?}  {:>8} KiB  {:>24.1?}",
            plain.best,
            plain.processor,
            plain.memory >> 10,
            recorded.best
        );
        assert!(recorded.best < Duration::from_millis(1), "a millisecond a step or more");
        processor.push(plain.processor);
    }
    // What a busy machine takes away shows in the time, not here.
    assert!(processor[3] <= processor[1] * 2, "a step of a long run costs more than one of a short run");
}
