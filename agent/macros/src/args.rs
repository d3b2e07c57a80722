//! Reads the signature of a tool function.

use crate::rules::Rules;
use proc_macro2::Ident;
use syn::{
    Attribute, Error, Expr, FnArg, GenericArgument, ItemFn, Lit, Meta, Pat, PatType, PathArguments, Result,
    ReturnType, Type,
};

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
    Argument { name: Ident, ty: Box<Type>, docs: Vec<Attribute>, rules: Rules },
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
        Ok(Signature { parameters, output: Output::of(function)? })
    }
}

impl Output {
    fn of(function: &ItemFn) -> Result<Self> {
        let nothing =
            || Error::new_spanned(&function.sig, "a tool has to return something the model can read");
        let ty = match &function.sig.output {
            ReturnType::Type(_, ty) => &**ty,
            ReturnType::Default => return Err(nothing()),
        };
        match ty {
            Type::Tuple(tuple) if tuple.elems.is_empty() => Err(nothing()),
            Type::ImplTrait(ty) => {
                Err(Error::new_spanned(ty, "a result needs a concrete type, not `impl Trait`"))
            }
            _ => Ok(Output::of_type(ty)),
        }
    }

    fn of_type(ty: &Type) -> Self {
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
        Type::Reference(reference) => injected(typed, reference),
        Type::ImplTrait(ty) => {
            Err(Error::new_spanned(ty, "an argument needs a concrete type, not `impl Trait`"))
        }
        _ => argument(typed),
    }
}

fn injected(typed: &PatType, reference: &syn::TypeReference) -> Result<Parameter> {
    if let Some(token) = &reference.mutability {
        let why = "a tool may be called from several threads: take `&T` and put what changes behind a lock";
        return Err(Error::new_spanned(token, why));
    }
    if last_segment(&reference.elem).is_some_and(|name| name == "str")
        || matches!(*reference.elem, Type::Slice(_))
    {
        return Err(Error::new_spanned(reference, "an argument has to be owned: `String` or `Vec<T>`"));
    }
    if let Some(attribute) = typed.attrs.iter().find(|attribute| !is_doc(attribute)) {
        let why = "a reference is no argument of the model's: it takes no attributes";
        return Err(Error::new_spanned(attribute, why));
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
    let (docs, others): (Vec<Attribute>, Vec<Attribute>) = typed.attrs.iter().cloned().partition(is_doc);
    let rules = Rules::parse(&others)?;
    Ok(Parameter::Argument { name: pattern.ident.clone(), ty: typed.ty.clone(), docs, rules })
}

fn is_doc(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc")
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
