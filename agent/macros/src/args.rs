//! Reads the attribute and the signature of a tool function.

use proc_macro2::{Ident, TokenStream};
use syn::parse::Parser;
use syn::{
    Attribute, Error, Expr, FnArg, GenericArgument, ItemFn, Lit, Meta, Pat, PatType, PathArguments, Result,
    ReturnType, Type,
};

/// What `#[tool(...)]` says.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) mutates: bool,
    pub(crate) name: Option<String>,
}

/// What a tool function needs to be called.
pub(crate) struct Signature {
    /// The parameters in the order of the call.
    pub(crate) parameters: Vec<Parameter>,
    /// The return type. What does not fit is reported there.
    pub(crate) output: Output,
}

/// What the function returns.
pub(crate) enum Output {
    /// A value of this type.
    Plain(Box<Type>),
    /// Written as `Result<...>`, with the types of value and error. The error is missing in an alias that fixes it.
    Fallible(Box<Type>, Option<Box<Type>>),
}

/// One parameter of the function.
pub(crate) enum Parameter {
    /// `&Context`.
    Context,
    /// `&T`: the state `T`.
    State(Box<Type>),
    /// An argument the model gives.
    Argument { name: Ident, ty: Box<Type>, docs: Vec<Attribute> },
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut options = Options::default();
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("mutates") {
                options.mutates = true;
                Ok(())
            } else if meta.path.is_ident("name") {
                let name: syn::LitStr = meta.value()?.parse()?;
                check_name(&name.value()).map_err(|why| Error::new(name.span(), why))?;
                options.name = Some(name.value());
                Ok(())
            } else {
                Err(meta.error("unknown option; there are `mutates` and `name = \"...\"`"))
            }
        });
        parser.parse2(tokens)?;
        Ok(options)
    }
}

/// The rule of the chat-completions protocol.
fn check_name(name: &str) -> std::result::Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=64).contains(&name.len()) && name.chars().all(fits) {
        return Ok(());
    }
    Err(format!("`{name}` cannot be a tool's name: it takes 1 to 64 of a-z A-Z 0-9 _ -"))
}

impl Signature {
    pub(crate) fn parse(function: &ItemFn) -> Result<Self> {
        refuse_qualifiers(function)?;
        let mut parameters = Vec::new();
        for input in &function.sig.inputs {
            let parameter = parameter(input)?;
            check_order(&parameters, &parameter).map_err(|why| Error::new_spanned(input, why))?;
            parameters.push(parameter);
        }
        let ReturnType::Type(_, output) = &function.sig.output else {
            return Err(Error::new_spanned(
                &function.sig,
                "a tool has to return something the model can read",
            ));
        };
        Ok(Signature { parameters, output: Output::of(output) })
    }
}

impl Output {
    fn of(ty: &Type) -> Self {
        let last = match ty {
            Type::Path(path) => path.path.segments.last().filter(|last| last.ident == "Result"),
            _ => None,
        };
        let Some(last) = last else { return Output::Plain(Box::new(ty.clone())) };
        let mut types = type_arguments(&last.arguments).map(|ty| Box::new(ty.clone()));
        Output::Fallible(types.next().unwrap_or_else(|| Box::new(ty.clone())), types.next())
    }
}

fn type_arguments(arguments: &PathArguments) -> impl Iterator<Item = &Type> {
    let arguments = match arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    };
    arguments.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// What no tool can be: the error points at the offending token.
fn refuse_qualifiers(function: &ItemFn) -> Result<()> {
    let sig = &function.sig;
    if let Some(token) = &sig.asyncness {
        return Err(Error::new_spanned(
            token,
            "a tool cannot be async: the loop is synchronous, block inside the tool",
        ));
    }
    if let Some(token) = &sig.unsafety {
        return Err(Error::new_spanned(token, "a tool cannot be unsafe: a model chooses its arguments"));
    }
    if let Some(token) = &sig.abi {
        return Err(Error::new_spanned(token, "a tool cannot have another ABI"));
    }
    if !sig.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &sig.generics,
            "a tool cannot be generic: its schema needs concrete types",
        ));
    }
    if let Some(token) = &sig.variadic {
        return Err(Error::new_spanned(token, "a tool cannot be variadic"));
    }
    Ok(())
}

fn parameter(input: &FnArg) -> Result<Parameter> {
    let typed = match input {
        FnArg::Receiver(receiver) => {
            return Err(Error::new_spanned(
                receiver,
                "a tool has no `self`: make it a free function that takes `&State`",
            ));
        }
        FnArg::Typed(typed) => typed,
    };
    match &*typed.ty {
        Type::Reference(reference) => injected(reference),
        Type::ImplTrait(ty) => {
            Err(Error::new_spanned(ty, "an argument needs a concrete type, not `impl Trait`"))
        }
        _ => argument(typed),
    }
}

fn injected(reference: &syn::TypeReference) -> Result<Parameter> {
    if let Some(token) = &reference.mutability {
        let why = "a tool may be called from several threads: take `&T` and put what changes behind a lock";
        return Err(Error::new_spanned(token, why));
    }
    if last_segment(&reference.elem).is_some_and(|name| name == "str")
        || matches!(*reference.elem, Type::Slice(_))
    {
        return Err(Error::new_spanned(reference, "an argument has to be owned: `String` or `Vec<T>`"));
    }
    if last_segment(&reference.elem).is_some_and(|name| name == "Context") {
        return Ok(Parameter::Context);
    }
    Ok(Parameter::State(reference.elem.clone()))
}

fn argument(typed: &PatType) -> Result<Parameter> {
    let Pat::Ident(pattern) = &*typed.pat else {
        return Err(Error::new_spanned(
            &typed.pat,
            "an argument needs a plain name: the model calls it by that name",
        ));
    };
    if pattern.by_ref.is_some() || pattern.subpat.is_some() {
        return Err(Error::new_spanned(
            pattern,
            "an argument needs a plain name: the model calls it by that name",
        ));
    }
    let stray = typed.attrs.iter().find(|attribute| !attribute.path().is_ident("doc"));
    if let Some(attribute) = stray {
        return Err(Error::new_spanned(attribute, "an argument takes doc comments only"));
    }
    Ok(Parameter::Argument { name: pattern.ident.clone(), ty: typed.ty.clone(), docs: typed.attrs.clone() })
}

fn check_order(before: &[Parameter], next: &Parameter) -> std::result::Result<(), &'static str> {
    let has = |wanted: fn(&Parameter) -> bool| before.iter().any(wanted);
    match next {
        Parameter::Argument { .. } => Ok(()),
        Parameter::Context if has(|p| matches!(p, Parameter::Context)) => {
            Err("`&Context` may appear only once")
        }
        Parameter::State(_) if has(|p| matches!(p, Parameter::State(_))) => {
            Err("a tool has one state: put what belongs together into one struct")
        }
        _ if !has(|p| matches!(p, Parameter::Argument { .. })) => Ok(()),
        Parameter::Context => Err("`&Context` has to come before the arguments"),
        Parameter::State(_) => {
            Err("a reference after the arguments has to come before them: it is the tool's state")
        }
    }
}

fn last_segment(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        _ => None,
    }
}

/// The text of the doc comments up to the first heading, one line per line.
pub(crate) fn doc_text(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(doc_line);
    let before_heading: Vec<String> = lines.take_while(|line| !line.starts_with('#')).collect();
    before_heading.join("\n").trim().to_owned()
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else { return None };
    let Expr::Lit(literal) = &meta.value else { return None };
    match &literal.lit {
        Lit::Str(text) if meta.path.is_ident("doc") => Some(text.value().trim().to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    /// The compile error of a function, or of its options.
    fn error(options: TokenStream, function: ItemFn) -> String {
        match Options::parse(options).and_then(|_| Signature::parse(&function)) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_cannot_be_a_tool_is_a_compile_error() {
        let none = TokenStream::new;
        let cases: [(ItemFn, &str); 16] = [
            (
                parse_quote!(
                    fn t(&self) -> String {}
                ),
                "no `self`",
            ),
            (
                parse_quote!(
                    async fn t() -> String {}
                ),
                "async",
            ),
            (
                parse_quote!(
                    unsafe fn t() -> String {}
                ),
                "unsafe",
            ),
            (
                parse_quote!(
                    extern "C" fn t() -> String {}
                ),
                "ABI",
            ),
            (
                parse_quote!(
                    fn t<T>(x: T) -> String {}
                ),
                "generic",
            ),
            (
                parse_quote!(
                    fn t<'a>(x: &'a State) -> String {}
                ),
                "generic",
            ),
            (
                parse_quote!(
                    fn t((a, b): (u8, u8)) -> String {}
                ),
                "plain name",
            ),
            (
                parse_quote!(
                    fn t(ref a: u8) -> String {}
                ),
                "plain name",
            ),
            (
                parse_quote!(
                    fn t(a: impl Into<String>) -> String {}
                ),
                "concrete type",
            ),
            (
                parse_quote!(
                    fn t(a: &str) -> String {}
                ),
                "owned",
            ),
            (
                parse_quote!(
                    fn t(a: &mut State) -> String {}
                ),
                "lock",
            ),
            (
                parse_quote!(
                    fn t(a: &State, b: &Other) -> String {}
                ),
                "one state",
            ),
            (
                parse_quote!(
                    fn t(a: u8, context: &Context) -> String {}
                ),
                "`&Context` has to come before the arguments",
            ),
            (
                parse_quote!(
                    fn t(a: u8, state: &State) -> String {}
                ),
                "it is the tool's state",
            ),
            (
                parse_quote!(
                    fn t(#[serde(default)] a: u8) -> String {}
                ),
                "doc comments only",
            ),
            (
                parse_quote!(
                    fn t(a: u8) {}
                ),
                "return something",
            ),
        ];
        for (function, wanted) in cases {
            let message = error(none(), function);
            assert!(message.contains(wanted), "{wanted}: {message}");
        }
    }

    #[test]
    fn what_the_attribute_does_not_know_is_a_compile_error() {
        let function: ItemFn = parse_quote!(
            fn t() -> String {}
        );
        for (options, wanted) in [
            (parse_quote!(mutate), "unknown option"),
            (parse_quote!(name = "two words"), "1 to 64"),
            (parse_quote!(name = ""), "1 to 64"),
        ] {
            let message = error(options, function.clone());
            assert!(message.contains(wanted), "{wanted}: {message}");
        }
        assert_eq!(error(parse_quote!(mutates, name = "good-name_1"), function), "accepted");
    }

    #[test]
    fn the_description_ends_at_the_first_heading() {
        let function: ItemFn = parse_quote!(
            /// Adds numbers.
            ///
            /// Exactly.
            ///
            /// # Errors
            /// None.
            fn t() -> String {}
        );
        assert_eq!(doc_text(&function.attrs), "Adds numbers.\n\nExactly.");
    }
}
