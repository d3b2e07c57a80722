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
    use crate::attack::Attacker;
    use crate::scene::Scene;
    use crate::unjudged::UNJUDGED;
    use std::collections::{BTreeMap, BTreeSet};

    /// What an attacker knows, by its own names, with how often.
    type Known = BTreeMap<&'static str, usize>;

    fn known_to_the_native_one() -> Known {
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
        let mut known = Known::new();
        for source in sources {
            count("(", table(source, "ATTACKS: &[Named]", "];"), &mut known);
        }
        known
    }

    fn known_to_the_script() -> Known {
        let mut known = Known::new();
        count("    ", table(include_str!("../../payload/attacker.py"), "ATTACKS = {", "}"), &mut known);
        known
    }

    fn table(source: &'static str, from: &str, to: &str) -> &'static str {
        let table = source.split_once(from).and_then(|(_, rest)| rest.split_once(to));
        table.expect("a table").0
    }

    /// The names of a table, each of which is quoted after `before`.
    fn count(before: &str, table: &'static str, known: &mut Known) {
        for entry in table.split(&format!("{before}\"")).skip(1) {
            *known.entry(entry.split('"').next().expect("a name")).or_default() += 1;
        }
    }

    /// Otherwise it would be taken for an attack that cannot bite, or be another one.
    #[test]
    fn the_attackers_know_every_attack_once() {
        let (native, script) = (known_to_the_native_one(), known_to_the_script());
        let directory = tempfile::tempdir().unwrap();
        for attack in corpus() {
            let scene = Scene::new(directory.path()).unwrap();
            if let Ok(staged) = (attack.stage)(&scene) {
                let name = staged.argv[0].to_string_lossy();
                let known = if staged.attacker == Attacker::Python { &script } else { &native };
                assert_eq!(known.get(&*name), Some(&1), "{name}");
            }
        }
    }

    #[test]
    fn the_attacker_knows_those_that_are_not_judged() {
        let known = known_to_the_native_one();
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
