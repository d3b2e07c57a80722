//! What is claimed against what was found.

use super::attacks::{Found, Outcome};
use super::judge::{Attacked, Launch, Measured};
use crate::support::Stop;
use agentkit_protocol::{Capabilities, Control, FailureKind, Level, Mechanism};

/// Whether something was short, which another launch may miss in another step: EAGAIN, EMFILE, EFBIG.
pub(crate) fn is_short(errno: Option<i32>) -> bool {
    errno.is_some_and(|errno| [11, 24, 27].contains(&errno))
}

/// Where the two are not the same, one line each.
pub(crate) fn mismatches(measured: &Measured) -> Vec<String> {
    let mut wrong = Vec::new();
    let untried = measured.bare.iter().filter(|found| found.verdict == Outcome::Error);
    wrong.extend(untried.map(|found| format!("without a jail: {found:?}")));
    for (mechanism, cell) in &measured.each {
        let claims = &measured.probe.each[mechanism];
        let mut complain = |what: String| wrong.push(format!("{mechanism}: {what}"));
        match (&cell.launch.started, &cell.attacked) {
            (Some(started), Some(attacked)) => {
                if started.capabilities != *claims || claims.mechanism != Some(*mechanism) {
                    complain(format!("a probe says {claims:?}, a run {:?}", started.capabilities));
                }
                let is_whole = cell.launch.ran && cell.launch.code == Some(0) && cell.launch.left.is_empty();
                if !is_whole {
                    complain(format!("not a run without a trace: {:?}", cell.launch));
                }
                jail(claims, attacked, &measured.bare).into_iter().for_each(complain);
            }
            _ => refusal(claims, &cell.launch).into_iter().for_each(complain),
        }
    }
    wrong.extend(auto(measured));
    wrong
}

/// Of a mechanism that does not work here.
fn refusal(claims: &Capabilities, launch: &Launch) -> Option<String> {
    let (Some(failure), Some(told)) = (&launch.failure, &claims.failure) else {
        return Some(format!("neither a run nor a reason: {launch:?}, by a probe {claims:?}"));
    };
    // A probe needs less than a run, so that it may come to what this host lacks in any case.
    let is_same = told.errno == failure.errno && (told.step == failure.step || is_short(failure.errno));
    let is_told = told.kind == failure.kind
        && (is_same || is_short(failure.errno) && told.errno.is_none())
        && claims.mechanism.is_none()
        && Control::ALL.iter().all(|control| matches!(claims.level(*control), Level::None(_)));
    let is_useful = failure.kind == FailureKind::Host
        && !failure.step.is_empty()
        && failure.hint.as_ref().is_some_and(|hint| launch.said.contains(hint));
    let is_nothing = launch.code == Some(125) && !launch.ran && launch.left.is_empty();
    (!(is_told && is_useful && is_nothing))
        .then(|| format!("not a whole refusal: {launch:?}, by a probe {told:?}"))
}

/// Of attacks on one that does.
fn jail(claims: &Capabilities, attacked: &Attacked, bare: &[Found]) -> Vec<String> {
    let mut wrong: Vec<String> = attacked
        .found
        .iter()
        .filter(|found| found.verdict == Outcome::Error)
        .map(|found| format!("not tried: {found:?}"))
        .collect();
    for control in Control::ALL {
        let tried = tried(control, attacked, bare);
        let escaped = tried.iter().find(|found| found.verdict == Outcome::Escaped);
        let is_contained = tried.iter().any(|found| found.verdict == Outcome::Contained);
        match (attacked.claims.level(control), escaped) {
            (Level::Full, Some(found)) => wrong.push(format!("{control} is full, but: {found:?}")),
            (Level::None(why), None) if is_contained => {
                wrong.push(format!("{control} is none ({why}), but all attacks on it fail: {tried:?}"));
            }
            // One alone may be the exception that is named.
            (Level::Partial(why) | Level::Polled(why), Some(_)) if !is_contained && tried.len() > 1 => {
                wrong.push(format!(
                    "{control} holds in part ({why}), but all attacks on it succeed: {tried:?}"
                ));
            }
            _ => {}
        }
        if claims.level(control).is_full() && !attacked.claims.level(control).is_full() && escaped.is_some() {
            wrong.push(format!("{control} is full by a probe, but: {escaped:?}"));
        }
    }
    wrong
}

/// What tells something of a control: the attacks on it that succeed without a jail.
pub(crate) fn tried<'a>(control: Control, attacked: &'a Attacked, bare: &[Found]) -> Vec<&'a Found> {
    let bites = |name: &str| {
        bare.iter().find(|found| found.attack == name).is_none_or(|found| found.verdict == Outcome::Escaped)
    };
    let all = attacked.found.iter().filter(|found| found.controls.contains(&control));
    all.filter(|found| bites(&found.attack) && found.verdict != Outcome::CannotBite).collect()
}

/// With the choice left to the jail it is the first that works, in the open.
fn auto(measured: &Measured) -> Option<String> {
    let Measured { auto, probe, .. } = measured;
    let before: Vec<Mechanism> =
        probe.each.keys().copied().take_while(|it| Some(*it) != probe.best.mechanism).collect();
    let is_right = match (&auto.started, probe.best.mechanism) {
        (Some(started), Some(best)) => {
            let passed_over: Vec<_> = started.passed_over.iter().map(|it| it.mechanism).collect();
            started.mechanism == best
                && started.capabilities == probe.each[&best]
                && passed_over == before
                && passed_over.iter().all(|it| auto.said.contains(&it.to_string()))
                && auto.ran
                && auto.code == Some(0)
        }
        (None, None) => {
            let says = |failure: &agentkit_protocol::Failure| failure.message.clone() + &auto.said;
            auto.code == Some(125)
                && !auto.ran
                && auto.failure.as_ref().is_some_and(|it| !says(it).is_empty())
        }
        _ => false,
    };
    (!(is_right && auto.left.is_empty())).then(|| format!("auto: {auto:?}, by a probe {:?}", probe.best))
}

/// The comparison itself.
pub(crate) fn in_both_directions() -> Result<(), Stop> {
    let found = |(attack, verdict): &(&str, Outcome)| Found {
        attack: (*attack).to_owned(),
        controls: vec![Control::NetworkBlocked],
        verdict: *verdict,
        why: String::new(),
    };
    let differ = |level: Level, bare: &[(&str, Outcome)], jailed: &[(&str, Outcome)]| {
        let claims = Capabilities {
            mechanism: None,
            controls: [(Control::NetworkBlocked, level)].into(),
            failure: None,
        };
        let attacked = Attacked { claims: claims.clone(), found: jailed.iter().map(found).collect() };
        !jail(&claims, &attacked, &bare.iter().map(found).collect::<Vec<_>>()).is_empty()
    };
    use Outcome::{CannotBite, Contained, Error, Escaped};
    let why = || "why".to_owned();
    let bites = [("a", Escaped), ("b", Escaped)];
    for (level, jailed, expected) in [
        (Level::Full, [Contained, Escaped], true),
        (Level::Full, [Contained, Contained], false),
        (Level::None(why()), [Contained, Contained], true),
        (Level::None(why()), [Contained, Escaped], false),
        (Level::None(why()), [CannotBite, CannotBite], false),
        (Level::Partial(why()), [Escaped, Escaped], true),
        (Level::Partial(why()), [Contained, Escaped], false),
        (Level::Polled(why()), [Contained, Contained], false),
        (Level::Polled(why()), [Contained, Error], true),
    ] {
        let jailed = [("a", jailed[0]), ("b", jailed[1])];
        assert_eq!(differ(level.clone(), &bites, &jailed), expected, "{level} {jailed:?}");
    }
    // What fails without a jail says nothing of one.
    assert!(!differ(Level::None(why()), &[("a", Contained)], &[("a", Contained)]));
    Ok(())
}
