//! Attacks that are one system call. The errno is the evidence: in a jail it is the filter's, outside it is another.

use crate::jail::run::Run;
use crate::jail::who::Who;
use crate::scene::Scene;
use crate::support::Stop;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// One call, as Python.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) attempt: &'static str,
    /// What a jail answers.
    pub(crate) errno: &'static str,
}

/// Makes a test of each call, and the list of a module's attacks with some others.
macro_rules! calls {
    (also $others:tt; $($name:ident: $attempt:literal => $errno:literal;)+) => {
        const CALLS: &[$crate::calls::Call] =
            &[$($crate::calls::Call { name: stringify!($name), attempt: $attempt, errno: $errno }),+];
        static ANSWERS: $crate::calls::Answers = $crate::calls::Answers::new();
        $(fn $name(who: $crate::jail::who::Who) -> Result<(), $crate::support::Stop> {
            ANSWERS.judge(who, CALLS, stringify!($name))
        })+
        $crate::calls::calls!(@list $others $($name)+);
    };
    (@list [$($other:ident),*] $($name:ident)+) => {
        $crate::attacks![$($other,)* $($name),+];
    };
}
pub(crate) use calls;

/// What all calls of a module were answered with. They are made in one go for each launcher, each by a process of its
/// own: starting Python for each would take longer than everything else together.
pub(crate) struct Answers([OnceLock<Result<Both, Stop>>; 2]);

/// By the names of the calls.
struct Both {
    outside: BTreeMap<String, String>,
    inside: BTreeMap<String, String>,
}

impl Answers {
    pub(crate) const fn new() -> Answers {
        Answers([OnceLock::new(), OnceLock::new()])
    }

    /// Fails unless the call was answered with its errno in a jail. A skip where the answer is the same without one:
    /// whether the filter or the kernel itself gave it cannot be told then.
    pub(crate) fn judge(&self, who: Who, calls: &[Call], name: &str) -> Result<(), Stop> {
        let both = match self.0[who as usize].get_or_init(|| make(who, calls)) {
            Ok(both) => both,
            Err(Stop::Skip(reason)) => return Err(Stop::Skip(reason.clone())),
            Err(Stop::Fail(reason)) => return Err(Stop::Fail(reason.clone())),
        };
        let call = calls.iter().find(|call| call.name == name);
        let (Some(call), Some(outside)) = (call, both.outside.get(name)) else {
            return Err(Stop::Fail(format!("no answer without a jail: {:?}", both.outside)));
        };
        match &outside[..] {
            "absent" => Err(Stop::Skip("this architecture has no such call".to_owned())),
            same if same == call.errno => {
                Err(Stop::Skip(format!("cannot be told apart: {same} without a jail, too")))
            }
            _ => {
                assert_eq!(both.inside.get(name).map(String::as_str), Some(call.errno), "outside: {outside}");
                Ok(())
            }
        }
    }
}

fn make(who: Who, calls: &[Call]) -> Result<Both, Stop> {
    let scene = Scene::new(who)?;
    let each = calls.iter().map(|call| format!("each({:?}, lambda: {})\n", call.name, call.attempt));
    let attack = scene.attack(&format!("import socket\n{}answer('all')", each.collect::<String>()));
    Ok(Both { outside: answers(&attack.bare()?)?, inside: answers(&attack.jailed()?)? })
}

fn answers(run: &Run) -> Result<BTreeMap<String, String>, Stop> {
    run.must_have_attempted()?;
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    Ok(text
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect())
}
