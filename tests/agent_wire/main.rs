//! The chat-completions protocol: every odd shape that servers were seen to send, and what we send.

mod stream;

use agentkit_agent::ToolSpec;
use agentkit_agent::model::wire::{
    self, Dialect, MissingText, ReasoningEcho, ReplyLimit, Response, Streaming, SystemRole,
};
use agentkit_agent::model::{Finish, Message, Reply, Request, ToolCall};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

fn text(text: &str) -> Reply {
    Reply { text: text.to_owned(), ..Reply::default() }
}

fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Reply {
    Reply { calls: calls.into_iter().collect(), ..Reply::default() }
}

/// A body with this message and reason to finish.
fn body(message: &str, finish: &str) -> String {
    format!(
        r#"{{"id":"x","choices":[{{"index":0,"message":{message},"finish_reason":{finish}}}],"usage":null}}"#
    )
}

fn read(message: &str, finish: &str) -> Reply {
    wire::response(&body(message, finish)).expect("a reply").reply
}

#[test]
fn every_shape_of_a_call_is_read() {
    let one = |arguments: &str| {
        format!(
            r#"{{"content":null,"tool_calls":[{{"id":"a","type":"function","function":{{"name":"t","arguments":{arguments}}}}}]}}"#
        )
    };
    let cases = [
        ("plain", one(r#""{\"n\":3}""#), calls([call("a", "t", r#"{"n":3}"#)])),
        ("empty text", one(r#""""#), calls([call("a", "t", "")])),
        ("null", one("null"), calls([call("a", "t", "")])),
        ("an object, kept as written", one(r#"{"n": 12345678901234567890123}"#), {
            calls([call("a", "t", r#"{"n": 12345678901234567890123}"#)])
        }),
        ("not valid JSON inside", one(r#""{'n':3""#), calls([call("a", "t", "{'n':3")])),
        ("half a surrogate pair inside", one(r#""{\"s\":\"\\ud800\"}""#), {
            calls([call("a", "t", r#"{"s":"\ud800"}"#)])
        }),
        ("half a surrogate pair outside stays invalid", one(r#""{\"s\":\"\ud800\"}""#), {
            calls([call("a", "t", r#""{\"s\":\"\ud800\"}""#)])
        }),
        (
            "content absent",
            r#"{"tool_calls":[{"id":"a","function":{"name":"t","arguments":"{}"}}]}"#.to_owned(),
            calls([call("a", "t", "{}")]),
        ),
        (
            "ids missing, null, empty, a number",
            r#"{"tool_calls":[{"function":{"name":"t","arguments":"{}"}},{"id":null,"function":{"name":"t"}},
                {"id":"","function":{"name":"t"}},{"id":7,"function":{"name":"t"}}]}"#
                .to_owned(),
            calls([call("", "t", "{}"), call("", "t", ""), call("", "t", ""), call("", "t", "")]),
        ),
        (
            "no function, no name",
            r#"{"tool_calls":[{"id":"a"},{"id":"b","function":{"arguments":"{}"}},7]}"#.to_owned(),
            calls([call("a", "", ""), call("b", "", "{}"), call("", "", "")]),
        ),
        (
            "the legacy form",
            r#"{"content":null,"function_call":{"name":"t","arguments":"{}"}}"#.to_owned(),
            calls([call("", "t", "{}")]),
        ),
        (
            "text beside calls",
            r#"{"content":"hm","tool_calls":[{"id":"a","function":{"name":"t","arguments":""}}]}"#.to_owned(),
            Reply { text: "hm".to_owned(), ..calls([call("a", "t", "")]) },
        ),
        ("no calls", r#"{"content":"hi","tool_calls":[]}"#.to_owned(), text("hi")),
        ("calls of a wrong type", r#"{"content":"hi","tool_calls":"none"}"#.to_owned(), text("hi")),
        ("a call printed as text", r#"{"content":"<tool_call>{}</tool_call>"}"#.to_owned(), {
            text("<tool_call>{}</tool_call>")
        }),
    ];
    for (name, message, wanted) in cases {
        for finish in [r#""tool_calls""#, r#""stop""#, "null", r#""""#] {
            assert_eq!(read(&message, finish), wanted, "{name}, finish_reason {finish}");
        }
    }
}

#[test]
fn every_shape_of_a_text_is_read() {
    let read = |content: &str| {
        let response =
            wire::response(&body(&format!(r#"{{"content":{content}}}"#), r#""stop""#)).expect("a reply");
        (response.reply.text, response.notes)
    };
    let fine = |text: &str| (text.to_owned(), Vec::new());
    let noted = |text: &str, note: &str| (text.to_owned(), vec![note.to_owned()]);
    assert_eq!(read("null"), fine(""));
    assert_eq!(read(r#""a""#), fine("a"));
    assert_eq!(read(r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#), fine("ab"));
    assert_eq!(
        read(r#"[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]"#),
        noted("a", "a part of the content was skipped: image_url")
    );
    assert_eq!(read("[7]"), noted("", "a part of the content was skipped (number)"));
    assert_eq!(read(r#"{"a":1}"#), noted("", "content that is no text was skipped (object)"));
    let long = "sk-".repeat(20);
    assert_eq!(
        read(&format!(r#"[{{"type":"{long}"}},{{"text":["a"]}},{{"text":{{"text":"a"}}}},{{"text":"b"}}]"#)),
        (
            "b".to_owned(),
            vec![
                "a part of the content was skipped (object)".to_owned(),
                "content that is no text was skipped (array)".to_owned(),
                "content that is no text was skipped (object)".to_owned(),
            ]
        )
    );
    let (_, notes) = read(&format!("[{}]", vec!["7"; 1_000].join(",")));
    assert_eq!((notes.len(), notes[10].as_str()), (11, "and 990 more"));
    assert_eq!(
        read(r#""\ud83e\udd80 \\ud800 \uD800x""#).0.as_str(),
        "\u{fffd}\u{fffd} \\ud800 \u{fffd}x",
        "one half is enough to lose pairs too, but never text"
    );
}

#[test]
fn reasons_to_finish_are_told_apart() {
    let finish = |message: &str, finish: &str| read(message, finish).finish;
    assert_eq!(finish(r#"{"content":"a"}"#, r#""stop""#), Finish::Done);
    assert_eq!(finish(r#"{"content":"a"}"#, "null"), Finish::Done);
    assert_eq!(finish(r#"{"content":"a"}"#, r#""eos""#), Finish::Done);
    assert_eq!(finish(r#"{"content":"a"}"#, r#""length""#), Finish::Cut("length".to_owned()));
    assert_eq!(
        finish(r#"{"content":null}"#, r#""content_filter""#),
        Finish::Cut("content_filter".to_owned())
    );
    // Under the names that other endpoints have for it, since the calls of such a reply must not be run.
    let calls = r#"{"content":null,"tool_calls":[{"id":"1","function":{"name":"t","arguments":"{}"}}]}"#;
    for reason in [
        "MAX_TOKENS",
        "model_length",
        "SAFETY",
        "content_filter: PROHIBITED_CONTENT",
        "function_call_filter: MALFORMED_FUNCTION_CALL",
        "abort",
        "insufficient_system_resource",
        "network_error",
    ] {
        assert_eq!(finish(calls, &format!("\"{reason}\"")), Finish::Cut(reason.to_owned()));
    }
    for reason in ["tool_calls", "function_call", "end_turn", "tool_use", "stop_sequence", "STOP", ""] {
        assert_eq!(finish(calls, &format!("\"{reason}\"")), Finish::Done, "{reason}");
    }
    let refused = read(r#"{"content":null,"refusal":"I cannot."}"#, r#""stop""#);
    assert_eq!((refused.finish, refused.text.as_str()), (Finish::Refused, "I cannot."));
    assert_eq!(finish(r#"{"content":"a","refusal":null}"#, r#""stop""#), Finish::Done);
    assert_eq!(finish(r#"{"content":"a","refusal":""}"#, r#""stop""#), Finish::Done);
}

#[test]
fn thinking_is_kept_apart_from_the_answer() {
    for name in ["reasoning_content", "reasoning"] {
        let reply = read(&format!(r#"{{"content":"42","{name}":"hmm"}}"#), r#""stop""#);
        assert_eq!((reply.text.as_str(), reply.reasoning.as_deref()), ("42", Some("hmm")));
    }
    let marked = read(r#"{"content":"<think>hm</think>\n42","reasoning":"so"}"#, r#""stop""#);
    assert_eq!((marked.text.as_str(), marked.reasoning.as_deref()), ("42", Some("sohm")));
    assert_eq!(read(r#"{"content":"42","reasoning":""}"#, r#""stop""#).reasoning, None);
    assert_eq!(read(r#"{"content":"42","reasoning":{"a":1}}"#, r#""stop""#).reasoning, None);
}

#[test]
fn tokens_are_unknown_rather_than_zero() {
    let tokens = |usage: &str| {
        let body = format!(r#"{{"choices":[{{"message":{{"content":"a"}}}}]{usage}}}"#);
        let Response { reply, prompt_tokens, .. } = wire::response(&body).expect("a reply");
        (reply.tokens, prompt_tokens)
    };
    assert_eq!(tokens(""), (None, None));
    assert_eq!(tokens(r#","usage":null"#), (None, None));
    assert_eq!(tokens(r#","usage":{}"#), (None, None));
    assert_eq!(tokens(r#","usage":"many""#), (None, None));
    assert_eq!(tokens(r#","usage":{"total_tokens":0}"#), (None, None));
    assert_eq!(tokens(r#","usage":{"total_tokens":12}"#), (Some(12), None));
    assert_eq!(tokens(r#","usage":{"prompt_tokens":5,"completion_tokens":7}"#), (Some(12), Some(5)));
    assert_eq!(tokens(r#","usage":{"prompt_tokens":5}"#), (None, Some(5)));
    let most = u64::MAX;
    assert_eq!(
        tokens(&format!(r#","usage":{{"prompt_tokens":{most},"completion_tokens":1}}"#)),
        (None, Some(most))
    );
}

#[test]
fn what_is_no_reply_is_an_error() {
    for (body, wanted) in [
        ("", "the body is not JSON"),
        ("<html>", "the body is not JSON"),
        ("{}", "the body has no `choices`"),
        (r#"{"choices":[]}"#, "the body has no `choices`"),
        (r#"{"choices":null}"#, "the body has no `choices`"),
        (r#"{"choices":[{}]}"#, "the choice has no `message`"),
        (r#"{"choices":[7]}"#, "the choice has no `message`"),
        ("[]", "the body has no `choices`"),
        (r#"{"error":{"message":"overloaded"}}"#, "the server reports an error: overloaded"),
        (r#"{"error":"overloaded"}"#, "the server reports an error: overloaded"),
        (r#"{"error":{"code":7}}"#, r#"the server reports an error: {"code":7}"#),
    ] {
        assert_eq!(wire::response(body).map_err(|fault| fault.message), Err(wanted.to_owned()), "{body}");
    }
    assert!(wire::response(r#"{"error":null,"choices":[{"message":{"content":"a"}}]}"#).is_ok());
}

/// Enough to exhaust the stack of a test if each took a frame.
const LEVELS: usize = 4_000;

/// Deeply nested, with a text in the middle.
fn nested(opening: &str, closing: &str) -> String {
    format!("{}\"519\"{}", opening.repeat(LEVELS), closing.repeat(LEVELS))
}

#[test]
fn no_field_of_a_reply_can_be_too_deep() {
    let fields = [
        "@",
        r#"{"choices":@}"#,
        r#"{"choices":[@]}"#,
        r#"{"choices":[{"message":@}]}"#,
        r#"{"choices":[{"message":{"content":@}}]}"#,
        r#"{"choices":[{"message":{"content":[@]}}]}"#,
        r#"{"choices":[{"message":{"content":[{"text":@}]}}]}"#,
        r#"{"choices":[{"message":{"content":[{"type":@}]}}]}"#,
        r#"{"choices":[{"message":{"refusal":@}}]}"#,
        r#"{"choices":[{"message":{"reasoning":@}}]}"#,
        r#"{"choices":[{"message":{"reasoning_content":@}}]}"#,
        r#"{"choices":[{"message":{"function_call":@}}]}"#,
        r#"{"choices":[{"message":{"tool_calls":@}}]}"#,
        r#"{"choices":[{"message":{"tool_calls":[@]}}]}"#,
        r#"{"choices":[{"message":{"tool_calls":[{"id":@}]}}]}"#,
        r#"{"choices":[{"message":{"tool_calls":[{"function":@}]}}]}"#,
        r#"{"choices":[{"message":{"tool_calls":[{"function":{"name":@}}]}}]}"#,
        r#"{"choices":[{"message":{"tool_calls":[{"function":{"arguments":@}}]}}]}"#,
        r#"{"choices":[{"message":{"unknown":@}}]}"#,
        r#"{"choices":[{"message":{},"finish_reason":@}]}"#,
        r#"{"choices":[{"message":{}}],"usage":@}"#,
        r#"{"choices":[{"message":{}}],"usage":{"total_tokens":@}}"#,
        r#"{"error":@}"#,
        r#"{"error":{"message":@}}"#,
        r#"{"error":{"code":@}}"#,
    ];
    let floods = [nested("[", "]"), nested(r#"[{"text":"#, "}]"), nested(r#"{"text":"#, "}")];
    let started = Instant::now();
    for body in fields.iter().flat_map(|field| floods.iter().map(|flood| field.replace('@', flood))) {
        if let Ok(response) = wire::response(&body) {
            assert_eq!(response.reply.text, "", "{}", &body[..90]);
            // What a call brings goes back with the next request.
            let messages = [Message::Assistant(response.reply)];
            wire::request("m", &Request { messages: &messages, tools: &[] }, &Dialect::default());
        }
        let _ = (wire::error_message(&body), wire::error_field(&body, "code"));
    }
    // The text in the middle of such a reply once cost the square of its depth, and then the stack.
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[test]
fn too_many_calls_are_no_reply() {
    let body = body(&format!(r#"{{"tool_calls":[{}]}}"#, vec!["{}"; 10_001].join(",")), r#""stop""#);
    let fault = wire::response(&body).expect_err("too many");
    assert_eq!(fault.message, "the reply makes 10001 calls, more than 10000");
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "t".to_owned(),
        description: "Does it.".to_owned(),
        parameters: json!({"type": "object", "properties": {}}),
        mutates: true,
    }
}

fn conversation() -> Vec<Message> {
    vec![
        Message::System("Be brief.".to_owned()),
        Message::User("go".to_owned()),
        Message::Assistant(Reply { reasoning: Some("hmm".to_owned()), ..calls([call("a", "t", "")]) }),
        Message::Tool { call_id: "a".to_owned(), text: "42".to_owned(), is_error: false },
        Message::Assistant(text("done")),
    ]
}

#[test]
fn the_default_request_is_plain() {
    let (messages, tools) = (conversation(), [spec()]);
    let body = wire::request("m", &Request { messages: &messages, tools: &tools }, &Dialect::default());
    let wanted = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": "42"},
            {"role": "assistant", "content": "done"},
        ],
        "tools": [{
            "type": "function",
            "function": {
                "name": "t",
                "description": "Does it.",
                "parameters": {"type": "object", "properties": {}},
            },
        }],
    });
    assert_eq!(body, wanted);
}

#[test]
fn an_endpoint_may_want_it_different() {
    let messages = conversation();
    let request = Request { messages: &messages, tools: &[] };
    let body = |dialect: Dialect| wire::request("m", &request, &dialect);
    let keys = |body: &Value| body.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&body(Dialect::default())), ["messages", "model"], "no empty list of tools");
    let changed = body(Dialect {
        system_role: SystemRole::Developer,
        missing_text: MissingText::Null,
        reply_limit: Some(ReplyLimit::MaxCompletionTokens(99)),
        temperature: Some(0.0),
        reasoning: ReasoningEcho::ReasoningContent,
        streaming: Streaming::WithUsage,
    });
    assert_eq!(changed["messages"][0]["role"], "developer");
    assert_eq!(changed["messages"][2]["content"], Value::Null);
    assert_eq!(changed["messages"][4]["content"], "done");
    assert_eq!((&changed["max_completion_tokens"], &changed["temperature"]), (&json!(99), &json!(0.0)));
    let older = body(Dialect { reply_limit: Some(ReplyLimit::MaxTokens(9)), ..Dialect::default() });
    assert_eq!(keys(&older), ["max_tokens", "messages", "model"]);
    assert_eq!(changed["messages"][2]["reasoning_content"], "hmm");
    assert_eq!(
        (&changed["stream"], &changed["stream_options"]),
        (&json!(true), &json!({"include_usage": true}))
    );
    let streamed = body(Dialect {
        streaming: Streaming::WithoutUsage,
        reasoning: ReasoningEcho::Reasoning,
        ..Dialect::default()
    });
    assert_eq!(keys(&streamed), ["messages", "model", "stream"]);
    assert_eq!(streamed["messages"][2]["reasoning"], "hmm");
}

#[test]
fn a_model_without_a_system_role_reads_its_instructions_from_the_user() {
    let dialect = Dialect { system_role: SystemRole::User, ..Dialect::default() };
    let sent = |messages: &[Message]| {
        let body = wire::request("m", &Request { messages, tools: &[] }, &dialect);
        body["messages"].clone()
    };
    let (system, user) =
        (|text: &str| Message::System(text.to_owned()), |text: &str| Message::User(text.to_owned()));
    assert_eq!(
        sent(&[system("a"), system("b"), user("c"), Message::Assistant(text("d")), user("e")]),
        json!([
            {"role": "user", "content": "a\n\nb\n\nc"},
            {"role": "assistant", "content": "d"},
            {"role": "user", "content": "e"},
        ])
    );
    assert_eq!(sent(&[system("a")]), json!([{"role": "user", "content": "a"}]), "it is never lost");
}

#[test]
fn arguments_in_the_history_are_always_an_object() {
    let sent = |arguments: &str| {
        let messages = [Message::Assistant(calls([call("a", "t", arguments)]))];
        let body = wire::request("m", &Request { messages: &messages, tools: &[] }, &Dialect::default());
        body["messages"][0]["tool_calls"][0]["function"]["arguments"].as_str().expect("a text").to_owned()
    };
    for (arguments, wanted) in [
        (r#"{"n": 12345678901234567890123}"#, r#"{"n": 12345678901234567890123}"#),
        (" ", "{}"),
        ("{'n':3", r#"{"unreadable_arguments":"{'n':3"}"#),
        ("[1]", r#"{"unreadable_arguments":"[1]"}"#),
        (r#"{"s":"\ud800"}"#, r#"{"unreadable_arguments":"{\"s\":\"\\ud800\"}"}"#),
    ] {
        assert_eq!(sent(arguments), wanted, "{arguments}");
    }
}

/// JSON that looks like a response in places.
fn almost_a_response() -> impl Strategy<Value = Value> {
    let names = &[
        "choices",
        "message",
        "content",
        "tool_calls",
        "function",
        "arguments",
        "error",
        "usage",
        "text",
    ][..];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
        Just(json!({"message": {"content": [{"text": [7]}], "tool_calls": [{"function": []}]}})),
    ];
    leaf.prop_recursive(6, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(names).prop_map(str::to_owned), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_are_a_reply_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = wire::response(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_json_is_a_reply_or_an_error(value in almost_a_response(), cut in 0usize..400) {
        let body = value.to_string();
        let _ = wire::response(&body);
        let _ = wire::response(&body.chars().take(cut).collect::<String>());
        let _ = wire::response(&json!({"choices": [value]}).to_string());
    }

    #[test]
    fn any_text_survives_the_way_out_and_back(text in "\\PC{0,30}", value in "\\PC{0,30}") {
        let arguments = json!({ "s": value }).to_string();
        let reply = Reply { text, ..calls([call("a", "t", &arguments)]) };
        let messages = [Message::Assistant(reply.clone())];
        let sent = wire::request("m", &Request { messages: &messages, tools: &[] }, &Dialect::default());
        let body = json!({"choices": [{"message": sent["messages"][0], "finish_reason": "stop"}]});
        let read = wire::response(&body.to_string()).expect("a reply").reply;
        prop_assert_eq!(read, reply);
    }
}
