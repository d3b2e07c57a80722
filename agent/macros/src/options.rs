//! Reads `#[tool(...)]`.

use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::{Error, LitStr, Result};

/// What `#[tool(...)]` says.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) mutates: bool,
    pub(crate) name: Option<String>,
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut options = Options::default();
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("mutates") && !options.mutates {
                options.mutates = true;
                Ok(())
            } else if meta.path.is_ident("name") && options.name.is_none() {
                let name: LitStr = meta.value()?.parse()?;
                check_name(&name.value()).map_err(|why| Error::new(name.span(), why))?;
                options.name = Some(name.value());
                Ok(())
            } else if meta.path.is_ident("mutates") || meta.path.is_ident("name") {
                Err(meta.error("given twice"))
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
