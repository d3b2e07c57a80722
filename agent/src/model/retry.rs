//! What to do about a request that failed: a table, and the waiting between attempts.

use super::wire;
use crate::context::Cancel;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};
use ureq::http::{HeaderMap, header};

/// Attempts of one request in all.
pub(super) const MAX_ATTEMPTS: u32 = 4;
/// No server is waited for longer than this, whatever it asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// How the client waits, so that a test need not.
pub trait Waiter: Send + Sync {
    /// Sleeps, or returns as soon as it is cancelled.
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
            let slice = left.min(Duration::from_millis(10));
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
        // Not implemented, and a version of HTTP that is not supported.
        501 | 505 => Class::Lasting,
        408 | 409 | 425 | 500..=599 => Class::Passing,
        _ => Class::Lasting,
    }
}

/// Classes an error that is reported under a good status: by the status that it names, or by its name.
pub(super) fn classify_reported(body: &str) -> Class {
    const PASSING: [&str; 6] = [
        "server_error",
        "internal_error",
        "internal_server_error",
        "overloaded_error",
        "rate_limit_exceeded",
        "service_unavailable",
    ];
    let fields = ["code", "status", "type"].map(|name| wire::error_field(body, name).unwrap_or_default());
    let status =
        fields.iter().find_map(|field| field.parse().ok().filter(|status| (400..600).contains(status)));
    match classify(status.unwrap_or(0), body) {
        Class::Lasting if fields.iter().any(|field| PASSING.contains(&field.as_str())) => Class::Passing,
        class => class,
    }
}

/// Servers say it in a code, a type, a status or in words only.
fn is_context_overflow(status: u16, body: &str) -> bool {
    const NAMES: [&str; 3] =
        ["context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"];
    const WORDS: [&str; 9] = [
        "maximum context length",
        "context window",
        "context length",
        "available context size",
        "prompt is too long",
        "prompt too long",
        "input is too long",
        "too many tokens",
        "exceeds the maximum number of tokens",
    ];
    let named = ["code", "type"].iter().filter_map(|name| wire::error_field(body, name));
    let message = wire::error_message(body).unwrap_or_default().to_lowercase();
    status == 413
        || named.into_iter().any(|name| NAMES.contains(&name.as_str()))
        || WORDS.iter().any(|words| message.contains(words))
}

/// How long to wait before the attempt after `attempt` (from 1): doubling from half a second, and up to a quarter more,
/// so that each wait is longer than the last and clients that failed together do not come back together; never shorter
/// than the server asks, nor than `last`, the wait before, also where the server asks for less now. `None` if it asks for
/// more than anyone should wait.
pub(super) fn wait(
    attempt: u32,
    jitter: f64,
    retry_after: Option<Duration>,
    last: Duration,
) -> Option<Duration> {
    let doubled = Duration::from_millis(500 << attempt.saturating_sub(1).min(6));
    let own = doubled.mul_f64(1.0 + 0.25 * jitter.clamp(0.0, 1.0));
    let asked = retry_after.unwrap_or_default();
    let wait = own.max(asked);
    let wait = if wait > last { wait } else { (last + own / 4).min(LONGEST_WAIT) };
    (asked <= LONGEST_WAIT).then_some(wait)
}

/// How long the server asks to wait: `retry-after-ms`, which some send as well, or `Retry-After` in seconds or as a date
/// (RFC 9110, section 10.2.3). Anything else is ignored.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str, unit: f64| Duration::try_from_secs_f64(text.parse::<f64>().ok()? * unit).ok();
    if let Some(wait) = text("retry-after-ms").and_then(|text| number(text, 0.001)) {
        return Some(wait);
    }
    let asked = text(header::RETRY_AFTER.as_str())?;
    number(asked, 1.0).or_else(|| {
        let date = httpdate::parse_http_date(asked).ok()?;
        Some(date.duration_since(now).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;
    use ureq::http::HeaderName;

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
            (409, "", Class::Passing),
            (529, "", Class::Passing),
            (501, "", Class::Lasting),
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
    fn an_error_under_a_good_status_has_its_class() {
        for (body, wanted) in [
            (r#"{"error":{"message":"bad"}}"#, Class::Lasting),
            (r#"{"error":{"message":"bad","code":502}}"#, Class::Passing),
            (r#"{"error":{"message":"bad","code":"429"}}"#, Class::Passing),
            (r#"{"error":{"message":"bad","code":400,"type":"server_error"}}"#, Class::Passing),
            (r#"{"error":{"message":"bad","code":400}}"#, Class::Lasting),
            (r#"{"error":{"message":"bad","type":"overloaded_error"}}"#, Class::Passing),
            (r#"{"error":{"message":"bad","code":"context_length_exceeded"}}"#, Class::ContextOverflow),
            (r#"{"error":{"message":"bad","code":429,"type":"insufficient_quota"}}"#, Class::Lasting),
            ("<html>", Class::Lasting),
        ] {
            assert_eq!(classify_reported(body), wanted, "{body}");
        }
    }

    #[test]
    fn waits_grow_and_honour_the_server() {
        let millis = |attempt, jitter, asked| {
            wait(attempt, jitter, asked, Duration::ZERO).map(|wait| wait.as_millis())
        };
        assert_eq!(millis(1, 0.0, None), Some(500));
        assert_eq!(millis(2, 0.0, None), Some(1000));
        assert_eq!(millis(3, 1.0, None), Some(2500));
        assert_eq!(millis(1, 0.0, Some(Duration::from_secs(7))), Some(7000));
        assert_eq!(millis(1, 0.0, Some(Duration::from_secs(3600))), None);
        assert!(millis(u32::MAX, 1.0, None).is_some());
        for attempt in 1..MAX_ATTEMPTS {
            assert!(millis(attempt, 1.0, None) < millis(attempt + 1, 0.0, None), "{attempt}");
        }
        let seconds = Duration::from_secs;
        for asked in [None, Some(seconds(3)), Some(seconds(1))] {
            let next = wait(2, 0.0, asked, seconds(3)).expect("it waits");
            assert!(next > seconds(3), "after a longer wait that the server asked for: {next:?}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777 - 30);
        let millis = |name: &'static str, value: &str| {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().expect("a value"))]);
            retry_after(&headers, now).map(|wait| wait.as_millis())
        };
        let asked = |value: &str| millis("retry-after", value);
        assert_eq!(asked("5"), Some(5_000));
        assert_eq!(asked("0.25"), Some(250));
        assert_eq!(asked("0"), Some(0));
        assert_eq!(millis("retry-after-ms", "1500"), Some(1_500));
        // The three forms of RFC 9110, section 5.6.7.
        for date in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(asked(date), Some(30_000), "{date}");
        }
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:00 GMT"), Some(0));
        for nonsense in ["", "soon", "-5", "NaN", "inf", "1e300", "Sun, 99 Nov 1994 08:49:37 GMT", "x, 1 1 1"]
        {
            assert_eq!(asked(nonsense), None, "{nonsense}");
        }
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
