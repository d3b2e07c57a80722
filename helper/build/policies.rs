//! Turns `profiles/*.toml` into the JSON that the jail reads anyway, so that it carries no second parser.

use agentkit_protocol::{Policy, VERSION};
use serde_json::json;

/// An expression: (name, first sentence of the file's comment, policy as JSON), one a profile. A field that no policy has
/// stops the build.
pub(crate) fn source() -> String {
    let rows = agentkit_profiles::POLICIES.iter().map(|(name, text)| {
        let mut fields: serde_json::Map<String, serde_json::Value> =
            toml::from_str(text).unwrap_or_else(|error| panic!("{name}.toml: {error}"));
        fields.insert("version".to_owned(), json!(VERSION));
        fields.insert("argv".to_owned(), json!([]));
        let policy: Policy =
            serde_json::from_value(fields.into()).unwrap_or_else(|error| panic!("{name}.toml: {error}"));
        let json = serde_json::to_string(&policy).unwrap_or_else(|error| panic!("{name}.toml: {error}"));
        format!("({name:?}, {json:?})")
    });
    format!("&[{}]", rows.collect::<Vec<_>>().join(",\n"))
}
