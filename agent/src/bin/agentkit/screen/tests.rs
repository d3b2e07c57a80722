use super::*;
use agentkit_agent::ToolErrorKind;
use agentkit_agent::model::Finish;
use proptest::prelude::*;
use serde_json::Value;

fn show(events: &[AgentEvent]) -> String {
    let mut bytes = Vec::new();
    let mut screen = Screen::new(&mut bytes, Paint::always(false), false);
    events.iter().for_each(|event| screen.hear(event).expect("memory"));
    drop(screen);
    String::from_utf8(bytes).expect("UTF-8")
}

fn replied(text: &str, reasoning: Option<&str>, calls: Vec<ToolCall>) -> AgentEvent {
    let reasoning = reasoning.map(str::to_owned);
    let reply = Reply { text: text.to_owned(), calls, finish: Finish::Done, tokens: Some(7), reasoning };
    AgentEvent::Replied { step: 1, reply, elapsed: Duration::from_millis(1234) }
}

fn finished(name: &str, text: &str, error: Option<ToolErrorKind>) -> AgentEvent {
    let (call_id, name, text) = ("1".to_owned(), name.to_owned(), text.to_owned());
    AgentEvent::ToolFinished { call_id, name, text, error, details: Value::Null, elapsed: Duration::ZERO }
}

#[test]
fn streamed_text_goes_on_where_it_was_and_is_not_repeated() {
    let deltas = [
        AgentEvent::ReasoningDelta("hm\nhm".to_owned()),
        AgentEvent::TextDelta("One".to_owned()),
        AgentEvent::TextDelta(" line.\nTwo".to_owned()),
        replied("One line.\nTwo", Some("hm\nhm"), Vec::new()),
    ];
    let wanted = "think  | hm\n       | hm\ntext   | One line.\n       | Two\nreply  | 7 tokens, 1.23 s\n";
    assert_eq!(show(&deltas), wanted);
    assert_eq!(show(&deltas[3..]), wanted);
}

#[test]
fn what_was_streamed_of_a_broken_reply_is_void() {
    let why = "the response broke off".to_owned();
    let shown = show(&[
        AgentEvent::TextDelta("Ha".to_owned()),
        AgentEvent::Retrying { attempt: 2, wait: Duration::from_millis(500), why },
        AgentEvent::TextDelta("Hello".to_owned()),
        replied("Hello", None, Vec::new()),
    ]);
    let retry =
        "retry  | what was said of this reply does not count; attempt 2 in 0.50 s: the response broke off\n";
    assert_eq!(shown, format!("text   | Ha\n{retry}text   | Hello\nreply  | 7 tokens, 1.23 s\n"));
}

#[test]
fn a_call_that_was_not_run_is_shown_all_the_same() {
    let call =
        ToolCall { id: "1".to_owned(), name: "python".to_owned(), arguments: "{\"code\":1}".to_owned() };
    let shown = show(&[replied("", None, vec![call]), finished("python", "no", Some(ToolErrorKind::NotRun))]);
    assert_eq!(
        shown,
        "reply  | 7 tokens, 1.23 s\ncall   | python {\"code\":1}\nerror  | python, 0.00 s: no\n"
    );
}

#[test]
fn a_long_result_is_shown_by_its_ends() {
    let text = (1..=20).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
    let shown = show(&[finished("shell", &text, None)]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 1 + HEAD + 1 + TAIL);
    assert_eq!(
        (lines[0], lines[1], lines[9]),
        ("result | shell, 0.00 s:", "       | 1", "       | [... 8 lines ...]")
    );
    assert_eq!(lines[13], "       | 20");
    assert_eq!(show(&[finished("shell", "", None)]), "result | shell, 0.00 s: (empty)\n");
}

#[test]
fn only_the_last_reply_counts_as_shown() {
    let mut screen = Screen::new(Vec::new(), Paint::always(false), true);
    assert!(!screen.has_shown(""));
    screen.hear(&replied("one", None, Vec::new())).expect("memory");
    assert!(screen.has_shown("one") && !screen.has_shown("two"));
}

#[test]
fn a_question_shows_the_whole_call() {
    let mut bytes = Vec::new();
    let mut screen = Screen::new(&mut bytes, Paint::always(false), true);
    let code = "x\n".repeat(500);
    let arguments = serde_json::json!({ "code": code }).to_string();
    let call = ToolCall { id: "1".to_owned(), name: "python".to_owned(), arguments };
    screen.question(&call, "run it?").expect("memory");
    drop(screen);
    let shown = String::from_utf8(bytes).expect("UTF-8");
    assert!(shown.starts_with("       | code:\n       |   x\n"), "{shown}");
    assert!(shown.ends_with("       | [301 lines more, which are not shown]\n  ?    | run it? "), "{shown}");
}

proptest! {
    /// Whatever a model says, only this program begins a line.
    #[test]
    fn nobody_else_begins_a_line(texts in prop::collection::vec(any::<String>(), 6), by_pieces in any::<bool>()) {
        let call = ToolCall { id: "2".to_owned(), name: texts[0].clone(), arguments: texts[1].clone() };
        let events = [
            AgentEvent::ReasoningDelta(texts[2].clone()),
            AgentEvent::TextDelta(texts[3].clone()),
            AgentEvent::TextDelta(texts[4].clone()),
            replied(&texts[5], Some(&texts[0]), vec![call.clone()]),
            finished(&texts[0], &texts[1], None),
            AgentEvent::Warning(texts[2].clone()),
        ];
        let mut bytes = Vec::new();
        let mut screen = Screen::new(&mut bytes, Paint::always(false), by_pieces);
        events.iter().for_each(|event| screen.hear(event).expect("memory"));
        screen.question(&call, "?").expect("memory");
        drop(screen);
        let shown = String::from_utf8(bytes).expect("UTF-8");
        for line in shown.lines() {
            let label = line.get(..9).unwrap_or_default();
            let known = ["think  | ", "text   | ", "reply  | ", "call   | ", "result | ", "warn   | ", "       | ", "  ?    | "];
            prop_assert!(known.contains(&label), "{:?}", line);
            prop_assert!(!line.contains(|c: char| c.is_control() && c != '\t'), "{:?}", line);
        }
    }
}
