//! What to do about a request that failed: a table, and the waiting between attempts.

use super::wire;
use crate::context::Cancel;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Attempts of one request in all.
pub(super) const MAX_ATTEMPTS: u32 = 4;
/// No server is waited for longer than this, whatever it asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// How the client waits, so that a test need not.
pub trait Waiter: Send + Sync {
    /// Sleeps, or returns early once cancelled.
    fn sleep(&self, duration: Duration, cancel: &Cancel);

    /// A random number from 0 up to 1.
    fn jitter(&self) -> f64;

    /// The date, for a `Retry-After` that names one.
    fn date(&self) -> SystemTime;
}

/// Waits for real.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemWaiter;

impl Waiter for SystemWaiter {
    fn sleep(&self, duration: Duration, cancel: &Cancel) {
        let mut left = duration;
        while !left.is_zero() && !cancel.is_cancelled() {
            let slice = left.min(Duration::from_millis(50));
            std::thread::sleep(slice);
            left -= slice;
        }
    }

    fn jitter(&self) -> f64 {
        // The hasher of the standard library is seeded at random.
        let random = RandomState::new().build_hasher().finish();
        (random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn date(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// What a failed response calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It may pass; wait at least as long as the server asks.
    Passing,
    /// Asking again gives the same answer.
    Lasting,
    /// The conversation is too long.
    ContextOverflow,
}

/// Classes a response by its status and body.
pub(super) fn classify(status: u16, body: &str) -> Class {
    let field = |name: &str| wire::error_field(body, name).unwrap_or_default();
    let quota = "insufficient_quota";
    match status {
        429 if field("code") == quota || field("type") == quota => Class::Lasting,
        429 => Class::Passing,
        _ if is_context_overflow(status, body) => Class::ContextOverflow,
        408 | 500..=599 => Class::Passing,
        _ => Class::Lasting,
    }
}

/// Servers say it in a code, a type, a status or in words only.
fn is_context_overflow(status: u16, body: &str) -> bool {
    const NAMES: [&str; 2] = ["context_length_exceeded", "exceed_context_size_error"];
    const WORDS: [&str; 6] = [
        "maximum context length",
        "context window",
        "context length",
        "available context size",
        "prompt is too long",
        "input is too long",
    ];
    let named = ["code", "type"].iter().filter_map(|name| wire::error_field(body, name));
    let message = wire::error_message(body).unwrap_or_default().to_lowercase();
    status == 413
        || named.into_iter().any(|name| NAMES.contains(&name.as_str()))
        || WORDS.iter().any(|words| message.contains(words))
}

/// How long to wait before the attempt after `attempt` (from 1): doubling from half a second, give or take a half, and
/// never shorter than the server asks. `None` if it asks for more than anyone should wait.
pub(super) fn wait(attempt: u32, jitter: f64, retry_after: Option<Duration>) -> Option<Duration> {
    let own =
        Duration::from_millis(500 << attempt.saturating_sub(1).min(6)).mul_f64(0.5 + jitter.clamp(0.0, 1.0));
    let wait = own.max(retry_after.unwrap_or_default());
    (wait <= LONGEST_WAIT).then_some(wait)
}

/// A `Retry-After` header: seconds, or a date (RFC 9110, section 10.2.3). Anything else is ignored.
pub(super) fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = UNIX_EPOCH.checked_add(Duration::from_secs(http_date(header)?))?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// Seconds since 1970 of a date like `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, date) = text.split_once(", ")?;
    let [day, month, year, time, "GMT"] = date.split(' ').collect::<Vec<_>>()[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let [hour, minute, second] =
        time.split(':').map(|n| n.parse::<u64>().ok()).collect::<Option<Vec<_>>>()?[..]
    else {
        return None;
    };
    let (day, year) = (day.parse::<u64>().ok()?, year.parse::<u64>().ok()?);
    if !(1..=31).contains(&day) || !(1970..=9999).contains(&year) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(((days_before(year, month) + day - 1) * 24 + hour) * 3600 + minute * 60 + second)
}

/// Days from 1970 to the first of a month of the Gregorian calendar.
fn days_before(year: u64, month: u64) -> u64 {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = |month: u64| match month {
        2 => 28 + u64::from(leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let years: u64 = (1970..year).map(|year| 365 + u64::from(leap(year))).sum();
    years + (1..month).map(length).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_class() {
        for (status, body, wanted) in [
            (429, "", Class::Passing),
            (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, Class::Passing),
            (429, r#"{"error":{"code":"insufficient_quota"}}"#, Class::Lasting),
            (429, r#"{"error":{"type":"insufficient_quota"}}"#, Class::Lasting),
            (500, "", Class::Passing),
            (502, "<html>", Class::Passing),
            (503, r#"{"error":{"message":"Loading model"}}"#, Class::Passing),
            (408, "", Class::Passing),
            (400, "", Class::Lasting),
            (401, "", Class::Lasting),
            (403, "", Class::Lasting),
            (404, "", Class::Lasting),
            (422, "", Class::Lasting),
            (301, "", Class::Lasting),
            (400, r#"{"error":{"code":"context_length_exceeded"}}"#, Class::ContextOverflow),
            (400, r#"{"error":{"type":"exceed_context_size_error"}}"#, Class::ContextOverflow),
            (413, "", Class::ContextOverflow),
            (500, r#"{"error":"the request exceeds the available context size"}"#, Class::ContextOverflow),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192"}}"#,
                Class::ContextOverflow,
            ),
        ] {
            assert_eq!(classify(status, body), wanted, "{status} {body}");
        }
    }

    #[test]
    fn waits_grow_and_honour_the_server() {
        let millis = |attempt, jitter, asked| wait(attempt, jitter, asked).map(|wait| wait.as_millis());
        assert_eq!(millis(1, 0.5, None), Some(500));
        assert_eq!(millis(2, 0.5, None), Some(1000));
        assert_eq!(millis(3, 0.0, None), Some(1000));
        assert_eq!(millis(3, 1.0, None), Some(3000));
        assert_eq!(millis(1, 0.0, Some(Duration::from_secs(7))), Some(7000));
        assert_eq!(millis(1, 0.0, Some(Duration::from_secs(3600))), None);
        assert!(millis(u32::MAX, 1.0, None).is_some());
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777 - 30);
        let seconds = |header: &str| retry_after(header, now).map(|wait| wait.as_secs());
        assert_eq!(seconds("5"), Some(5));
        assert_eq!(seconds("0"), Some(0));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(30));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:00 GMT"), Some(0));
        for nonsense in ["", "soon", "-5", "NaN", "inf", "1e300", "Sun, 99 Nov 1994 08:49:37 GMT", "x, 1 1 1"]
        {
            assert_eq!(seconds(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn dates_are_counted_by_the_calendar() {
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(http_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(http_date("Fri, 01 Mar 2024 00:00:00 GMT"), Some(1_709_251_200));
        assert_eq!(http_date("Wed, 01 Mar 2100 00:00:00 GMT"), Some(4_107_542_400));
    }

    #[test]
    fn jitter_stays_in_its_range() {
        for _ in 0..100 {
            assert!((0.0..1.0).contains(&SystemWaiter.jitter()));
        }
    }

    #[test]
    fn a_cancelled_sleep_returns_at_once() {
        let cancel = Cancel::default();
        cancel.cancel();
        // Would outlast any test run otherwise.
        SystemWaiter.sleep(Duration::from_secs(1_000_000), &cancel);
    }
}
