//! Streams: one fixture for each odd shape that servers were seen to send, and any split of any of them.

use super::{call, calls, text};
use agentkit_agent::model::wire::{Body, Delta, Fault, FaultKind, Response, response};
use agentkit_agent::model::{Finish, Reply};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What came of a stream that came in these pieces.
fn read(pieces: &[&[u8]]) -> (Result<Response, Fault>, Vec<Delta>) {
    let (mut body, mut heard) = (Body::new(), Vec::new());
    let mut hear = |delta| heard.push(delta);
    let pushed = pieces.iter().try_for_each(|piece| body.push(piece, &mut hear));
    let result = pushed.and_then(|()| body.finish(&mut hear));
    (result, heard)
}

fn reply(stream: &str) -> Reply {
    read(&[stream.as_bytes()]).0.unwrap_or_else(|fault| panic!("{stream}: {fault}")).reply
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// One chunk with this delta and no reason to finish.
fn delta(delta: Value) -> String {
    event(&json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
}

fn finish(reason: &str) -> String {
    event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

const DONE: &str = "data: [DONE]\n\n";

/// A stream of these deltas that ends well.
fn stream(deltas: &[Value]) -> String {
    deltas.iter().map(|piece| delta(piece.clone())).collect::<String>() + &finish("stop") + DONE
}

fn call_deltas(pieces: &[Value]) -> String {
    let deltas: Vec<Value> = pieces.iter().map(|piece| json!({"tool_calls": [piece]})).collect();
    stream(&deltas)
}

#[test]
fn every_shape_of_a_streamed_call_is_read() {
    let piece = |arguments: &str| json!({"index": 0, "function": {"arguments": arguments}});
    let one = calls([call("a", "t", r#"{"n":3}"#)]);
    let two = calls([call("a", "t", r#"{"n":1}"#), call("b", "u", r#"{"n":2}"#)]);
    let whole = |index: Value, id: &str, name: &str, arguments: Value| json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
    let no_index = |id: Value, name: Value, arguments: &str| json!({"id": id, "function": {"name": name, "arguments": arguments}});
    let (null, number) = (Value::Null, |n: u64| json!(n));
    let cases: Vec<(&str, Vec<Value>, Reply)> = vec![
        (
            "as documented",
            vec![whole(number(0), "a", "t", json!("")), piece("{\"n\""), piece(":3}")],
            one.clone(),
        ),
        ("in one piece", vec![whole(number(0), "a", "t", json!("{\"n\":3}"))], one.clone()),
        ("arguments as an object", vec![whole(number(0), "a", "t", json!({"n": 3}))], one.clone()),
        ("arguments null", vec![whole(number(0), "a", "t", null.clone())], calls([call("a", "t", "")])),
        (
            "two at once, their pieces interleaved",
            vec![
                whole(number(0), "a", "t", json!("")),
                whole(number(1), "b", "u", json!("")),
                json!({"index": 1, "function": {"arguments": "{\"n\":2}"}}),
                json!({"index": 0, "function": {"arguments": "{\"n\":1}"}}),
            ],
            two.clone(),
        ),
        (
            "no index: a new id is a new call, no id goes on with the last",
            vec![
                no_index(json!("a"), json!("t"), ""),
                no_index(null.clone(), null.clone(), "{\"n\":1}"),
                no_index(json!("b"), json!("u"), "{\"n\""),
                no_index(json!(""), json!(""), ":2}"),
            ],
            two.clone(),
        ),
        (
            "no index, the id in every piece",
            vec![
                no_index(json!("a"), json!("t"), "{\"n\""),
                no_index(json!("b"), json!("u"), "{\"n\""),
                no_index(json!("a"), json!("t"), ":1}"),
                no_index(json!("b"), json!("u"), ":2}"),
            ],
            two.clone(),
        ),
        (
            "two complete ones under one index",
            vec![
                whole(number(0), "a", "t", json!("{\"n\":1}")),
                whole(number(0), "b", "u", json!("{\"n\":2}")),
            ],
            two.clone(),
        ),
        (
            "two under one index, in pieces",
            vec![
                whole(number(0), "a", "t", json!("")),
                piece("{\"n\":1}"),
                whole(number(0), "b", "u", json!("")),
                piece("{\"n\":2}"),
            ],
            two.clone(),
        ),
        (
            "the same tool twice under one index",
            vec![whole(number(0), "a", "t", json!("{}")), whole(number(0), "b", "t", json!("{}"))],
            calls([call("a", "t", "{}"), call("b", "t", "{}")]),
        ),
        (
            "two without ids under one index",
            vec![
                json!({"index": 0, "function": {"name": "t", "arguments": "{}"}}),
                json!({"index": 0, "function": {"name": "u", "arguments": "{}"}}),
            ],
            calls([call("", "t", "{}"), call("", "u", "{}")]),
        ),
        (
            "the name in every piece",
            vec![whole(number(0), "a", "t", json!("{\"n\"")), whole(number(0), "a", "t", json!(":3}"))],
            one.clone(),
        ),
        (
            "the id after the name",
            vec![
                json!({"index": 0, "function": {"name": "t", "arguments": ""}}),
                json!({"index": 0, "id": "a", "function": {"arguments": "{\"n\":3}"}}),
            ],
            one.clone(),
        ),
        ("indexes from seven", vec![whole(number(7), "a", "t", json!("{\"n\":3}"))], one.clone()),
        ("an index that is none", vec![whole(json!("x"), "a", "t", json!("{\"n\":3}"))], one),
        ("nothing but an index", vec![json!({"index": 0})], calls([call("", "", "")])),
        (
            "half a pair in each piece",
            vec![whole(number(0), "a", "t", json!("{\"s\":\"")), piece("🦀\"}")],
            calls([call("a", "t", "{\"s\":\"🦀\"}")]),
        ),
    ];
    for (name, pieces, wanted) in cases {
        let stream = call_deltas(&pieces).replace(
            '🦀',
            r#"\ud83e"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\udd80"#,
        );
        assert_eq!(reply(&stream), wanted, "{name}");
    }
}

#[test]
fn the_legacy_call_is_one_call() {
    let stream = stream(&[
        json!({"function_call": {"name": "t", "arguments": ""}}),
        json!({"function_call": {"arguments": "{\"n\""}}),
        json!({"function_call": {"arguments": ":3}"}}),
    ]);
    assert_eq!(reply(&stream), calls([call("", "t", r#"{"n":3}"#)]));
}

#[test]
fn text_comes_as_it_is_said() {
    let hello = stream(&[
        json!({"role": "assistant", "content": ""}),
        json!({"content": "Hel"}),
        json!({"content": null}),
        json!({"content": [{"type": "text", "text": "l"}, {"text": "o"}]}),
        json!({}),
    ]);
    let (result, heard) = read(&[hello.as_bytes()]);
    assert_eq!(result.expect("a reply"), Response { reply: text("Hello"), ..Response::default() });
    assert_eq!(heard, ["Hel", "l", "o"].map(|piece| Delta::Text(piece.to_owned())));
}

#[test]
fn thinking_is_heard_apart() {
    for pieces in [
        vec![json!({"reasoning_content": "h"}), json!({"reasoning_content": "m"}), json!({"content": "42"})],
        vec![json!({"reasoning": "h"}), json!({"reasoning": "m", "content": ""}), json!({"content": "42"})],
        vec![
            json!({"content": "<thi"}),
            json!({"content": "nk>h"}),
            json!({"content": "m</think>"}),
            json!({"content": "\n42"}),
        ],
    ] {
        let (result, heard) = read(&[stream(&pieces).as_bytes()]);
        let reply = result.expect("a reply").reply;
        assert_eq!((reply.text.as_str(), reply.reasoning.as_deref()), ("42", Some("hm")), "{pieces:?}");
        let wanted = [
            Delta::Reasoning("h".to_owned()),
            Delta::Reasoning("m".to_owned()),
            Delta::Text("42".to_owned()),
        ];
        assert_eq!(heard, wanted, "{pieces:?}");
    }
}

#[test]
fn what_keeps_a_stream_alive_is_no_part_of_it() {
    let quiet = ": ping\n\n\n\n:\n\nevent: ping\n\ndata:\n\nid: 1\nretry: 100\n\n";
    let noisy = format!("{quiet}{}{quiet}{}{quiet}{DONE}", delta(json!({"content": "hi"})), finish("stop"));
    assert_eq!(reply(&noisy), text("hi"));
    assert_eq!(reply(&noisy.replace('\n', "\r\n")), text("hi"));
    assert_eq!(reply(&format!("\u{feff}\n{noisy}")), text("hi"));
}

#[test]
fn a_reason_to_finish_or_done_is_an_end() {
    let hi = delta(json!({"content": "hi"}));
    let finish_of = |stream: &str| {
        let response = read(&[stream.as_bytes()]).0.expect(stream);
        let is_cut = matches!(&response.reply.finish, Finish::Cut(why) if why.starts_with("the stream"));
        assert_eq!(response.breaks_off, is_cut, "{stream}");
        response.reply.finish
    };
    assert_eq!(finish_of(&format!("{hi}{}", finish("stop"))), Finish::Done, "no [DONE]");
    assert_eq!(
        finish_of(&format!("{hi}{}", finish("stop").trim_end())),
        Finish::Done,
        "no end of the last event"
    );
    assert_eq!(finish_of(&format!("{hi}{DONE}")), Finish::Done, "no reason");
    assert_eq!(finish_of(&format!("{hi}{}", finish("length"))), Finish::Cut("length".to_owned()));
    let no_end = Finish::Cut("the stream ended before the reply did".to_owned());
    assert_eq!(finish_of(&hi), no_end);
    assert_eq!(finish_of(&format!("{hi}{}", finish(""))), no_end, "an empty reason is none");
    assert_eq!(finish_of(&format!("{hi}data: {{\"choi")), no_end, "torn in the middle of an event");
    let called =
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}}]}));
    assert_eq!(finish_of(&called), no_end, "a call without an end is not run");
    let after = format!("{hi}{}{DONE}{}", finish("stop"), delta(json!({"content": "more"})));
    assert_eq!(reply(&after), text("hi"), "nothing follows [DONE]");
}

#[test]
fn a_stream_that_dies_at_any_byte_is_cut_or_complete() {
    let call = json!({"index": 0, "id": "a", "function": {"name": "t", "arguments": "{\"s\":\"é🦀\"}"}});
    let pieces = [json!({"reasoning": "hm"}), json!({"content": "é🦀"}), json!({"tool_calls": [call]})];
    let (stream, end) = (stream(&pieces), finish("stop"));
    let complete_from = stream.find(&end).expect("it ends") + end.trim_end().len();
    for length in 0..=stream.len() {
        match read(&[&stream.as_bytes()[..length]]).0 {
            Ok(Response { reply, breaks_off, .. }) => {
                assert_eq!(
                    (breaks_off, reply.finish == Finish::Done),
                    (length < complete_from, length >= complete_from)
                );
            }
            // Before the first event there is nothing to cut.
            Err(fault) => {
                assert!(length < "data: {".len() && fault.kind != FaultKind::Reported, "{length}: {fault}")
            }
        }
    }
}

#[test]
fn a_refusal_may_be_streamed() {
    let reply = reply(&stream(&[json!({"refusal": "I can"}), json!({"refusal": "not."})]));
    assert_eq!((reply.finish, reply.text.as_str()), (Finish::Refused, "I cannot."));
}

#[test]
fn usage_comes_in_a_chunk_without_choices_or_in_any() {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 7});
    let hi = || delta(json!({"content": "hi"}));
    let last = event(&json!({"choices": [], "usage": usage}));
    let with = event(&json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage}));
    let early = event(&json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 0}}));
    let nothing = event(&json!({"choices": [], "usage": null}));
    for stream in [
        format!("{}{}{last}{DONE}", hi(), finish("stop")),
        format!("{}{with}{DONE}", hi()),
        format!("{early}{}{}{last}", hi(), finish("stop")),
        format!("{}{}{last}{nothing}{DONE}", hi(), finish("stop")),
    ] {
        let response = read(&[stream.as_bytes()]).0.expect("a reply");
        assert_eq!((response.reply.tokens, response.prompt_tokens), (Some(12), Some(5)), "{stream}");
    }
    assert_eq!(reply(&format!("{}{}{DONE}", hi(), finish("stop"))).tokens, None);
}

#[test]
fn only_the_first_of_several_choices_is_heard() {
    let chunk = event(&json!({"choices": [
        {"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"},
        {"index": 0, "delta": {"content": "yes"}},
    ]}));
    assert_eq!(reply(&format!("{chunk}{}{DONE}", finish("stop"))), text("yes"));
}

#[test]
fn a_whole_message_may_stand_for_or_end_a_stream() {
    let whole = event(&json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}));
    assert_eq!(reply(&format!("{whole}{DONE}")), text("hi"));
    assert_eq!(reply(&format!("{}{whole}{DONE}", delta(json!({"content": "hi"})))), text("hi"));
}

#[test]
fn faults_of_a_stream_are_told_apart() {
    let hi = delta(json!({"content": "hi"}));
    let reported = |error: &str| (FaultKind::Reported, format!("the server reports an error: {error}"));
    let garbled = (FaultKind::Garbled, "the stream holds something else than JSON objects".to_owned());
    let neither = (FaultKind::Unreadable, "the body is neither JSON nor a stream of events".to_owned());
    for (stream, wanted) in [
        (
            format!("{hi}data: {{\"error\":{{\"message\":\"overloaded\",\"code\":503}}}}\n\n"),
            reported("overloaded"),
        ),
        (format!("{hi}data: {{\"error\":\"overloaded\"}}\n\n{DONE}"), reported("overloaded")),
        (format!("{hi}event: error\ndata: {{\"message\":\"overloaded\"}}\n\n"), reported("overloaded")),
        (format!("{hi}event: error\ndata: overloaded\n\n"), reported("overloaded")),
        (
            event(&json!({"choices": [{"delta": {}, "finish_reason": "error", "error": {"message": "x"}}]})),
            reported("x"),
        ),
        (format!("{hi}data: {{\"choices\":[{{\"del\n\n{hi}{DONE}"), garbled.clone()),
        (format!("{hi}data: upstream gone\n\n"), garbled.clone()),
        (format!("{hi}data: [1]\n\n"), garbled),
        ("upstream gone\n".to_owned(), neither.clone()),
        (": ping\n\n: ping\n\n".to_owned(), neither),
        (r#"{"error":{"message":"overloaded"}}"#.to_owned(), reported("overloaded")),
        ("<html>".to_owned(), (FaultKind::Unreadable, "the body is not JSON".to_owned())),
        ("\n ".to_owned(), (FaultKind::Garbled, "the body is empty".to_owned())),
    ] {
        let fault = read(&[stream.as_bytes()]).0.expect_err(&stream);
        assert_eq!((fault.kind, fault.message.clone()), wanted, "{stream}");
    }
    let fault = read(&[b"upstream gone\n"]).0.expect_err("no events");
    assert_eq!(fault.body, "upstream gone\n", "what was said instead is kept");
}

#[test]
fn a_whole_reply_is_read_though_a_stream_was_asked_for() {
    let whole = json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).to_string();
    for begun in ["", "\n\n", "\u{feff}", " \u{feff}\n"] {
        let (result, heard) = read(&[format!("{begun}{whole}").as_bytes()]);
        assert_eq!((result.expect("a reply").reply, heard), (text("hi"), Vec::new()), "{begun:?}");
    }
}

#[test]
fn too_many_streamed_calls_are_no_reply() {
    let many: Vec<Value> = (0..10_001).map(|n| json!({"index": n})).collect();
    let fault = read(&[stream(&[json!({"tool_calls": many})]).as_bytes()]).0.expect_err("too many");
    assert_eq!(
        (fault.kind, fault.message.as_str()),
        (FaultKind::Unreadable, "the reply makes more than 10000 calls")
    );
}

/// Bits of streams, in an order that makes sense now and then.
fn bits() -> impl Strategy<Value = String> {
    let bits = prop_oneof![
        "\\PC{0,4}".prop_map(|text| delta(json!({"content": text}))),
        "(<think>|</think>|é|🦀|){0,3}".prop_map(|text| delta(json!({"content": text}))),
        "\\PC{0,4}".prop_map(|text| delta(json!({"reasoning_content": text}))),
        (0u8..3, "[ab]{0,1}", "[tu]{0,1}", "\\PC{0,4}").prop_map(|(index, id, name, arguments)| {
            let function = json!({"name": name, "arguments": arguments});
            delta(json!({"tool_calls": [{"index": index, "id": id, "function": function}]}))
        }),
        Just(r#"data: {"choices":[{"delta":{"content":"\ud83e"}}]}"#.to_owned() + "\r\n\r\n"),
        Just(r#"data: {"choices":[{"delta":{"content":"\udd80"}}]}"#.to_owned() + "\r\r"),
        Just(": ping\n\n".to_owned()),
        Just("\n".to_owned()),
        Just("\u{feff}".to_owned()),
        Just("{".to_owned()),
        Just(finish("tool_calls")),
        Just(finish("length")),
        Just(event(&json!({"choices": [], "usage": {"total_tokens": 9}}))),
        Just("data: {\"error\":{\"message\":\"x\"}}\n\n".to_owned()),
        Just("data: torn".to_owned()),
        Just(DONE.to_owned()),
    ];
    prop::collection::vec(bits, 0..12).prop_map(|bits| bits.concat())
}

fn split<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.sort_unstable();
    ends.push(bytes.len());
    let starts = [0].into_iter().chain(ends.iter().copied()).collect::<Vec<_>>();
    starts.iter().zip(&ends).map(|(start, end)| &bytes[*start..*end]).collect()
}

/// All that was said, whatever the pieces.
fn joined(heard: &[Delta]) -> (String, String) {
    let mut all = (String::new(), String::new());
    for delta in heard {
        match delta {
            Delta::Text(piece) => all.0.push_str(piece),
            Delta::Reasoning(piece) => all.1.push_str(piece),
        }
    }
    all
}

proptest! {
    #[test]
    fn any_split_gives_the_same_reply(
        stream in bits(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)
    ) {
        let bytes = stream.as_bytes();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let (whole, heard) = read(&[bytes]);
        for pieces in [split(bytes, &cuts), single] {
            let (result, heard_split) = read(&pieces);
            prop_assert_eq!(&result, &whole);
            prop_assert_eq!(joined(&heard_split), joined(&heard));
        }
        if let Ok(response) = whole {
            let (text, reasoning) = joined(&heard);
            prop_assert_eq!(reasoning, response.reply.reasoning.unwrap_or_default());
            prop_assert_eq!(text, response.reply.text);
        }
    }

    #[test]
    fn any_bytes_are_a_reply_or_a_fault(
        bytes in prop::collection::vec(any::<u8>(), 0..200), beginning in prop::sample::select(vec!["", "data: ", "data: {\"choices\":[", "{"])
    ) {
        let _ = read(&[beginning.as_bytes(), &bytes]);
    }

    #[test]
    fn a_stream_says_the_same_as_the_whole(
        text in "\\PC{0,30}", arguments in prop::collection::vec("\\PC{0,20}", 0..3), step in 1usize..7
    ) {
        let listed: Vec<Value> = arguments.iter().enumerate().map(|(n, arguments)| {
            json!({"index": n, "id": format!("c{n}"), "function": {"name": "t", "arguments": arguments}})
        }).collect();
        let message = json!({"content": text, "tool_calls": listed});
        let whole = json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string();
        let mut deltas: Vec<Value> = Vec::new();
        let chars: Vec<char> = text.chars().collect();
        deltas.extend(chars.chunks(step).map(|piece| json!({"content": piece.iter().collect::<String>()})));
        for (n, arguments) in arguments.iter().enumerate() {
            deltas.push(json!({"tool_calls": [{"index": n, "id": format!("c{n}"), "function": {"name": "t"}}]}));
            let chars: Vec<char> = arguments.chars().collect();
            deltas.extend(chars.chunks(step).map(|piece| {
                let function = json!({"arguments": piece.iter().collect::<String>()});
                json!({"tool_calls": [{"index": n, "function": function}]})
            }));
        }
        prop_assert_eq!(read(&[stream(&deltas).as_bytes()]).0, response(&whole));
    }
}
