//! Writes the code of a tool.

use crate::args::{Output, Parameter, Signature, doc_text};
use crate::options::Options;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, FnArg, ItemFn, Result, Type};

/// The function unchanged, and beside it a type of the same name that implements `Tool`.
pub(crate) fn expand(options: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(options)?;
    let mut function: ItemFn = syn::parse2(function)?;
    let signature = Signature::parse(&function)?;
    let description = doc_text(&function.attrs);
    if description.is_empty() {
        return Err(Error::new_spanned(
            &function.sig.ident,
            "a tool needs a doc comment: it is what the model reads",
        ));
    }
    strip_parameter_attributes(&mut function);
    let tool = Expansion { options, signature, description, function: &function };
    let (definition, implementation) = (tool.definition(), tool.implementation());
    Ok(quote! { #function #definition #implementation })
}

/// The compiler refuses doc comments on parameters; they have served their purpose.
fn strip_parameter_attributes(function: &mut ItemFn) {
    for input in &mut function.sig.inputs {
        if let FnArg::Typed(typed) = input {
            typed.attrs.clear();
        }
    }
}

struct Expansion<'a> {
    options: Options,
    signature: Signature,
    description: String,
    function: &'a ItemFn,
}

impl Expansion<'_> {
    fn name(&self) -> &Ident {
        &self.function.sig.ident
    }

    fn state(&self) -> Option<&Type> {
        self.signature.parameters.iter().find_map(|parameter| match parameter {
            Parameter::State(ty) => Some(&**ty),
            _ => None,
        })
    }

    /// What comes of the function is there where the function is.
    fn conditions(&self) -> impl Iterator<Item = &Attribute> {
        self.function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"))
    }

    /// A braced struct lives in the type namespace only, so it may share the function's name.
    fn definition(&self) -> TokenStream {
        let (visibility, name) = (&self.function.vis, self.name());
        let docs = format!("The tool made of the function `{name}`.");
        let state = self.state().map(|ty| quote! { state: #ty, });
        let conditions = self.conditions();
        quote! {
            #(#conditions)*
            #[doc = #docs]
            #[allow(non_camel_case_types)]
            #visibility struct #name {
                spec: ::agentkit_agent::ToolSpec,
                #state
            }
        }
    }

    /// Inside an anonymous constant, so that what is made here meets no other item of its name. Types and defaults that
    /// somebody wrote are read in there too, hence names that nobody writes.
    fn implementation(&self) -> TokenStream {
        let conditions = self.conditions();
        let (arguments, constructor, call, name) =
            (self.arguments(), self.constructor(), self.call(), self.name());
        quote! {
            #(#conditions)*
            const _: () = {
                #arguments

                impl #name {
                    #constructor
                }

                impl ::agentkit_agent::Tool for #name {
                    fn spec(&self) -> &::agentkit_agent::ToolSpec {
                        &self.spec
                    }

                    #call
                }
            };
        }
    }

    fn arguments(&self) -> TokenStream {
        let (mut fields, mut defaults) = (Vec::new(), Vec::new());
        for parameter in &self.signature.parameters {
            let Parameter::Argument { name, ty, docs, rules } = parameter else { continue };
            let default_fn = format_ident!("__default_{}", name.unraw());
            let attributes = rules.attributes(&default_fn);
            fields.push(quote! { #(#docs)* #attributes #name: #ty, });
            defaults.extend(rules.default_fn(&default_fn, ty));
        }
        quote! {
            #[derive(::agentkit_agent::serde::Deserialize, ::agentkit_agent::schemars::JsonSchema)]
            #[serde(crate = "::agentkit_agent::serde", deny_unknown_fields)]
            #[schemars(crate = "::agentkit_agent::schemars")]
            struct __Arguments { #(#fields)* }

            #(#defaults)*
        }
    }

    fn constructor(&self) -> TokenStream {
        let tool_name = self.options.name.clone().unwrap_or_else(|| self.name().unraw().to_string());
        let (description, mutates) = (&self.description, self.options.mutates);
        let (parameter, field) = match self.state() {
            Some(ty) => (quote! { state: #ty }, quote! { state, }),
            None => (quote! {}, quote! {}),
        };
        quote! {
            /// Builds the tool.
            pub fn tool(#parameter) -> Self {
                Self {
                    spec: ::agentkit_agent::ToolSpec {
                        name: ::std::string::String::from(#tool_name),
                        description: ::std::string::String::from(#description),
                        parameters: ::agentkit_agent::schema::of::<__Arguments>(),
                        mutates: #mutates,
                    },
                    #field
                }
            }
        }
    }

    fn call(&self) -> TokenStream {
        let function = self.name();
        let values = self.signature.parameters.iter().map(|parameter| match parameter {
            Parameter::Context => quote! { context },
            Parameter::State(_) => quote! { &self.state },
            Parameter::Argument { name, .. } => quote! { arguments.#name },
        });
        let call = quote! { #function(#(#values),*) };
        let result = match &self.signature.output {
            Output::Plain(ty) => {
                let (value, converted) = converted(ty, "ToolOutput");
                quote! { { let #value = #call; ::std::result::Result::Ok(#converted) } }
            }
            Output::Fallible(ty, error) => {
                let (value, output) = converted(ty, "ToolOutput");
                let (error, failure) = converted(error.as_ref().unwrap_or(ty), "ToolError");
                quote! {
                    match #call {
                        ::std::result::Result::Ok(#value) => ::std::result::Result::Ok(#output),
                        ::std::result::Result::Err(#error) => ::std::result::Result::Err(#failure),
                    }
                }
            }
        };
        let used = self.signature.parameters.iter().any(|p| matches!(p, Parameter::Argument { .. }));
        let binding = if used { format_ident!("arguments") } else { format_ident!("_arguments") };
        // A conversion has the place of a type that somebody wrote, so clippy takes it for theirs.
        quote! {
            #[allow(clippy::useless_conversion)]
            fn call(
                &self,
                context: &::agentkit_agent::Context,
                arguments: ::agentkit_agent::serde_json::Value,
            ) -> ::std::result::Result<::agentkit_agent::ToolOutput, ::agentkit_agent::ToolError> {
                let _ = context;
                let #binding: __Arguments = ::agentkit_agent::schema::arguments(arguments)?;
                #result
            }
        }
    }
}

/// A variable for a value of the type, and its conversion into what a call returns. All of it has the place of the
/// type: where there is no conversion, the compiler then points at the type and not at the attribute.
fn converted(ty: &Type, target: &str) -> (Ident, TokenStream) {
    let (value, target) = (Ident::new("value", ty.span()), Ident::new(target, ty.span()));
    let conversion = quote_spanned! { ty.span()=>
        <::agentkit_agent::#target as ::std::convert::From<_>>::from(#value)
    };
    (value, conversion)
}
