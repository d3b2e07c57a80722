//! Every mechanism on every kind of host, for whoever runs the tests: what is claimed is what attacks find.

mod attacks;
mod compare;
mod hosts;
pub(crate) mod judge;
mod page;

use crate::jail::stage::{helper, open_directory};
use crate::jail::who::Who;
use crate::support::need::need;
use crate::support::user::may_become_another;
use crate::support::{Stop, processes};
use agentkit_protocol::Probe;
use hosts::{HOSTS, Host, PLAIN};
use judge::{JUDGE, Measured, Request, Task};
use libtest_mimic::Trial;
use page::Page;
use std::sync::{Mutex, PoisonError};

/// More than any takes.
const LONGEST_SECONDS: &str = "150";

/// Every user's, and the tools that imitate.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        crate::trial("matrix::claims_are_compared_in_both_directions", compare::in_both_directions),
        crate::trial("matrix::a_page_is_read_as_it_was_written", page::a_page_is_read_as_it_was_written),
    ];
    if !writes() {
        trials.push(crate::trial("matrix::the_table_has_these_hosts", the_table_has_these_hosts));
    }
    for who in Who::everybody() {
        for host in HOSTS {
            let name = format!("matrix::{}::{}", host.name, who.name());
            let test = move || is_as_claimed(host, *who);
            trials.push(if host.name == PLAIN {
                crate::alone(&name, test)
            } else {
                crate::trial(&name, test)
            });
        }
    }
    trials
}

fn writes() -> bool {
    std::env::var("AGENTKIT_DOCS").as_deref() == Ok("write")
}

fn is_as_claimed(host: &Host, who: Who) -> Result<(), Stop> {
    let measured = measure(host, who)?;
    let wrong = compare::mismatches(&measured);
    assert!(wrong.is_empty(), "{}:\n{}", host.is, wrong.join("\n"));
    if writes() {
        return write(host, who, &measured);
    }
    let differs = Page::read()?.differs(who, host.name, &measured, &plain(who)?);
    assert!(differs.is_none(), "{}", differs.unwrap_or_default());
    Ok(())
}

/// Others write, too.
fn write(host: &Host, who: Who, measured: &Measured) -> Result<(), Stop> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut page = Page::read()?;
    page.replace(who, host.name, measured);
    page.write()
}

/// What a probe says where nothing is taken away.
fn plain(who: Who) -> Result<Probe, Stop> {
    let mut shell = who.shell()?;
    shell.args(["-c", "exec \"$0\" --probe --json"]).arg(helper()).env("PATH", PATH).current_dir("/");
    Ok(serde_json::from_slice(&shell.output()?.stdout)?)
}

fn the_table_has_these_hosts() -> Result<(), Stop> {
    let page = Page::read()?;
    assert!(page.is_whole(), "{}: AGENTKIT_DOCS=write writes it anew", page::FILE);
    Ok(())
}

fn measure(host: &Host, who: Who) -> Result<Measured, Stop> {
    if who == Who::User && need("root").is_ok() {
        may_become_another()?;
    }
    need("python")?;
    let around = (host.imitate)(who)?;
    let place = open_directory()?;
    let [base, temporary] = ["base", "temporary"].map(|name| place.path().join(name));
    for directory in [&base, &temporary] {
        std::fs::create_dir(directory)?;
        who.own(directory)?;
    }
    let own = std::env::current_exe()?;
    let request = Request {
        task: Task::Measure,
        own: own.clone(),
        helper: helper().to_owned(),
        base: if around.all.first().is_some_and(|first| first.ends_with("agentkit-jail")) {
            ".".into()
        } else {
            base.clone()
        },
        launcher: around.launches,
        no_threads: around.no_threads,
        storms: host.name == PLAIN,
    };
    let mut shell = who.shell()?;
    shell.args(["-c", "exec timeout --foreground -s KILL \"$@\"", "sh", LONGEST_SECONDS]).args(around.all);
    shell.arg(own).arg(JUDGE).arg(serde_json::to_string(&request)?);
    let output = shell.env("TMPDIR", &temporary).env("PATH", PATH).current_dir(&base).output()?;
    let marker = place.path().to_string_lossy().into_owned();
    assert_eq!(processes::with_marker(&marker), [0; 0], "processes of it are left");
    let measured = serde_json::from_slice(&output.stdout);
    measured.map_err(|why| Stop::Fail(format!("nothing was measured ({why}): {output:?}")))
}
