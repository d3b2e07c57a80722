//! Amounts as people write them.

use std::ffi::OsStr;

/// A time in milliseconds: a number of seconds, or with `ms`, `s`, `m` or `h` behind it, as timeout(1) has them.
pub(super) fn milliseconds(text: &OsStr) -> Result<u64, String> {
    let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("", 1000)];
    amount(text, &units).ok_or_else(|| format!("{text:?} is no time such as 10s, 1.5m or 500ms"))
}

/// The same in seconds, rounded up.
pub(super) fn seconds(text: &OsStr) -> Result<u64, String> {
    milliseconds(text).map(|time| time.div_ceil(1000))
}

/// A number of bytes, or with `K`, `M` or `G` behind it, which are powers of 1024.
pub(super) fn bytes(text: &OsStr) -> Result<u64, String> {
    let units = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("", 1)];
    amount(text, &units).ok_or_else(|| format!("{text:?} is no size such as 512M or 2G"))
}

pub(super) fn count(text: &OsStr) -> Result<u64, String> {
    amount(text, &[("", 1)]).ok_or_else(|| format!("{text:?} is no number"))
}

/// The empty unit comes last, so that every other is tried first.
fn amount(text: &OsStr, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.to_str()?;
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 3 || number.ends_with('.') {
        return None;
    }
    let thousandths: u64 = format!("{part:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(factor)?.checked_add(thousandths.checked_mul(factor)? / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_have_units() {
        let [time, size] = [milliseconds, bytes].map(|read| move |text: &str| read(OsStr::new(text)));
        assert_eq!(["10", "1.5m", "250ms", "2h"].map(time), [10_000, 90_000, 250, 7_200_000].map(Ok));
        assert_eq!(["512M", "1.5K", "17"].map(size), [512 << 20, 1536, 17].map(Ok));
        assert_eq!(seconds(OsStr::new("1.2")), Ok(2));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        let wrong = ["", "s", "-1", "+1", "1e3", "1.", ".5", "1.2345", "1 M", "0x10", "1MB", "1..2"];
        for text in wrong.into_iter().chain(["99999999999999999999", "18446744073709551615G"]).map(OsStr::new)
        {
            assert!(bytes(text).is_err() && milliseconds(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_amount_or_refused(text in ".{0,12}") {
            let text = OsStr::new(&text);
            let _ = (bytes(text), milliseconds(text), count(text));
        }

        #[test]
        fn whole_numbers_are_what_they_say(number in 0_u64..1 << 20) {
            prop_assert_eq!(bytes(OsStr::new(&format!("{number}K"))), Ok(number << 10));
            prop_assert_eq!(milliseconds(OsStr::new(&format!("{number}ms"))), Ok(number));
        }
    }
}
