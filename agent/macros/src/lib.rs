//! The `#[tool]` attribute of agentkit-agent: a plain function becomes a tool that a model can call.

mod args;
mod expand;
mod options;
#[cfg(test)]
mod refused;
mod rules;

use proc_macro::TokenStream;

/// Makes a tool of a function.
///
/// The function stays as it is, and a type of the same name appears beside it: `calculator::tool()` builds the tool.
///
/// * The doc comment (up to its first heading) is the description, the doc comment of a parameter is the parameter's.
/// * The JSON schema is derived from the parameters: a type needs `serde::Deserialize` and `schemars::JsonSchema`.
///   `Option<T>` is optional, everything else is required.
/// * `#[arg(...)]` on a parameter: `default = value` makes it optional, and `min`, `max` (of a number), `min_length`,
///   `max_length` (of a text, in characters), `min_items`, `max_items` (of a list) and `pattern` (a regular expression
///   that a text has to match somewhere) limit it, as in `#[arg(default = 10, min = 1, max = 100)]`. All of it stands in
///   the schema and is enforced; adding the tool fails where a limit does not fit the type or the default. The default
///   of a type that is not `serde::Serialize` is taken all the same, but the model is not told of it. A field of a struct
///   takes serde's `default` and schemars' `extend`, `range`, `length` and `regex` instead; beware that schemars
///   drops the last three where they do not fit the type.
/// * A parameter that is a reference is not an argument: `&Context` is the context of the call, another reference is
///   the tool's state, which `tool(state)` takes by value. Each may appear once, before the arguments.
///   A panic while it holds a lock poisons the lock: to go on working in later calls, take it with
///   `lock().unwrap_or_else(PoisonError::into_inner)`.
/// * The function returns `Result<T, ToolError>` or a plain `T`, where `T` is anything that goes into a `ToolOutput`:
///   a text, a number, a `bool`. The return type has to be *written* as `Result<...>` to be taken as one. Another error
///   becomes a `ToolError` by `.map_err(|e| ToolError::failed(e.to_string()))`.
/// * `#[tool(mutates)]` marks a tool that changes something: a dry run refuses it.
/// * `#[tool(name = "other-name")]` gives the tool another name than the function's.
///
/// Receivers, generics, `async`, patterns and `impl Trait` cannot be expressed and are compile errors.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, function: TokenStream) -> TokenStream {
    expand::expand(options.into(), function.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
