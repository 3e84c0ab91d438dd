//! Times as text: ISO 8601 in the store and in states, and the dates of HTTP. All values are milliseconds since 1970 UTC.

/// The end of the range of times that the SDKs share: that of JavaScript's `Date`.
pub(crate) const MAX_MS: i64 = 8_640_000_000_000_000;
pub(crate) const DAY_MS: i64 = 86_400_000;

/// ISO 8601 with milliseconds, UTC, as JavaScript writes it.
pub(crate) fn to_text(ms: i64) -> String {
    let (days, in_day) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    let (year, month, day) = date_of(days);
    let year = match year {
        0..=9999 => format!("{year:04}"),
        ..0 => format!("-{:06}", -year),
        _ => format!("+{year:06}"),
    };
    let (hour, minute, second) = (in_day / 3_600_000, in_day / 60_000 % 60, in_day / 1000 % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", in_day % 1000)
}

/// Reads ISO 8601: a date, or a date and a time. Without a zone it is UTC.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let mut rest = text;
    let sign = if skip(&mut rest, "-") { -1 } else { i64::from(skip(&mut rest, "+")) };
    let year = if sign == 0 { take(&mut rest, 4)? } else { sign * take(&mut rest, 6)? };
    let (mut month, mut day) = (1, 1);
    if skip(&mut rest, "-") {
        month = take(&mut rest, 2)?;
        if skip(&mut rest, "-") {
            day = take(&mut rest, 2)?;
        }
    }
    let mut in_day = 0;
    if skip(&mut rest, "T") {
        let hour = take(&mut rest, 2)?;
        let minute = skip(&mut rest, ":").then(|| take(&mut rest, 2))??;
        let second = if skip(&mut rest, ":") { take(&mut rest, 2)? } else { 0 };
        let mut ms = 0;
        if skip(&mut rest, ".") {
            let length = rest.bytes().take_while(u8::is_ascii_digit).count();
            let fraction = format!("{:0<3}", &rest[..length]);
            ms = fraction.get(..3)?.parse().ok().filter(|_| length > 0)?;
            rest = &rest[length..];
        }
        in_day = ms_of(hour, minute, second).filter(|_| second < 60)? + ms - offset(&mut rest)?;
    }
    if !rest.is_empty() {
        return None;
    }
    let ms = days_of(year, month, day)? * DAY_MS + in_day;
    (ms.abs() <= MAX_MS).then_some(ms)
}

/// The offset of a zone from UTC.
fn offset(rest: &mut &str) -> Option<i64> {
    let sign = match rest.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => {
            skip(rest, "Z");
            return Some(0);
        }
    };
    *rest = &rest[1..];
    let hour = take(rest, 2)?;
    skip(rest, ":");
    Some(sign * ms_of(hour, take(rest, 2)?, 0)?)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The time of a date in a header of HTTP, in one of the three forms of RFC 9110, section 5.6.7. A year of two digits is of this
/// century.
fn parse_http_date(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split([' ', ',', '-']).filter(|word| !word.is_empty()).collect();
    let ([_, day, month, year, clock, "GMT"] | [_, month, day, clock, year]) = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let century = if year.len() == 2 { 2000 } else { 0 };
    let mut parts = clock.splitn(3, ':').map(number);
    let in_day = ms_of(parts.next()??, parts.next()??, parts.next()??)?;
    Some(days_of(century + number(year)?, month, number(day)?)? * DAY_MS + in_day)
}

/// How long a `Retry-After` header asks to wait, in milliseconds. A date is compared with `sent_at`, the `Date` of the same
/// answer, because the local clock may be wrong.
pub(crate) fn retry_after_ms(header: &str, now: i64, sent_at: Option<&str>) -> Option<i64> {
    if (1..=10).contains(&header.len()) && header.bytes().all(|byte| byte.is_ascii_digit()) {
        return header.parse::<i64>().ok().map(|seconds| seconds * 1000);
    }
    let from = sent_at.and_then(parse_http_date).unwrap_or(now);
    Some((parse_http_date(header)? - from).max(0))
}

fn skip(rest: &mut &str, mark: &str) -> bool {
    rest.strip_prefix(mark).map(|tail| *rest = tail).is_some()
}

fn take(rest: &mut &str, count: usize) -> Option<i64> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    number(head)
}

fn number(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn ms_of(hour: i64, minute: i64, second: i64) -> Option<i64> {
    let is_valid = hour < 24 && minute < 60 && second <= 60 || (hour, minute, second) == (24, 0, 0);
    is_valid.then(|| ((hour * 60 + minute) * 60 + second) * 1000)
}

/// Days since 1970 of a date of the Gregorian calendar. Years begin in March, so that a leap day is the last one.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    ((1..=12).contains(&month) && date_of(days) == (year, month, day)).then_some(days)
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_javascript_writes_it_and_read_again() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_795_255_200_123, "2026-11-21T10:00:00.123Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (MAX_MS, "+275760-09-13T00:00:00.000Z"),
            (-MAX_MS, "-271821-04-20T00:00:00.000Z"),
            (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(to_text(ms), text);
            assert_eq!(parse(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn dates_zones_and_fractions_of_any_length_are_read() {
        let day = parse("2026-11-21T00:00:00.000Z");
        assert_eq!(parse("2026-11-21"), day);
        assert_eq!(parse("2026-11-21T02:00+02:00"), day);
        assert_eq!(parse("2026-11-20T22:30:00-0130"), day);
        assert_eq!(parse("2026-11-20T24:00:00Z"), day);
        assert_eq!(parse("2026-11-21T00:00:00.1239999Z"), day.map(|ms| ms + 123));
        for text in [
            "",
            "soon",
            "2026-02-30",
            "2026-13-01",
            "2026-11-21T",
            "2026-11-21T10",
            "2026-11-21T10:61",
            "2026-11-21T10:00:00.Z",
            "2026-11-21T10:00:00Zz",
            "+275760-09-13T00:00:00.001Z",
            "21.11.2026",
            "é",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date_in_one_of_three_forms() {
        let sent = "Sat, 21 Nov 2026 10:00:00 GMT";
        let now = 1_795_255_200_000;
        for (header, expected) in [
            ("120", Some(120_000)),
            ("Sat, 21 Nov 2026 10:02:00 GMT", Some(120_000)),
            ("Saturday, 21-Nov-26 10:02:00 GMT", Some(120_000)),
            ("Sat Nov 21 10:02:00 2026", Some(120_000)),
            ("Sat, 21 Nov 2026 09:00:00 GMT", Some(0)),
            ("Sat, 31 Jun 2026 09:00:00 GMT", None),
            ("99999999999", None),
            ("Sat, 21 Nov 2026 999999999999999999:00:00 GMT", None),
            ("Sat, 999999999999999999 Nov 2026 09:00:00 GMT", None),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after_ms(header, now, Some(sent)), expected, "{header}");
        }
        assert_eq!(retry_after_ms("Sat, 21 Nov 2026 10:02:00 GMT", now - 60_000, None), Some(180_000));
    }
}
