//! Calls that a server printed as text instead of reporting them.

use super::Reply;
use serde_json::Value;

/// How models mark a call in their raw output. A server that knows the model takes the marks out.
const MARKS: [&str; 6] =
    ["<tool_call>", "<function=", "<|tool_call", "[TOOL_CALLS]", "<invoke name=", "<|python_tag|>"];

impl Reply {
    /// Whether the text looks like a call that the server failed to parse. It stays text and is never run; a report
    /// can name it as the reason why a model seems to use no tools.
    pub fn looks_like_an_unparsed_call(&self) -> bool {
        self.calls.is_empty() && (MARKS.iter().any(|mark| self.text.contains(mark)) || is_call(&self.text))
    }
}

/// A JSON object, fenced or not, with the members of a call and nothing around it.
fn is_call(text: &str) -> bool {
    let text = text.trim();
    let text = text.strip_prefix("```json").or(text.strip_prefix("```")).unwrap_or(text);
    let text = text.strip_suffix("```").unwrap_or(text);
    let Ok(Value::Object(object)) = serde_json::from_str(text) else { return false };
    let has = |key: &str| object.contains_key(key);
    (has("name") && (has("arguments") || has("parameters"))) || has("tool_calls")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flagged(text: &str) -> bool {
        Reply { text: text.to_owned(), ..Reply::default() }.looks_like_an_unparsed_call()
    }

    #[test]
    fn printed_calls_are_flagged() {
        for text in [
            "<tool_call>{\"name\": \"python\"}</tool_call>",
            "Sure. <function=python>{}</function>",
            "{\"name\": \"python\", \"arguments\": {\"code\": \"\"}}",
            "```json\n{\"name\": \"python\", \"parameters\": {}}\n```",
            "[TOOL_CALLS] [{}]",
        ] {
            assert!(flagged(text), "{text}");
        }
    }

    #[test]
    fn answers_are_not() {
        for text in ["", "42", "{\"name\": \"Ada\"}", "I called the tool `python`.", "[1, 2]"] {
            assert!(!flagged(text), "{text}");
        }
    }
}
