//! What a run may use up, and what the model is told when it has.

use std::time::Duration;

/// The bounds of one run. Each is always in force; there is no "unlimited".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Calls of the model. An answer on the last one counts; tool calls on the last one are not run, since the model
    /// could never read their results.
    pub max_steps: usize,
    /// Calls of tools in the whole run, refused ones included. An answer after the last one counts; a call more ends
    /// the run.
    pub max_calls: usize,
    /// Calls of one reply that are run, in their order. The others are answered as not run.
    pub max_calls_per_reply: usize,
    /// Calls of one reply that are run side by side, each on a thread of its own, if they change nothing. Zero counts
    /// as one.
    pub max_parallel_calls: usize,
    /// Calls in a row that return an error, whatever their arguments. A call that is not run counts neither way; one
    /// that was refused is an error. Zero counts as one.
    pub max_consecutive_errors: usize,
    /// Tokens of all prompts and replies together. Where the endpoint does not report them, or says zero, a quarter of
    /// the bytes sent and received is used instead: an estimate, never zero.
    pub max_tokens: u64,
    /// Tokens of the model's context window. When three quarters of it are used, the oldest part of the conversation
    /// is left out, by the rule of [`Conversation`](crate::Conversation). How many are used is what the endpoint said
    /// of the last reply plus a quarter of the bytes since, or a quarter of all bytes if it said nothing.
    pub context_tokens: u64,
    /// Wall-clock time of the run. It also is the deadline of each call of the model and of each tool: the model is
    /// not waited for any longer, a tool a second more, so that it can report what it was killed at.
    pub wall: Duration,
    /// How often one call may return the same result before the run stops. The last result within the limit carries a
    /// warning. Zero counts as one.
    pub repeat_limit: usize,
    /// Bytes of one tool result. Of a longer one the model reads head and tail, and a note with the sizes.
    pub max_result_bytes: usize,
    /// Bytes of one reply, its thinking included; each call counts for 256 more. A longer one is dropped, and ends the
    /// run.
    pub max_reply_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            max_steps: 20,
            max_calls: 200,
            max_calls_per_reply: 100,
            max_parallel_calls: 4,
            max_consecutive_errors: 10,
            max_tokens: 1_000_000,
            context_tokens: 128_000,
            wall: Duration::from_secs(300),
            repeat_limit: 3,
            max_result_bytes: 16 << 10,
            max_reply_bytes: 16 << 20,
        }
    }
}

/// Why a call is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotRun {
    Steps,
    Calls,
    CallsPerReply,
    Errors,
    Tokens,
    Wall,
    Repeated,
    /// The same call was already answered with the advice in this very reply.
    Twin,
    Cancelled,
    /// The reply was cut for the reason named.
    Cut(String),
    Declined,
    /// Somebody who was asked about a call wants no more of them.
    Stopped,
    /// The transcript could not be written, for the reason named.
    Unrecorded(String),
}

impl Bounds {
    /// What the model reads as the result of a call that is not run.
    pub(crate) fn message(&self, why: &NotRun) -> String {
        match why {
            NotRun::Steps => {
                format!("not run: the limit of {} is reached", count(self.max_steps, "model call"))
            }
            NotRun::Calls => {
                format!("not run: the limit of {} is reached", count(self.max_calls, "tool call"))
            }
            NotRun::Errors => {
                let calls = count(self.max_consecutive_errors.max(1), "call");
                format!("not run: the last {calls} returned errors, so the run stops here")
            }
            NotRun::CallsPerReply => {
                let calls = count(self.max_calls_per_reply, "call");
                format!("not run: of one reply at most {calls} can be run; make the others again in the next")
            }
            NotRun::Tokens => format!("not run: the budget of {} tokens is used up", self.max_tokens),
            NotRun::Wall => format!("not run: the time budget of {} is used up", seconds(self.wall)),
            NotRun::Repeated => {
                "not run: the same call has kept returning the same result, so the run stops here".to_owned()
            }
            NotRun::Twin => {
                "not run: the same call in this reply has just returned the same result again".to_owned()
            }
            NotRun::Cancelled => "not run: the run was cancelled".to_owned(),
            NotRun::Cut(reason) => {
                format!(
                    "not run: the reply was cut ({reason}), so its calls may be incomplete; make a shorter call"
                )
            }
            NotRun::Declined => "not run: the reply was a refusal".to_owned(),
            NotRun::Stopped => "not run: the run was stopped when its call was to be approved".to_owned(),
            NotRun::Unrecorded(why) => format!("not run: the transcript cannot be written: {why}"),
        }
    }

    /// What is appended to the last result that [`Bounds::repeat_limit`] allows.
    pub(crate) fn advice(&self) -> String {
        let times = count(self.repeat_limit.max(1), "time");
        format!(
            "[This call with the same arguments has returned the same result {times}. Once more stops the run: \
             change the arguments, use another tool, or answer with what you have.]"
        )
    }
}

fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_bound_and_its_size() {
        let bounds = Bounds { max_steps: 1, wall: Duration::from_millis(1500), ..Bounds::default() };
        assert_eq!(bounds.message(&NotRun::Steps), "not run: the limit of 1 model call is reached");
        assert!(bounds.message(&NotRun::CallsPerReply).contains("at most 100 calls"));
        assert_eq!(bounds.message(&NotRun::Calls), "not run: the limit of 200 tool calls is reached");
        assert!(bounds.message(&NotRun::Errors).contains("the last 10 calls"));
        assert_eq!(bounds.message(&NotRun::Wall), "not run: the time budget of 1.5 s is used up");
        assert_eq!(bounds.message(&NotRun::Tokens), "not run: the budget of 1000000 tokens is used up");
        assert!(bounds.message(&NotRun::Cut("length".to_owned())).contains("length"));
        assert!(bounds.advice().contains("3 times"));
    }
}
