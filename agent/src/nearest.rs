//! Names in messages: the one that was probably meant, and those there are.

use crate::clip::excerpt;

/// The candidate closest to `name`, if one is close: at most a third of its letters differ. Upper and lower case,
/// `_` and `-` count as equal.
fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = fold(name);
    let distances = candidates.into_iter().filter_map(|candidate| {
        let folded = fold(candidate);
        let distance = distance(&name, &folded);
        (distance <= folded.len().max(name.len()) / 3).then_some((distance, candidate))
    });
    distances.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// `, did you mean `name`?`, or nothing.
pub(crate) fn did_you_mean<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, names).map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default()
}

/// The first few names, each in back quotes.
pub(crate) fn quoted_list<'a>(mut names: impl Iterator<Item = &'a str>) -> String {
    let listed = names.by_ref().take(30);
    let mut list: Vec<String> = listed.map(|name| format!("`{}`", excerpt(name, 60))).collect();
    let left = names.count();
    if left > 0 {
        list.push(format!("and {left} more"));
    }
    list.join(", ")
}

/// Names longer than this are not compared further: a model can make one up of any length.
const LONGEST: usize = 64;

fn fold(name: &str) -> Vec<char> {
    name.chars().take(LONGEST).filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// Levenshtein's distance, by rows.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_edits() {
        let of = |a: &str, b: &str| distance(&fold(a), &fold(b));
        assert_eq!(of("kitten", "sitting"), 3);
        assert_eq!(of("", "abc"), 3);
        assert_eq!(of("abc", "abc"), 0);
    }

    #[test]
    fn only_close_names_are_offered() {
        let names = ["expression", "code", "max_steps"];
        for (given, wanted) in [
            ("expresion", Some("expression")),
            ("Code", Some("code")),
            ("maxSteps", Some("max_steps")),
            ("cod", Some("code")),
            ("source", None),
            ("c", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, names), wanted, "{given}");
        }
    }
}
