//! The attacks, one file a family.

mod filesystem;
mod kernel;
mod leakage;
mod network;
mod persistence;
mod processes;
mod resources;
mod terminal;

use crate::attack::Attack;

/// Every attack, family by family.
pub fn corpus() -> impl Iterator<Item = &'static Attack> {
    let families = [
        network::ATTACKS,
        filesystem::ATTACKS,
        processes::ATTACKS,
        resources::ATTACKS,
        kernel::ATTACKS,
        leakage::ATTACKS,
        terminal::ATTACKS,
        persistence::ATTACKS,
    ];
    families.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;
    use crate::unjudged::UNJUDGED;
    use std::collections::{BTreeMap, BTreeSet};

    /// What the attacker knows, by its own names, with how often.
    fn known() -> BTreeMap<&'static str, usize> {
        let sources = [
            include_str!("../../payload/filesystem.rs"),
            include_str!("../../payload/kernel.rs"),
            include_str!("../../payload/leakage.rs"),
            include_str!("../../payload/network.rs"),
            include_str!("../../payload/persistence.rs"),
            include_str!("../../payload/processes.rs"),
            include_str!("../../payload/resources.rs"),
            include_str!("../../payload/terminal.rs"),
        ];
        let mut known = BTreeMap::new();
        for source in sources {
            let table = source.split_once("ATTACKS: &[Named]").and_then(|(_, rest)| rest.split_once("];"));
            let (table, _) = table.expect("each family has a table");
            for entry in table.split("(\"").skip(1) {
                *known.entry(entry.split('"').next().expect("a name")).or_default() += 1;
            }
        }
        known
    }

    /// Otherwise it would be taken for an attack that cannot bite, or be another one.
    #[test]
    fn the_attacker_knows_every_attack_once() {
        let known = known();
        let directory = tempfile::tempdir().unwrap();
        for attack in corpus() {
            let scene = Scene::new(directory.path()).unwrap();
            if let Ok(staged) = (attack.stage)(&scene) {
                let name = staged.argv[0].to_string_lossy();
                assert_eq!(known.get(&*name), Some(&1), "{name}");
            }
        }
    }

    #[test]
    fn the_attacker_knows_those_that_are_not_judged() {
        let known = known();
        for words in UNJUDGED {
            assert!(known.contains_key(words[0]), "{words:?}");
        }
    }

    #[test]
    fn names_are_unique_and_plain() {
        let mut seen = BTreeSet::new();
        for attack in corpus() {
            assert!(seen.insert(attack.name), "{} twice", attack.name);
            assert!(
                attack
                    .name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            );
            assert!(!attack.means.is_empty() && !attack.controls.is_empty(), "{}", attack.name);
        }
    }
}
