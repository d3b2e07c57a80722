//! A model that says again what was recorded, and nothing else.

use super::recording::{Line, Outcome, VERSION, digest};
use super::{Message, Model, ModelError, Reply, Request};
use crate::clip::excerpt;
use crate::context::Context;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Answers from the record of a [`Recording`](super::recording::Recording). A request that was made several times gets
/// its answers in their order, once each. Another request, or one time too many, is an error.
pub struct Replay {
    name: String,
    answers: Mutex<HashMap<String, VecDeque<Outcome>>>,
}

impl Replay {
    /// Replays these lines under a name.
    ///
    /// # Errors
    /// If a line is not one of a record, or of another version. The last one may be torn, as an end of the recording
    /// program can leave it: without its end of line it does not count.
    pub fn new(name: impl Into<String>, lines: &str) -> Result<Self, ModelError> {
        let name = name.into();
        let mut answers: HashMap<String, VecDeque<Outcome>> = HashMap::new();
        let whole = lines.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        for (number, text) in (1..).zip(whole) {
            let refuse =
                |why: String| ModelError::new(format!("line {number} of the recording `{name}`: {why}"));
            let line: Line = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
            if line.version != VERSION {
                return Err(refuse(format!("version {} is not {VERSION}", line.version)));
            }
            answers.entry(line.request).or_default().push_back(line.outcome);
        }
        Ok(Replay { name, answers: Mutex::new(answers) })
    }

    /// Replays a file, under its name.
    ///
    /// # Errors
    /// As [`Replay::new`], and if the file cannot be read.
    pub fn open(file: &Path) -> Result<Self, ModelError> {
        let name = file.display().to_string();
        let lines = std::fs::read_to_string(file)
            .map_err(|error| ModelError::new(format!("the recording `{name}` cannot be read: {error}")))?;
        Replay::new(name, &lines)
    }

    /// How many answers were not asked for yet.
    pub fn left(&self) -> usize {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).values().map(VecDeque::len).sum()
    }
}

impl Model for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    fn reply(&self, _context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = answers.get_mut(&digest(request));
        let why = match recorded {
            None => "was not recorded",
            Some(answers) => match answers.pop_front() {
                Some(Outcome::Reply(reply)) => return Ok(reply),
                Some(Outcome::Error(error)) => return Err(error),
                None => "was recorded fewer times than it is made",
            },
        };
        let (name, asked) = (&self.name, describe(request));
        Err(ModelError::new(format!("a request that the recording `{name}` is asked for {why}: {asked}")))
    }
}

/// What a request looks like to people.
fn describe(request: &Request<'_>) -> String {
    let last = request.messages.last().map(|message| match message {
        Message::System(text) => ("of the system", text),
        Message::User(text) => ("of the user", text),
        Message::Assistant(reply) => ("of the model", &reply.text),
        Message::Tool { text, .. } => ("of a tool", text),
    });
    let (whose, text) = last.map_or(("", String::new()), |(whose, text)| (whose, excerpt(text, 80)));
    let (messages, tools) = (request.messages.len(), request.tools.len());
    format!("{messages} message(s), {tools} tool(s), the last message {whose}: {text}")
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("name", &self.name).field("left", &self.left()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::recording::Recording;
    use crate::model::scripted::{Scripted, Turn};
    use crate::model::{Finish, ModelErrorKind, ToolCall};
    use proptest::prelude::*;
    use std::io::{self, Write};
    use std::sync::Arc;

    /// Keeps what is written where a test can see it.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Kept {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("lock").clone()).expect("text")
        }
    }

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("lock").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Says this, whatever it is asked.
    struct Says(Result<Reply, ModelError>);

    impl Model for Says {
        fn name(&self) -> &str {
            "says"
        }

        fn reply(&self, _context: &Context, _request: &Request<'_>) -> Result<Reply, ModelError> {
            self.0.clone()
        }
    }

    fn ask(model: &impl Model, text: &str) -> Result<Reply, ModelError> {
        let messages = [Message::User(text.to_owned())];
        model.reply(&Context::detached(), &Request { messages: &messages, tools: &[] })
    }

    #[test]
    fn what_was_recorded_is_said_again_and_nothing_else() {
        let kept = Kept::default();
        let script = Scripted::new("script", vec![Turn::answer("yes")]);
        let recording = Recording::new(script, kept.clone());
        let reply = ask(&recording, "a").expect("a reply");
        assert_eq!(recording.name(), "script");
        let replay = Replay::new("r", &kept.text()).expect("a record");
        let error = ask(&replay, "b\n").expect_err("something else").message;
        assert!(
            error.contains("was not recorded: 1 message(s), 0 tool(s), the last message of the user: b\\n"),
            "{error}"
        );
        assert_eq!((ask(&replay, "a"), replay.left()), (Ok(reply), 0));
        let error = ask(&replay, "a").expect_err("once too many").message;
        assert!(error.contains("fewer times"), "{error}");
    }

    #[test]
    fn errors_are_recorded_and_several_answers_keep_their_order() {
        let kept = Kept::default();
        let overflow = ModelError { kind: ModelErrorKind::ContextOverflow, message: "full".to_owned() };
        let say = |says| ask(&Recording::new(Says(says), kept.clone()), "a");
        assert!(say(Err(overflow.clone())).is_err());
        assert!(say(Ok(Reply::default())).is_ok());
        let replay = Replay::new("r", &kept.text()).expect("a record");
        assert_eq!((ask(&replay, "a"), ask(&replay, "a")), (Err(overflow), Ok(Reply::default())));
    }

    #[test]
    fn a_record_that_cannot_be_kept_or_read_is_refused() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
                Err(io::Error::other("no space"))
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = ask(&Recording::new(Says(Ok(Reply::default())), Full), "a").expect_err("not recorded");
        assert_eq!(error.message, "the reply of `says` cannot be recorded: no space");
        let error = |lines: &str| Replay::new("r", lines).expect_err(lines).message;
        assert!(error("{}\n").starts_with("line 1 of the recording `r`: "));
        let newer = r#"{"version":2,"request":"","reply":{}}"#
            .replace("{}", &serde_json::json!(Reply::default()).to_string());
        assert_eq!(error(&format!("{newer}\n")), "line 1 of the recording `r`: version 2 is not 1");
        assert_eq!(Replay::new("r", "{\"version\":1,\"req").expect("a torn line").left(), 0);
    }

    proptest! {
        #[test]
        fn any_reply_survives(text in "\\PC*", arguments in any::<String>(), cut in any::<bool>()) {
            let call = ToolCall { id: "c".to_owned(), name: "t".to_owned(), arguments };
            let finish = if cut { Finish::Cut(text.clone()) } else { Finish::Refused };
            let reasoning = Some(text.clone());
            let reply = Reply { text, calls: vec![call], finish, tokens: Some(u64::MAX), reasoning };
            let kept = Kept::default();
            let recorded = ask(&Recording::new(Says(Ok(reply)), kept.clone()), "a");
            prop_assert_eq!(kept.text().lines().count(), 1);
            prop_assert_eq!(ask(&Replay::new("r", &kept.text()).expect("a record"), "a"), recorded);
        }

        #[test]
        fn any_lines_are_a_record_or_an_error(lines in "(\\{|\"version\":1|,|\"request\":\"\"|\"reply\":|\\}|\n|\\PC){0,20}") {
            let _ = Replay::new("r", &lines);
        }
    }
}
