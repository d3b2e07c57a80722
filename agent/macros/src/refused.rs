//! What cannot be a tool is a compile error, and its text says what to do instead.

use crate::args::doc_text;
use crate::expand::expand;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ItemFn;

/// Options of the attribute, the function, and the error. Where there is no doc comment, one is put before it.
const CASES: &[(&str, &str, &str)] = &[
    ("", "fn t(&self) -> String {}", "a tool has no `self`: make it a free function that takes `&State`"),
    (
        "",
        "async fn t() -> String {}",
        "a tool cannot be async: the loop is synchronous, block inside the tool",
    ),
    ("", "unsafe fn t() -> String {}", "a tool cannot be unsafe: a model chooses its arguments"),
    ("", "extern \"C\" fn t() -> String {}", "a tool cannot have another ABI"),
    ("", "fn t<T>(x: T) -> String {}", "a tool cannot be generic: its schema needs concrete types"),
    ("", "fn t<'a>(x: &'a State) -> String {}", "a tool cannot be generic: its schema needs concrete types"),
    (
        "",
        "fn t((a, b): (u8, u8)) -> String {}",
        "an argument needs a plain name: the model calls it by that name",
    ),
    ("", "fn t(ref a: u8) -> String {}", "an argument needs a plain name: the model calls it by that name"),
    ("", "fn t(a: impl Into<String>) -> String {}", "an argument needs a concrete type, not `impl Trait`"),
    ("", "fn t(a: &str) -> String {}", "an argument has to be owned: `String` or `Vec<T>`"),
    ("", "fn t(a: &[u8]) -> String {}", "an argument has to be owned: `String` or `Vec<T>`"),
    (
        "",
        "fn t(a: &mut State) -> String {}",
        "a tool may be called from several threads: take `&T` and put what changes behind a lock",
    ),
    (
        "",
        "fn t(a: &State, b: &Other) -> String {}",
        "a tool has one state: put what belongs together into one struct",
    ),
    ("", "fn t(a: &Context, b: &Context) -> String {}", "`&Context` may appear only once"),
    ("", "fn t(a: u8, context: &Context) -> String {}", "`&Context` has to come before the arguments"),
    (
        "",
        "fn t(a: u8, state: &State) -> String {}",
        "a reference after the arguments has to come before them: it is the tool's state",
    ),
    ("", "fn t(a: u8) {}", "a tool has to return something the model can read"),
    ("", "fn t(a: u8) -> () {}", "a tool has to return something the model can read"),
    ("", "fn t() -> impl Into<String> {}", "a result needs a concrete type, not `impl Trait`"),
    (
        "",
        "fn t(#[serde(default)] a: u8) -> String {}",
        "an argument takes doc comments and `#[arg(...)]` only",
    ),
    (
        "",
        "fn t(#[arg(default = 1)] state: &State) -> String {}",
        "a reference is no argument of the model's: it takes no attributes",
    ),
    (
        "",
        "fn t(#[arg(least = 1)] a: u8) -> String {}",
        "unknown rule; there are `default`, `min`, `max`, `min_length`, `max_length`, `min_items`, `max_items`, \
         `pattern`, each with `= value`",
    ),
    ("", "fn t(#[arg(min = 1, min = 2)] a: u8) -> String {}", "given twice"),
    ("", "fn t(#[arg(default = 1)] #[arg(default = 2)] a: u8) -> String {}", "given twice"),
    ("", "fn t(#[arg(default)] a: u8) -> String {}", "expected `=`"),
    ("", "#[doc = \"\"] fn t() -> String {}", "a tool needs a doc comment: it is what the model reads"),
    ("mutate", "fn t() -> String {}", "unknown option; there are `mutates` and `name = \"...\"`"),
    ("mutates = false", "fn t() -> String {}", "expected `,`"),
    ("name = \"a\", name = \"b\"", "fn t() -> String {}", "given twice"),
    (
        "name = \"two words\"",
        "fn t() -> String {}",
        "`two words` cannot be a tool's name: it takes 1 to 64 of a-z A-Z 0-9 _ -",
    ),
    ("name = \"\"", "fn t() -> String {}", "`` cannot be a tool's name: it takes 1 to 64 of a-z A-Z 0-9 _ -"),
    ("", "struct T;", "expected `fn`"),
];

fn expanded(options: &str, function: &str) -> syn::Result<String> {
    let docs = if function.contains("doc") { "" } else { "/// Does it.\n" };
    let tokens: TokenStream = format!("{docs}{function}").parse()?;
    expand(options.parse()?, tokens).map(|tokens| tokens.to_string())
}

#[test]
fn what_cannot_be_a_tool_says_why() {
    for (options, function, wanted) in CASES {
        let error =
            expanded(options, function).map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
        assert_eq!(error, *wanted, "#[tool({options})] {function}");
    }
}

#[test]
fn what_can_be_a_tool_is_accepted() {
    for (options, function) in [
        ("mutates, name = \"good-name_1\"", "fn t() -> String {}"),
        ("", "fn t(context: &Context, state: &State, mut a: u8, b: Option<Vec<u8>>) -> Result<u64, E> {}"),
        ("", "fn t(state: &Arc<Mutex<u8>>, context: &Context) -> Result<u64> {}"),
        (
            "",
            "fn t(/** Text. */ #[arg(default = \"a\", max_length = 9, pattern = \"^a\")] a: String) -> String {}",
        ),
    ] {
        assert!(
            expanded(options, function).is_ok(),
            "#[tool({options})] {function}: {:?}",
            expanded(options, function)
        );
    }
}

#[test]
fn a_condition_on_the_function_holds_for_what_comes_of_it() {
    let text = expanded("", "#[cfg(never)] fn t() -> String {}").expect("a tool");
    assert_eq!(text.matches("cfg (never)").count(), 3, "{text}");
}

#[test]
fn the_description_ends_at_the_first_heading() {
    let function: ItemFn = syn::parse2(quote! {
        /// Adds numbers.
        ///
        /// Exactly.
        ///
        /// # Errors
        /// None.
        fn t() -> String {}
    })
    .expect("a function");
    assert_eq!(doc_text(&function.attrs), "Adds numbers.\n\nExactly.");
}
