//! The examples: a policy each, and what comes out.

use crate::jail::desk::Desk;
use crate::support::Stop;
use agentkit_protocol::Policy;
use serde_json::Value;

/// One example.
pub(crate) struct Example {
    /// What is in the comment in front of it.
    pub(crate) name: &'static str,
    policy: &'static str,
    /// Which line of the report it is, by its only key.
    event: &'static str,
}

const fn example(name: &'static str, policy: &'static str, event: &'static str) -> Example {
    Example { name, policy, event }
}

const WATCHED: &str = r#"{"version": 1, "argv": ["sh", "-c", "cat /srv/shop/key; sh -c 'exit 3'; exit 4"],
    "watch": {"paths": ["/srv/shop/key"], "tcp_ports": [8080], "forks": true}}"#;

const OVERLAY: &str = r#"{"version": 1, "argv": ["sh", "-c", "echo x > made; mkfifo pipe"],
    "workdir": {"overlay": {"path": ".", "commit": "on_success"}}}"#;

pub(crate) const EXAMPLES: [Example; 8] = [
    example("started", r#"{"version": 1, "argv": ["true"]}"#, "started"),
    example("ended", r#"{"version": 1, "argv": ["sh", "-c", "exit 3"]}"#, "ended"),
    example("wall clock", r#"{"version": 1, "argv": ["sleep", "60"], "limits": {"wall_ms": 50}}"#, "ended"),
    example("watched", WATCHED, "ended"),
    example("overlay", OVERLAY, "ended"),
    example("not found", r#"{"version": 1, "argv": ["no-such-program"]}"#, "failed"),
    example("policy", r#"{"version": 1, "argv": ["true"], "limits": {"processes": 1}}"#, "failed"),
    example(
        "required",
        r#"{"version": 1, "argv": ["true"], "workdir": {"bind": "."}, "require": ["network_blocked"]}"#,
        "failed",
    ),
];

impl Example {
    /// The line of the report that it shows.
    pub(crate) fn make(&self) -> Result<Value, Stop> {
        let desk = Desk::new()?;
        let policy: Policy = serde_json::from_str(self.policy)?;
        let run = desk.launch(&policy)?;
        let events: Vec<Value> =
            run.report.iter().map(|line| serde_json::from_str(line)).collect::<Result<_, _>>()?;
        let shown = events.into_iter().find(|event| event.get(self.event).is_some());
        let mut shown =
            shown.ok_or_else(|| Stop::Fail(format!("{} has no such event: {run:?}", self.name)))?;
        if let Some(helper) = shown.pointer_mut("/started/helper") {
            *helper = "/usr/local/bin/agentkit-jail".into();
        }
        Ok(shown)
    }

    fn fence(&self) -> String {
        format!("<!-- example: {} -->\n```json\n", self.name)
    }

    /// Before, inside and after the block in the document.
    fn split<'a>(&self, text: &'a str) -> Result<[&'a str; 3], Stop> {
        let parts = text.split_once(&self.fence()).and_then(|(before, rest)| {
            let (inside, after) = rest.split_once("\n```")?;
            Some([before, inside, after])
        });
        parts.ok_or_else(|| Stop::Fail(format!("there is no block after {:?}", self.fence())))
    }

    pub(crate) fn find(&self, text: &str) -> Result<Value, Stop> {
        Ok(serde_json::from_str(self.split(text)?[1])?)
    }

    pub(crate) fn replace(&self, text: &str) -> Result<String, Stop> {
        let [before, _, after] = self.split(text)?;
        Ok(format!("{before}{}{}\n```{after}", self.fence(), serde_json::to_string_pretty(&self.make()?)?))
    }
}

/// Whether it is the same but for what differs from run to run and host to host: numbers that were measured, who
/// launched, and how far a control holds.
pub(crate) fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| {
                    let with = other.get(key);
                    match &key[..] {
                        "controls" => with.is_some_and(|with| keys(value) == keys(with)),
                        // Which of the launcher's own limits bind is up to the launcher.
                        "launchers_limits" => with.is_some_and(Value::is_object),
                        "exit" | "signal" | "errno" => with == Some(value),
                        _ => with.is_some_and(|with| alike(value, with)),
                    }
                })
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::String(one), Value::String(other)) => without_digits(one) == without_digits(other),
        (Value::Number(_), Value::Number(_)) => true,
        // What a host does not have.
        (Value::Null, _) | (_, Value::Null) => true,
        _ => one == other,
    }
}

fn keys(value: &Value) -> Vec<&String> {
    value.as_object().map(|object| object.keys().collect()).unwrap_or_default()
}

fn without_digits(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}
