//! Policies to start from, compiled from `profiles/*.toml`.

use super::values::text;
use agentkit_protocol::Policy;
use std::ffi::OsStr;

/// (name, policy as JSON).
const PROFILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/policies.rs"));

pub(super) const HELP: &str = "start from snippet (default), workspace, build or strict";

/// Everything but the command comes from the profile.
pub(super) fn choose(policy: &mut Policy, name: &OsStr) -> Result<(), String> {
    let name = text(name)?;
    let Some((_, json)) = PROFILES.iter().find(|(known, _)| *known == name) else {
        let known: Vec<_> = PROFILES.iter().map(|(known, _)| *known).collect();
        return Err(format!("there is no profile {name:?}, only {}", known.join(", ")));
    };
    let profile: Policy = serde_json::from_str(json).map_err(|error| error.to_string())?;
    *policy = Policy { argv: std::mem::take(&mut policy.argv), ..profile };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate;

    #[test]
    fn every_profile_is_a_policy_and_in_the_help() {
        for (name, _) in PROFILES {
            let mut policy = Policy::new(["true"]);
            choose(&mut policy, OsStr::new(name)).unwrap();
            assert_eq!(policy.argv, Policy::new(["true"]).argv);
            validate::plan(policy).unwrap();
            assert!(HELP.contains(name), "{name}");
        }
    }

    #[test]
    fn the_first_one_is_what_a_policy_is_by_default() {
        let mut policy = Policy::new(["true"]);
        choose(&mut policy, OsStr::new("snippet")).unwrap();
        assert_eq!(policy, Policy::new(["true"]));
        assert!(choose(&mut policy, OsStr::new("other")).unwrap_err().contains("workspace"));
    }
}
