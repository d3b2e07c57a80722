//! Reads `#[arg(...)]`: what is said of one argument besides its type.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, Expr, ExprLit, Lit, Result, Type};

/// The limits, each with its keyword in the schema and the type of its value, where there is one.
const LIMITS: [(&str, &str, Option<&str>); 7] = [
    ("min", "minimum", None),
    ("max", "maximum", None),
    ("min_length", "minLength", Some("u64")),
    ("max_length", "maxLength", Some("u64")),
    ("min_items", "minItems", Some("u64")),
    ("max_items", "maxItems", Some("u64")),
    ("pattern", "pattern", Some("str")),
];

/// Default and limits of an argument.
#[derive(Default)]
pub(crate) struct Rules {
    default: Option<Box<Expr>>,
    /// Indices into `LIMITS`, with the values.
    limits: Vec<(usize, Expr)>,
}

impl Rules {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut rules = Rules::default();
        for attribute in attributes {
            if !attribute.path().is_ident("arg") {
                let why = "an argument takes doc comments and `#[arg(...)]` only";
                return Err(Error::new_spanned(attribute, why));
            }
            attribute.parse_nested_meta(|meta| rules.read(&meta))?;
        }
        Ok(rules)
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("default") {
            let default = meta.value()?.parse()?;
            return match self.default.replace(Box::new(default)) {
                None => Ok(()),
                Some(_) => Err(meta.error("given twice")),
            };
        }
        let Some(limit) = LIMITS.iter().position(|(name, ..)| meta.path.is_ident(name)) else {
            let names = LIMITS.map(|(name, ..)| format!("`{name}`")).join(", ");
            return Err(
                meta.error(format!("unknown rule; there are `default`, {names}, each with `= value`"))
            );
        };
        if self.limits.iter().any(|(other, _)| *other == limit) {
            return Err(meta.error("given twice"));
        }
        self.limits.push((limit, meta.value()?.parse()?));
        Ok(())
    }

    /// The attributes of the field that the argument becomes. A keyword is written whatever the type is: the registry
    /// refuses one that does not fit, where schemars' own `range` and `length` would drop it without a word.
    pub(crate) fn attributes(&self, default_fn: &Ident) -> TokenStream {
        let default = self.default.as_ref().map(|_| {
            let path = default_fn.to_string();
            quote! { #[serde(default = #path)] }
        });
        let limits = self.limits.iter().map(|(limit, value)| {
            let (_, keyword, ty) = LIMITS[*limit];
            // A value of another type is then a compile error.
            let value = match ty {
                Some("u64") => quote! { ::std::convert::identity::<u64>(#value) },
                Some(_) => quote! { ::std::convert::identity::<&str>(#value) },
                None => quote! { #value },
            };
            quote! { #[schemars(extend(#keyword = #value))] }
        });
        quote! { #default #(#limits)* }
    }

    /// The function that makes the default.
    pub(crate) fn default_fn(&self, name: &Ident, ty: &Type) -> Option<TokenStream> {
        let default = self.default.as_ref()?;
        let value = match &**default {
            // So that a text need not be turned into a `String` by hand.
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => quote! { ::std::convert::From::from(#text) },
            other => quote! { #other },
        };
        Some(quote! { fn #name() -> #ty { #value } })
    }
}
