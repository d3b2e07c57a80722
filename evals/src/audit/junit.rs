//! Findings for continuous integration: a suite for each launcher, a case for each attack.

use super::Audited;
use super::table::whole;
use agentkit_attacks::{Finding, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::io;

/// As JUnit's XML.
pub(super) fn report(audited: &[Audited]) -> io::Result<String> {
    let mut report = Report::new("agentkit-evals audit");
    for one in audited {
        let mut suite = TestSuite::new(&*one.launcher);
        suite.add_test_cases(one.findings.iter().map(case));
        report.add_test_suite(suite);
    }
    report.to_string().map_err(io::Error::other)
}

/// What cannot bite is skipped: it says nothing about the launcher.
fn case(finding: &Finding) -> TestCase {
    let failure = |kind| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_message(format!("{}; it means: {}", whole(&finding.verdict), finding.attack.means));
        status
    };
    let status = match &finding.verdict {
        Verdict::Contained(_) => TestCaseStatus::success(),
        Verdict::Escaped(_) => failure(NonSuccessKind::Failure),
        Verdict::Error(_) => failure(NonSuccessKind::Error),
        Verdict::CannotBite(_) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(whole(&finding.verdict));
            status
        }
    };
    let mut case = TestCase::new(finding.attack.name, status);
    case.set_classname(finding.attack.family.to_string());
    case
}
