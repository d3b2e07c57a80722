//! Argument text × parameter type → accepted value or message: through the registry, and once more through the loop,
//! where the message has to reach the model as the result of that very call.

use crate::tools::{REGISTRY, call, registry};
use agentkit_agent::model::scripted::{Scripted, ScriptedArguments, Turn};
use agentkit_agent::model::{Message, Reply, Request};
use agentkit_agent::{Agent, Context, Model, ModelError, ToolErrorKind};
use std::sync::{Arc, Mutex};

type Row = (&'static str, &'static str, Result<&'static str, &'static str>);

/// What every row of an error is preceded by is left out: "invalid arguments for `tool`".
const TABLE: &[Row] = &[
    ("integer", r#"{"n":3}"#, Ok("3")),
    ("integer", r#" { "n" : -3 } "#, Ok("-3")),
    ("integer", r#"{"n":3.0}"#, Ok("3")),
    ("integer", r#"{"n":3e2}"#, Ok("300")),
    ("integer", r#"{"n":9007199254740993.0}"#, Ok("9007199254740993")),
    ("integer", r#"{"n":9223372036854775807}"#, Ok("9223372036854775807")),
    (
        "integer",
        r#"{"n":9223372036854775808}"#,
        Err(": `n` should be from -9223372036854775808 to 9223372036854775807, got 9223372036854775808"),
    ),
    (
        "integer",
        r#"{"n":1e400}"#,
        Err(": `n` should be from -9223372036854775808 to 9223372036854775807, got 1e400"),
    ),
    ("integer", r#"{"n":7.5}"#, Err(": `n` should be integer, got 7.5")),
    ("integer", r#"{"n":true}"#, Err(": `n` should be integer, got boolean")),
    ("integer", r#"{"n":"3"}"#, Err(": `n` should be integer, got string")),
    ("integer", r#"{"n":null}"#, Err(": `n` should be integer, got null")),
    ("integer", r#"{"n":[3]}"#, Err(": `n` should be integer, got array")),
    ("integer", r#"{"n":NaN}"#, Err(": not valid JSON: a bare word is not JSON at character 6: `NaN}`")),
    ("integer", r#"{"n":-Infinity}"#, Err(": not valid JSON: expected a digit at character 7: `Infinity}`")),
    ("integer", "", Err(": `n` is missing (nothing was given)")),
    ("integer", "{}", Err(": `n` is missing (nothing was given)")),
    ("integer", "null", Err(": should be an object, got null")),
    ("integer", "3", Err(": should be an object, got number")),
    ("integer", "[3]", Err(": should be an object, got array")),
    ("integer", r#""{\"n\":3}""#, Err(": should be an object, got string")),
    ("integer", r#"{"n":3,"n":4}"#, Err(": `n` is given more than once")),
    ("integer", r#"{"n":3,"n":3}"#, Err(": `n` is given more than once")),
    (
        "integer",
        r#"{"n":3}"""#,
        Err(": not valid JSON: unexpected text after the end of the value at character 8: `\"\"`"),
    ),
    ("integer", r#"{"n":3"#, Err(": not valid JSON: expected `,` or `}` at character 7, at the end")),
    (
        "integer",
        "{'n':3}",
        Err(": not valid JSON: expected a name in double quotes at character 2: `'n':3}`"),
    ),
    ("integer", r#"{"n":3,}"#, Err(": not valid JSON: expected a name in double quotes at character 8: `}`")),
    ("integer", r#"{"n":3,"m":4}"#, Err(": unknown argument `m` (valid: `n`)")),
    (
        "integer",
        r#"{"number":3}"#,
        Err(":\n- `n` is missing (given: `number`)\n- unknown argument `number` (valid: `n`)"),
    ),
    ("small", r#"{"n":255}"#, Ok("255")),
    ("small", r#"{"n":256}"#, Err(": `n` should be from 0 to 255, got 256")),
    ("small", r#"{"n":-1}"#, Err(": `n` should be from 0 to 255, got -1")),
    ("small", r#"{"n":-0}"#, Ok("0")),
    ("large", r#"{"n":18446744073709551615}"#, Ok("18446744073709551615")),
    (
        "large",
        r#"{"n":18446744073709551616}"#,
        Err(": `n` should be from 0 to 18446744073709551615, got 18446744073709551616"),
    ),
    ("real", r#"{"x":0.1}"#, Ok("0.1")),
    ("real", r#"{"x":3}"#, Ok("3.0")),
    ("real", r#"{"x":-0}"#, Ok("-0.0")),
    ("real", r#"{"x":1e999}"#, Err(": `x` is too large for a number, got 1e999")),
    ("real", r#"{"x":"0.1"}"#, Err(": `x` should be number, got string")),
    ("real", r#"{"x":false}"#, Err(": `x` should be number, got boolean")),
    ("text", r#"{"s":"\ud83e\udd80"}"#, Ok("\"🦀\"")),
    ("text", r#"{"s":""}"#, Ok("\"\"")),
    ("text", r#"{"s":3}"#, Err(": `s` should be string, got number")),
    (
        "text",
        r#"{"s":"\ud800"}"#,
        Err(": not valid JSON: half of a surrogate pair is not a character at character 7: `\\ud800\"}`"),
    ),
    (
        "text",
        r#"{"s":"\u12"}"#,
        Err(": not valid JSON: `\\u` needs four hexadecimal digits at character 7: `\\u12\"}`"),
    ),
    (
        "text",
        r#"{"s":"cut"#,
        Err(": not valid JSON: a string is not closed: the text may be cut at character 6: `\"cut`"),
    ),
    ("character", r#"{"c":"é"}"#, Ok("'é'")),
    ("character", r#"{"c":"ab"}"#, Err(": `c` should have exactly 1 character(s), got 2")),
    ("flag", r#"{"b":true}"#, Ok("true")),
    ("flag", r#"{"b":1}"#, Err(": `b` should be boolean, got number")),
    ("flag", r#"{"b":"true"}"#, Err(": `b` should be boolean, got string")),
    ("flag", r#"{"b":True}"#, Err(": not valid JSON: a bare word is not JSON at character 6: `True}`")),
    ("optional", "", Ok("None")),
    ("optional", "  \n ", Ok("None")),
    ("optional", "{}", Ok("None")),
    ("optional", r#"{"n":null}"#, Ok("None")),
    ("optional", r#"{"n":3}"#, Ok("Some(3)")),
    ("optional", r#"{"n":"3"}"#, Err(": `n` should be integer, got string")),
    ("optional", "null", Err(": should be an object, got null")),
    ("choice", r#"{"c":"dark_blue"}"#, Ok("DarkBlue")),
    (
        "choice",
        r#"{"c":"Red"}"#,
        Err(": `c` should be one of `red`, `dark_blue`, got `Red`, did you mean `red`?"),
    ),
    ("choice", r#"{"c":"green"}"#, Err(": `c` should be one of `red`, `dark_blue`, got `green`")),
    ("choice", r#"{"c":0}"#, Err(": `c` should be one of `red`, `dark_blue`, got number")),
    // serde alone would take it for the variant.
    ("choice", r#"{"c":{"red":null}}"#, Err(": `c` should be one of `red`, `dark_blue`, got object")),
    (
        "optional_choice",
        r#"{"c":{"red":null}}"#,
        Err(": `c` should be one of `red`, `dark_blue`, got object"),
    ),
    ("optional_choice", r#"{"c":null}"#, Ok("None")),
    ("optional_choice", r#"{"c":"red"}"#, Ok("Some(Red)")),
    ("list", r#"{"items":[]}"#, Ok("[]")),
    ("list", r#"{"items":[1,2.0]}"#, Ok("[1, 2]")),
    (
        "list",
        r#"{"items":[1,"2",true]}"#,
        Err(":\n- `items[1]` should be integer, got string\n- `items[2]` should be integer, got boolean"),
    ),
    ("list", r#"{"items":{"0":1}}"#, Err(": `items` should be array, got object")),
    ("list", r#"{"items":1}"#, Err(": `items` should be array, got number")),
    (
        "points",
        r#"{"points":[{"x":1},{"x":2,"y":null}]}"#,
        Ok("[Point { x: 1, y: None }, Point { x: 2, y: None }]"),
    ),
    ("points", r#"{"points":[[1,2]]}"#, Err(": `points[0]` should be object, got array")),
    (
        "points",
        r#"{"points":[{"x":1,"x":2},{"z":true}]}"#,
        Err(
            ":\n- `points[0].x` is given more than once\n- `points[1].x` is missing (given: `z`)\n- unknown argument \
             `z` in `points[1]` (valid: `x`, `y`)",
        ),
    ),
    ("map", r#"{"entries":{"a":true}}"#, Ok("{\"a\": true}")),
    ("map", r#"{"entries":{"a":1}}"#, Err(": `entries.a` should be boolean, got number")),
    ("map", r#"{"entries":{"a":true,"a":false}}"#, Err(": `entries.a` is given more than once")),
    ("anything", r#"{"value":[1,{"a":null}]}"#, Ok("[1,{\"a\":null}]")),
    ("anything", r#"{"value":null}"#, Ok("null")),
    ("anything", r#"{"value":{"a":1,"a":2}}"#, Err(": `value.a` is given more than once")),
    ("nothing", "", Ok("done")),
    ("nothing", "{}", Ok("done")),
    ("nothing", r#"{"x":1}"#, Err(": unknown argument `x` (it takes no arguments)")),
    ("two", r#"{"first_value":1,"second_value":"a"}"#, Ok("(1, \"a\")")),
    (
        "two",
        r#"{"firstValue":1,"second_value":2}"#,
        Err(
            ":\n- `first_value` is missing (given: `firstValue`, `second_value`)\n- unknown argument `firstValue`, \
             did you mean `first_value`? (valid: `first_value`, `second_value`)\n- `second_value` should be string, \
             got number",
        ),
    ),
    (
        "two",
        r#"{"second_value":null}"#,
        Err(
            ":\n- `first_value` is missing (given: `second_value`)\n- `second_value` should be string, got null",
        ),
    ),
    ("limited", "", Ok("(10, None, \"ab\", {})")),
    (
        "limited",
        r#"{"count":100,"share":0.5,"word":"abcd","tags":["x","y"]}"#,
        Ok("(100, Some(0.5), \"abcd\", {\"x\", \"y\"})"),
    ),
    ("limited", r#"{"count":null,"share":null,"word":null,"tags":null}"#, Ok("(10, None, \"ab\", {})")),
    (
        "limited",
        r#"{"count":0,"share":0.6,"word":"a","tags":["x","y","z"]}"#,
        Err(
            ":\n- `count` should be from 1 to 100, got 0\n- `share` should be at most 0.5, got 0.6\n- `word` should \
             have 2 to 4 character(s), got 1\n- `tags` should have 0 to 2 item(s), got 3",
        ),
    ),
    ("limited", r#"{"word":"a1"}"#, Err(": `word` should match the pattern `^[a-z]*$`, got `a1`")),
    ("limited", r#"{"word":"ab\n"}"#, Err(": `word` should match the pattern `^[a-z]*$`, got `ab\\n`")),
    ("limited", r#"{"tags":["x","x"]}"#, Err(": `tags[1]` is there already, and no two may be equal")),
    (
        "pages",
        r#"{"pages":{"a":{"mark":"x"}},"first":{"mark":"y","lines":50,"wide":null}}"#,
        Ok(
            "({\"a\": Page { lines: 10, mark: \"x\", wide: false }}, Some(Page { lines: 50, mark: \"y\", wide: \
             false }))",
        ),
    ),
    (
        "pages",
        r#"{"pages":{"a":{"mark":"X"}},"first":{"lines":51}}"#,
        Err(
            ":\n- `pages.a.mark` should match the pattern `^[a-z]+$`, got `X`\n- `first.mark` is missing (given: \
             `lines`)\n- `first.lines` should be from 1 to 50, got 51",
        ),
    ),
    ("figure", r#"{"figure":"dot"}"#, Ok("(Dot, None)")),
    ("figure", r#"{"figure":{"circle":{"radius":3.0}},"other":null}"#, Ok("(Circle { radius: 3 }, None)")),
    (
        "figure",
        r#"{"figure":{"through":[1,2]},"other":{"at":{"x":1}}}"#,
        Ok("(Through([1, 2]), Some(At(Point { x: 1, y: None })))"),
    ),
    (
        "figure",
        r#"{"figure":{"circle":{"radius":300,"colour":1}},"other":{"through":["1"]}}"#,
        Err(":\n- `figure.circle.radius` should be from 0 to 255, got 300\n- unknown argument `colour` in \
             `figure.circle` (valid: `radius`)\n- `other.through[0]` should be integer, got string"),
    ),
    (
        "figure",
        r#"{"figure":"Dot"}"#,
        Err(
            ": `figure` should be one of `dot`, or an object with one member, which is one of `circle`, `through`, \
             `at`, got `Dot`, did you mean `dot`?",
        ),
    ),
    (
        "figure",
        r#"{"figure":{"dot":null}}"#,
        Err(
            ": `figure` should be one of `dot`, or an object with one member, which is one of `circle`, `through`, \
             `at`, given: `dot`",
        ),
    ),
    (
        "figure",
        r#"{"figure":["circle"]}"#,
        Err(
            ": `figure` should be one of `dot`, or an object with one member, which is one of `circle`, `through`, \
             `at`, got array",
        ),
    ),
    (
        "figure",
        r#"{"figure":{"at":{"x":1},"circle":{"radius":1}}}"#,
        Err(": unknown argument `circle` in `figure` (valid: `at`)"),
    ),
    ("figure", r#"{"figure":{"at":{"x":1},"at":{"x":1}}}"#, Err(": `figure.at` is given more than once")),
    (
        "walk",
        r#"{"steps":[{"kind":"walk","steps":2.0},{"kind":"to","x":1},{"kind":"stop"}]}"#,
        Ok("[Walk { steps: 2 }, To(Point { x: 1, y: None }), Stop]"),
    ),
    (
        "walk",
        r#"{"steps":[{"steps":2},{"kind":"Walk"},{"kind":1},{"kind":"to","steps":1},"stop"]}"#,
        Err(
            ":\n- `steps[0].kind` is missing (given: `steps`)\n- `steps[1].kind` should be one of `stop`, `walk`, \
             `to`, got `Walk`, did you mean `walk`?\n- `steps[2].kind` should be one of `stop`, `walk`, `to`, got \
             number\n- `steps[3].x` is missing (given: `kind`, `steps`)\n- unknown argument `steps` in `steps[3]` \
             (valid: `kind`, `x`, `y`)\n- `steps[4]` should be an object whose `kind` is one of `stop`, `walk`, \
             `to`, got `stop`",
        ),
    ),
    ("word", r#"{"word":{"t":"Letters","c":"abc"}}"#, Ok("Letters(\"abc\")")),
    ("word", r#"{"word":{"t":"Empty"}}"#, Ok("Empty")),
    ("word", r#"{"word":{"t":"Letters"}}"#, Err(": `word.c` is missing (given: `t`)")),
];

/// The message of a row in full.
fn message(tool: &str, rest: &str) -> String {
    format!("invalid arguments for `{tool}`{rest}")
}

#[test]
fn the_registry_accepts_or_explains() {
    for (tool, arguments, wanted) in TABLE {
        match (call(&REGISTRY, tool, arguments), wanted) {
            (Ok(output), Ok(value)) => assert_eq!(output.text, *value, "{tool} {arguments}"),
            (Err(error), Err(rest)) => {
                assert_eq!(error.kind, ToolErrorKind::InvalidArguments, "{tool} {arguments}");
                assert_eq!(error.message, message(tool, rest), "{tool} {arguments}");
            }
            (result, _) => panic!("{tool} {arguments}: {result:?}"),
        }
    }
}

/// Plays a script and keeps what the model was shown last.
struct Watched {
    script: Scripted,
    seen: Mutex<Vec<Message>>,
}

impl Model for Watched {
    fn name(&self) -> &str {
        self.script.name()
    }

    fn reply(&self, context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        *self.seen.lock().expect("lock") = request.messages.to_vec();
        self.script.reply(context, request)
    }
}

#[test]
fn the_same_reaches_the_model_as_the_result_of_the_call() {
    for (tool, arguments, wanted) in TABLE {
        let turns = vec![Turn::call(*tool, ScriptedArguments::from(*arguments)), Turn::answer("done")];
        let model = Arc::new(Watched { script: Scripted::new("table", turns), seen: Mutex::default() });
        Agent::new(Arc::clone(&model), registry()).run("go");
        let seen = model.seen.lock().expect("lock");
        let (text, is_error) = match wanted {
            Ok(value) => ((*value).to_owned(), false),
            Err(rest) => (message(tool, rest), true),
        };
        let result = Message::Tool { call_id: "call_1".to_owned(), text, is_error };
        assert_eq!(seen.last(), Some(&result), "{tool} {arguments}");
    }
}
