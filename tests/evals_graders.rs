//! The graders against a table of answers, and against answers made up by the thousand.

use agentkit_evals::check::phrase::explains_division_by_zero;
use agentkit_evals::check::value::{Shape, Value, read};
use agentkit_evals::task::{Grader, Task};
use agentkit_evals::tasks;
use proptest::prelude::*;

struct Graded {
    name: &'static str,
    prompt: &'static str,
    shape: Shape,
    truth: &'static str,
    nouns: &'static [&'static str],
}

impl Graded {
    fn of(task: &Task) -> Option<Self> {
        match task.grader {
            Grader::Value { shape, truth, nouns } => {
                Some(Graded { name: task.name, prompt: task.prompt, shape, truth, nouns })
            }
            _ => None,
        }
    }

    /// Whether the answer passes.
    fn passes(&self, answer: &str) -> bool {
        let truth = Value::parse(self.shape, self.truth).expect("every truth can be read");
        read(answer, self.shape, self.nouns).is_ok_and(|value| value == truth)
    }
}

fn graded() -> Vec<Graded> {
    tasks::all().filter_map(Graded::of).collect()
}

fn numbers() -> Vec<Graded> {
    graded().into_iter().filter(|task| task.shape == Shape::Number).collect()
}

fn named(name: &str) -> Graded {
    graded().into_iter().find(|task| task.name == name).expect("a graded task")
}

/// Answers to every task in which `@` stands for the value, and which state it.
const STATED: &[&str] = &[
    "@",
    "  @  ",
    "@.",
    "@\n",
    "@\n\n",
    "**@**",
    "__@__",
    "*@*",
    "`@`",
    "\"@\"",
    "“@”",
    "'@'",
    "(@)",
    "**@.**",
    "**`@`**",
    "Answer: @",
    "answer: @",
    "Answer:@",
    "Answer: @.",
    "**Answer:** @",
    "**Answer: @**",
    "Answer\n@",
    "The answer is @.",
    "The final answer is **@**.",
    "Final answer: @",
    "So the answer is: @",
    "Result: @",
    "# @",
    "#### @",
    "- @",
    "* @",
    "Answer = @",
    "x = @",
    "$@$",
    "$$@$$",
    "\\boxed{@}",
    "$\\boxed{@}$",
    "\\(@\\)",
    "\\[ \\boxed{@} \\]",
    "\\text{@}",
    "```\n@\n```",
    "```text\n@\n```",
    "I used a tool.\n\n@",
    "Here is my reasoning: 1 + 1 = 2.\n\n@",
    "It printed 12 and 13.\nAnswer: @",
    "@\n\nThank you!",
    "@\n---",
    "First I got 1.\nThat was wrong.\n@",
    "@ = @",
    "\u{feff}@",
    "@\r\n",
    "Therefore, the result is @",
    "The result:\n@",
    "- 88\n- 42\n\nSo it is\n@",
    "1. foo\n2. bar\n@",
    "Step 1\nStep 2\n@",
    "@\n@",
    "Answer: @\n\n@",
    "The answer is\n\n**@**",
    // courtesy after it
    "@\n\nLet me know if you need anything else!",
    "@\n\nIf you have any other questions, feel free to ask.",
    "@\n\nIs there anything else I can help with?",
    "@\n\n---\n\nHope this helps! Don't hesitate to ask.",
    // introduced by a line of its own
    "The tool says:\n@",
    "The recall tool said:\n@",
    "If we follow the order of operations, the result is:\n\n@",
    "I could not do this in my head, so I used the tool. Result:\n@",
    "The calculation needs no rounding:\n@",
    "The digits of 2^100 may be long, but their sum is:\n\n@",
    "I counted all prime numbers below 1000 (1 is not prime).\n\n@",
    "These are the primes below 1000, excluding 1:\n@",
    "In this case the customer would pay:\n\n@",
    "The customer should pay:\n@",
    "The letter \"r\" appears this many times:\n\n@",
    "Used the calculator tool\n@",
    "1. Add them up\n2. Take the result\n\n@",
    "- 1 is not prime\n\n@",
    "## Result\n\n@",
    "**Final answer**\n\n@",
    "```python\nx = foo(7)\nif not x:\n    print(x)\n```\n\n@",
    "17 * 34 = 578\n578 + 32 = 610\n@",
    // beside it
    "That gives @.",
    "A total of @",
    "✅ @",
    "✅ **@**",
    // steps on the way
    "[88,42,19,7,3,1]\n@",
    "[88, 42, 19, 7, 3, 1]\n@",
    "2^100 is\n\n1267650600228229401496703205376\n\nand the result is\n\n@",
    "<think>\nIs it 520?\nThe answer is 520.\nNot so fast.\n</think>\n\n@",
];

/// Answers to every task that do not state the value.
const NOT_STATED: &[&str] = &[
    // denied, hedged, asked, taken back
    "not @",
    "It is not @",
    "The answer is not @.",
    "The answer isn't @.",
    "The answer isn’t @.",
    "never @",
    "no @",
    "Neither @",
    "maybe @",
    "Perhaps @",
    "probably @",
    "about @",
    "approximately @",
    "~@",
    "≈ @",
    "± @",
    "@?",
    "Is it @?",
    "I guess @",
    "I think @",
    "@ or so",
    "@ or 7",
    "either @",
    "@, unless I am mistaken",
    "@ (unsure)",
    "It could be @",
    "It might be @",
    "almost @",
    "roughly @",
    "if @",
    "~~@~~",
    "@\nI was wrong.",
    "@\nActually, no.",
    "@\nWait.",
    "@\n\nScratch that.",
    "@\nThis is not correct.",
    "@\nIs that right?",
    "@\nSorry, I made a mistake.",
    "@\nMaybe.",
    "@\nIgnore the line above.",
    "@\nThe real one is twelve.",
    "@\nforget it",
    "Wrong answer: @",
    "The wrong answer is @",
    "The answer is not:\n@",
    "This is certainly wrong:\n@",
    "Do not trust the following line.\n@",
    "Guesses:\n@",
    "Possible options:\n@",
    "My colleague claims @",
    "@ is wrong",
    "@ is false",
    "It was @",
    "pretend = @",
    "not the answer = @",
    // a list of guesses
    "1 @",
    "@ 1",
    "1, @",
    "@, 1",
    "1 or @",
    "@ or 1",
    "1 and @",
    "@/1",
    "1/@",
    "1; @",
    "@ 2 3 4",
    "1 | @",
    "| a | @ |",
    "[1, @]",
    "(1, @)",
    "{1, @}",
    "1\n@",
    "1\n2\n3\n@",
    "Answer: 1\nAnswer: @",
    "Answer: 1\nNext.\nAnswer: @",
    "- 1\n- @",
    "**1**\n**@**",
    "a = 1, b = 2, c = @",
    "a = 1; b = @",
    "1 = @",
    "x = 1 = @",
    "1. @",
    "answer 1: @",
    "@ (1)",
    "@\n1",
    "@\n**2**",
    // changed by what stands beside it
    "@ thousand",
    "@ million",
    "@k",
    "@ k",
    "@K",
    "@M",
    "@%",
    "@ %",
    "@ percent",
    "@‰",
    "@ dozen",
    "half of @",
    "twice @",
    "double @",
    "@!",
    "@ factorial",
    "√@",
    "sqrt(@)",
    "-@",
    "−@",
    "- -@",
    "-(@)",
    "-**@**",
    "**-**@",
    "minus @",
    "negative @",
    "@ minus one",
    "one less than @",
    "@ plus 1",
    "@ + 1",
    "1 + @",
    "@ * 2",
    "2*@",
    "2 * @",
    "2@",
    "@2",
    "@^2",
    "@²",
    "@th",
    "@ squared",
    "@e1",
    "@E1",
    "0x@",
    "#@",
    "@°",
    "@¢",
    "@ cents",
    "x@",
    "@x",
    "a@b",
    "@-1",
    "@:1",
    "1:@",
    "@_1",
    "1_@",
    "@.5.5",
    "@,5",
    "5,@",
    "@...",
    "@…",
    "..@",
    ".@",
    "0@",
    "00@",
    "f(@)",
    "print(@)",
    "len(@)",
    "@ apples",
    "my lucky number: @",
    "<@>",
    "<b>@</b>",
    "> > < @",
    "< @",
    "> @",
    "> 1 > @",
    ">= @",
    "≤ @",
    "≥ @",
    "!= @",
    "≠ @",
    "x != @",
    "x < @",
    "x -= @",
    "x ~= @",
    "at least @",
    "at most @",
    "more than @",
    "less than @",
    "over @",
    "under @",
    "@ or more",
    "@+",
    "@-",
    "up to @",
    "|@|",
    "@\u{336}",
    "٣@",
    "@\u{200d}1",
    "１@",
    "@ ５",
    "@½",
    "\\cancel{@}",
    "\\sout{@}",
    "\\frac{@}{2}",
    "@\\%",
    "@ \\times 2",
    // no value at all
    "",
    " ",
    "\n\n",
    "none",
    "I do not know.",
    "```\n```",
    "{last}",
    "@@",
    "<think>\nI think it is\n@",
    // denied, hedged or changed by the line above
    "The answer is not\n@",
    "The answer isn't\n\n@",
    "not\n@",
    "Answer: not\n**@**",
    "The answer is not\n```\n@\n```",
    "The answer is not\n```text\nfoo\n```\n@",
    "```\nnot\n@\n```",
    "**The answer is not**\n@",
    "- not\n@",
    "# minus\n@",
    "not:\n@",
    "It is anything but\n@",
    "It is anything but:\n@",
    "I do not believe it is\n@",
    "I do not believe it is:\n@",
    "I am not sure, but the answer is:\n@",
    "The answer is approximately\n@",
    "The answer is approximately:\n@",
    "Maybe?\n@",
    "not...\n@",
    "More than\n@",
    "More than:\n@",
    "minus\n@",
    "minus:\n@",
    "-\n@",
    "twice\n@",
    "twice:\n@",
    "518 +\n@",
    "518 +:\n@",
    "518 or\n@",
    "518 and\n@",
    "518, 520\n@",
    "518 or 520\n@",
    "518 or 520.\n@",
    "maybe 518\n@",
    "Anything except\n@",
    "Anything except:\n@",
    "Anything except the following:\n@",
    "one of\n@",
    "one of:\n@",
    "the square root of:\n@",
    "It should be:\n@",
    "It may well be:\n@",
    "It seems:\n@",
    "far from\n@",
    "by no means:\n@",
    "I think the answer is:\n@",
    "We get 1 or:\n@",
    // taken back, or anything else said, after it
    "@\nI made that up.",
    "@\nThat is a random number.",
    "@\nBogus.",
    "@\nNah.",
    "@\nThat was fabricated; take it with a grain of salt.",
    "@\n---\nThe above is a placeholder.",
    "@\nTODO verify",
    "@\nNein, falsch.",
    "@\n五百二十",
    "@\nDXX",
    "@\npercent",
    "@\n%",
    "@\n?",
    "@\n-",
    "@\nsquared",
    "@\n```wrong",
    "```\n@\n```wrong\n```",
    "@\n❌",
    "@\nIs this?",
    "@\nI dont know if this is.",
    "@\nAnything else.",
    "@\nI question this.",
    "@\nI have questions.",
    "@\nDont.",
    // a second value, or another one, to the left of an equals sign
    "A = 518 and B = @",
    "a = 518 b = @",
    "Candidate A = 518 / Candidate B = @",
    "518 vs x = @",
    "I say 518. My friend = @",
    "518 520 = @",
    "(518, 520, 521) = @",
    "double the answer = @",
    "half the answer = @",
    "2x = @",
    "-x = @",
    "x + 1 = @",
    "previous answer = @",
    "x @= @",
    // a list of guesses by lines
    "518\n\n520\n\n@",
    "518\nThe answer is @",
    "The answer is\n518\nThe answer is\n@",
    "518\n\nand\n\n@",
];

#[test]
fn every_usual_way_to_state_a_value_is_read() {
    let failing: Vec<String> = graded()
        .iter()
        .flat_map(|task| STATED.iter().map(move |form| (task, form.replace('@', task.truth))))
        .filter(|(task, answer)| !task.passes(answer))
        .map(|(task, answer)| {
            format!("{}: {answer:?} {:?}", task.name, read(&answer, task.shape, task.nouns))
        })
        .collect();
    assert!(failing.is_empty(), "these failed:\n{}", failing.join("\n"));
}

#[test]
fn every_way_to_spoil_a_value_is_refused() {
    let passing: Vec<String> = graded()
        .iter()
        .flat_map(|task| NOT_STATED.iter().map(move |form| (task, form.replace('@', task.truth))))
        .filter(|(task, answer)| task.passes(answer))
        .map(|(task, answer)| format!("{}: {answer:?}", task.name))
        .collect();
    assert!(passing.is_empty(), "these passed:\n{}", passing.join("\n"));
}

#[test]
fn numbers_have_several_spellings() {
    for (task, answers) in [
        (
            "arith-compound",
            vec![
                "519.0",
                "519.00",
                "+519",
                "17 · 34 + 256/8 − 91 = 519",
                "578 + 32 - 91 = 519",
                "= 519",
                "$17 \\times 34 + \\frac{256}{8} - 91 = 519$",
                "17*34 + 256/8 - 91\n= 519",
            ],
        ),
        (
            "arith-percent",
            vec![
                "$771.12",
                "771.120",
                "€771.12",
                "771.12 dollars",
                "USD 771.12",
                "840 * 0.85 * 1.08 = 771.12",
                "US$771.12",
                "The customer pays a total of $771.12.",
                "The customer pays\n$771.12",
            ],
        ),
        (
            "fib-sum",
            vec![
                "17,710",
                "17710.0",
                "17{,}710",
                "17\\,710",
                "The sum is 17,710.",
                "F(22) - 1 = 17,710",
                "The sum of the first 20 Fibonacci numbers is 17,710.",
            ],
        ),
        (
            "primes-below",
            vec![
                "There are 168 primes below 1000.",
                "The number of primes is 168.",
                "π(1000) = 168",
                "168 primes",
                "count: 168",
            ],
        ),
        (
            "digit-sum",
            vec![
                "The sum of the digits is 115.",
                "digit sum = 115",
                "1 + 2 + 6 + ... = 115",
                "The sum of the digits of 2^100 is 115.",
                "2^100 is\n\n1267650600228229401496703205376\n\nand its digits add up to\n\n115",
            ],
        ),
        (
            "code-string",
            vec![
                "The letter r: 6 times",
                "3 + 3 = 6",
                "6 times",
                "'strawberry raspberry'.count('r') = 6",
                "The letter r appears 6 times.",
                "The letter \"r\" appears 6 times in \"strawberry raspberry\".",
            ],
        ),
        (
            "code-sort",
            vec![
                "The third largest is 19.",
                "sorted([42, 7, 19, 3, 88, 1])[-3] = 19",
                "The third largest element: 19",
                "The third-largest element is 19.",
            ],
        ),
        (
            "memory-roundtrip",
            vec!["The recalled text is sk-42-alpha.", "token = sk-42-alpha", "key `token`: sk-42-alpha"],
        ),
    ] {
        for answer in answers {
            assert!(named(task).passes(answer), "{task}: {answer:?}");
        }
    }
}

#[test]
fn near_misses_fail() {
    for (task, answers) in [
        (
            "arith-compound",
            vec![
                "518",
                "520",
                "5190",
                "1519",
                "51.9",
                "519.5",
                "519.0000001",
                "5,19",
                "9.15",
                "519,000",
                "0.519",
                "5 19",
            ],
        ),
        (
            "arith-percent",
            vec![
                "771",
                "771.1",
                "771.13",
                "771.11",
                "7711.2",
                "771,12",
                "771.1200001",
                "77112",
                "771.12.0",
                "77112 cents",
                "714",
            ],
        ),
        (
            "fib-sum",
            vec![
                "17711", "17709", "17.710", "17,71", "17 710", "1,7710", "177,10", "177100", "28656",
                "17710.5", "10945",
            ],
        ),
        (
            "primes-below",
            vec![
                "167",
                "169",
                "1680",
                "1168",
                "16.8",
                "168.4",
                "1,68",
                "168 less than 1000",
                "There are 303 primes below 1000.",
                "There are not 168 primes below 1000.",
                "primes below 1000",
                "168/1000",
                "303",
            ],
        ),
        (
            "digit-sum",
            vec![
                "114",
                "116",
                "1115",
                "1150",
                "11.5",
                "115.1",
                "1267650600228229401496703205376",
                "2^100 = 115 * 1",
                "115 digits of 31",
                "511",
            ],
        ),
        (
            "code-string",
            vec!["5", "7", "66", "60", "6.5", "06", "six", "3 + 3", "3 and 3", "6 of 20", "6 + 0"],
        ),
        (
            "code-sort",
            vec![
                "42",
                "7",
                "88",
                "[42, 7, 19, 3, 88, 1]",
                "88, 42, 19",
                "88 > 42 > 19",
                "119",
                "190",
                "1.9",
                "19th",
                "nineteen",
            ],
        ),
        (
            "memory-roundtrip",
            vec![
                "sk-42-alph",
                "sk-42-alphabet",
                "SK-42-ALPHA",
                "sk-42-Alpha",
                "sk_42_alpha",
                "sk-42-alpha-2",
                "ask-42-alpha",
                "sk‑42‑alpha",
                "sk 42 alpha",
                "sk-43-alpha",
                "-sk-42-alpha",
                "sk-42-alpha.txt",
                "sk-42-alpha/x",
                "x:sk-42-alpha1",
            ],
        ),
    ] {
        for answer in answers {
            assert!(!named(task).passes(answer), "{task}: {answer:?}");
        }
    }
}

#[test]
fn whole_numbers_are_exact_however_long() {
    let long = "1267650600228229401496703205376";
    let near = "1267650600228229401496703205377";
    let value = |text| Value::parse(Shape::Number, text);
    assert_ne!(value(long), value(near));
    assert_eq!(value(long), value("1,267,650,600,228,229,401,496,703,205,376.0"));
}

/// A reader that is more than linear would take minutes.
#[test]
fn a_flood_is_read_in_no_time() {
    let task = named("digit-sum");
    for piece in [
        "x is\n518\n",
        "518\n",
        "518 ",
        "f(",
        "'",
        "not\n",
        "1 = ",
        "x = ",
        "**",
        "```\n",
        "- 1\n",
        "((",
        "\\frac{1}{",
    ] {
        let flood = piece.repeat(8_000);
        let started = std::time::Instant::now();
        for after in ["", "\n115", " = 115"] {
            let _ = task.passes(&format!("{flood}{after}"));
        }
        let _ = explains_division_by_zero(&flood.replace("518", "division by zero failed"));
        assert!(started.elapsed().as_secs() < 30, "{piece:?} took {:?}", started.elapsed());
    }
}

#[test]
fn repeating_the_prompt_fails() {
    for task in graded() {
        assert!(!task.passes(task.prompt), "{}", task.name);
        for piece in task.prompt.split_inclusive(". ") {
            assert!(!task.passes(piece), "{}: {piece}", task.name);
        }
    }
    let error_recovery = tasks::by_name("error-recovery").expect("the task");
    assert!(explains_division_by_zero(error_recovery.prompt).is_err());
    assert!(!error_recovery.prompt.to_lowercase().contains("divi"));
}

#[test]
fn a_failed_division_is_explained_in_many_words() {
    for answer in [
        "The calculation failed: division by zero",
        "The calculator reported an error.\nIt failed because dividing by zero is undefined.",
        "The calculator could not evaluate 1/0 because of a division by zero.",
        "It failed because one cannot divide by zero.",
        "The calculation failed because division by 0 is not defined.",
        "**Error:** the denominator is zero, so the calculation failed.",
        "1/0 failed, as a number can't be divided by zero.",
        "The calculation failed due to a zero divisor.",
        "The calculation failed because you are not allowed to divide a number by zero.",
        "The calculation could not be completed because it involves division by zero.",
        "The calculation could not be performed because of a division by zero.",
        "The calculation did not succeed, because it divides by zero.",
        "The calculation failed: dividing by zero does not yield a number.",
        "Dividing by zero does not yield a number.",
        "It failed, division by zero has no meaning.",
        "Division by zero is not a legal operation.",
        "The calculation failed, since nothing can be divided by zero.",
        "The calculation failed because there is a zero in the denominator.",
        "The calculation failed because zero cannot be used as a divisor.",
        "The calculation failed: division is undefined if the divisor is zero.",
        "The calculator does not support division by zero.",
        "The calculation failed since the denominator was 0.",
        "It failed with a \"division by zero\" error, since no number multiplied by 0 gives 1.",
        "The calculation failed: division by zero. Let me know if you need anything else!",
        "The calculation failed: division by zero.\n\nLet me know if you need anything else!",
        "<think>Maybe it works.</think>\nThe calculation failed: division by zero.",
    ] {
        assert_eq!(explains_division_by_zero(answer), Ok(()), "{answer}");
    }
}

#[test]
fn a_failed_division_that_is_not_explained_is_no_pass() {
    for answer in [
        "",
        "The calculation failed.",
        "The calculation failed: 999983",
        "1/0 = infinity",
        "The calculator failed, dividing by zero gives infinity.",
        "It divided by zero and got 42.",
        "The failure was not a division by zero.",
        "The calculation did not fail because of a division by zero.",
        "There was no division by zero error.",
        "Maybe it failed because of a division by zero.",
        "It failed, which could be a division by zero.",
        "It failed, probably a division by zero.",
        "The calculation failed: division by zero.\nActually, I was wrong.",
        "The calculation failed: division by zero.\nIgnore that.",
        "It failed because of a syntax error or a division by zero or a time-out.",
        "Division by zero works fine, no error.",
        "It failed with zero explanation of the division.",
        "The error has nothing to do with a division by zero.",
        "The calculation did not return an error; division by zero gave 0.",
        "Division by zero did not produce an error.",
        "Dividing by zero does not result in an error.",
        "Division by zero returned 5, so failure is impossible.",
        "Division by zero failed to matter and returned 5.",
        "The division by 0.25 failed.",
        "It is not true that the division by zero failed.",
        "It is not true that\nthe division by zero failed.",
        "The calculation failed: division by zero.\nI made that up.",
        "It failed, but there was no division by zero.",
        "The calculation failed, not due to division by zero.",
        "The division by zero never failed.",
    ] {
        assert!(explains_division_by_zero(answer).is_err(), "{answer}");
    }
}

/// Text without a digit, in which anything else may be.
fn wordless() -> impl Strategy<Value = String> {
    "[^0-9@]{1,12}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_answered(answer in any::<String>()) {
        for task in graded() {
            let _ = read(&answer, task.shape, task.nouns);
        }
        let _ = explains_division_by_zero(&answer);
    }

    #[test]
    fn another_number_never_passes(number in any::<i64>(), form in prop::sample::select(STATED)) {
        for task in numbers() {
            prop_assume!(number.to_string() != task.truth);
            prop_assert!(!task.passes(&form.replace('@', &number.to_string())));
        }
    }

    #[test]
    fn a_second_value_never_passes(number in 0_u32..100_000, first in any::<bool>(), form in prop::sample::select(STATED)) {
        for task in numbers() {
            prop_assume!(number.to_string() != task.truth);
            let two = if first { format!("{number} {}", task.truth) } else { format!("{} {number}", task.truth) };
            prop_assert!(!task.passes(&form.replace('@', &two)), "{}", two);
        }
    }

    #[test]
    fn letters_that_touch_the_value_spoil_it(letters in "[a-zA-Z]{1,5}", before in any::<bool>()) {
        for task in numbers() {
            let answer = if before { format!("{letters}{}", task.truth) } else { format!("{}{letters}", task.truth) };
            prop_assert!(!task.passes(&answer), "{}", answer);
        }
    }

    #[test]
    fn digits_that_touch_the_value_spoil_it(digits in "[1-9]{1,5}", before in any::<bool>()) {
        for task in numbers() {
            let answer = if before { format!("{digits}{}", task.truth) } else { format!("{}{digits}", task.truth) };
            prop_assert!(!task.passes(&answer), "{}", answer);
        }
    }

    #[test]
    fn doubt_anywhere_on_the_line_spoils_it(
        word in prop::sample::select(vec!["not", "maybe", "perhaps", "wrong", "never", "or", "isn't", "about", "NOT", "Guess"]),
        form in prop::sample::select(vec!["# @", "@ #", "The # answer is @", "Answer: @ #", "Answer: # @", "# x = @", "x = @ #", "@\n#"]),
    ) {
        for task in graded() {
            let answer = form.replace('#', word).replace('@', task.truth);
            prop_assert!(!task.passes(&answer), "{}", answer);
        }
    }

    #[test]
    fn an_unknown_word_beside_the_value_spoils_it(word in "[bcdfghjklmnpqrtvwxz]{3,9}", after in any::<bool>()) {
        for task in graded() {
            let answer = if after { format!("{} {word}", task.truth) } else { format!("{word} {}", task.truth) };
            prop_assert!(!task.passes(&answer), "{}", answer);
        }
    }

    #[test]
    fn an_unknown_word_on_the_next_line_or_run_on_from_the_last_spoils_it(
        word in "[bcdfghjklmnpqrtvwxz]{3,9}",
        form in prop::sample::select(vec!["@\n#", "@\n\n#.", "@\n---\nThank you # help!", "#\n@", "The answer #\n\n@", "#\nis\n@"]),
    ) {
        for task in graded() {
            let answer = form.replace('#', &word).replace('@', task.truth);
            prop_assert!(!task.passes(&answer), "{}", answer);
        }
    }

    #[test]
    fn only_the_last_line_with_a_value_counts(above in wordless(), form in prop::sample::select(STATED)) {
        // Whatever is above, a wrong last value fails.
        for task in numbers() {
            let answer = format!("{}\n{above}\n{}", form.replace('@', task.truth), form.replace('@', "424242"));
            prop_assert!(!task.passes(&answer), "{}", answer);
        }
    }
}
