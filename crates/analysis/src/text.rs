//! Words and numbers as people read them. Everything that came from outside passes through
//! [`escape`] on its way to a page and through [`printable`] on its way to a terminal.

/// The text with every character that could steer a terminal or a page's layout replaced.
pub(crate) fn printable(text: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
            || matches!(c, '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
    };
    text.chars()
        .map(|c| if steers(c) { '\u{FFFD}' } else { c })
        .collect()
}

/// The text as it may stand in HTML or SVG, in an element or in a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// At most `limit` characters of the text; a cut shows as `…`.
pub(crate) fn clip(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let kept: String = text.chars().take(limit.saturating_sub(1)).collect();
    kept + "…"
}

/// A number with three significant digits and no exponent; at least the whole part is kept.
pub(crate) fn three_digits(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".into();
    }
    let decimals: usize = match size {
        s if s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.9995 => 2,
        _ => 3,
    };
    group(&format!("{value:.decimals$}"))
}

/// Thin thousands separators in the whole part.
fn group(number: &str) -> String {
    let (whole, rest) = match number.find('.') {
        Some(dot) => number.split_at(dot),
        None => (number, ""),
    };
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) && c.is_ascii_digit() && whole.len() > 4 {
            out.push('\u{202F}');
        }
        out.push(c);
    }
    out + rest
}

/// A whole number with thousands separators.
pub(crate) fn count(value: usize) -> String {
    group(&value.to_string())
}

/// `1 run`, `2 runs`.
pub(crate) fn plural(number: usize, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {thing}{ending}", count(number))
}

/// A duration in the unit that suits it: µs, ms or s.
pub(crate) fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        0.0 => return "0 s".into(),
        s if s < 0.000_999_5 => (s * 1e6, "µs"),
        s if s < 0.999_5 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A share of `n`, in percent; one that is not 0 never reads as 0.
pub(crate) fn share(over: usize, n: usize) -> String {
    let percent = 100.0 * over as f64 / n.max(1) as f64;
    match percent {
        0.0 => "0 %".into(),
        p if p < 0.01 => "< 0.01 %".into(),
        p if p < 9.995 => format!("{p:.2} %"),
        p => format!("{p:.1} %"),
    }
}

/// A number of bytes in the binary unit that suits it.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// A moment as `2026-11-30 16:39 UTC`.
pub(crate) fn moment(unix_ns: u64) -> String {
    let minutes = unix_ns / 60_000_000_000;
    let (days, minute) = (minutes / 1_440, minutes % 1_440);
    let (year, month, day) = civil(days);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02} UTC",
        minute / 60,
        minute % 60
    )
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years that begin in March put the leap day last; 400 of them have 146,097 days.
    const CYCLE: u64 = 146_097;
    let shifted = days + 719_468;
    let (cycle, day) = (shifted / CYCLE, shifted % CYCLE);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let in_year = day - (365 * year + year / 4 - year / 100);
    let march_month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    (cycle * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(duration(41.8), "41.8 s");
        assert_eq!(duration(0.015), "15.0 ms");
        assert_eq!(duration(0.000_25), "250 µs");
        assert_eq!(duration(11_843.9), "11\u{202F}844 s");
        assert_eq!(share(0, 5120), "0 %");
        assert_eq!(share(1, 50_000), "< 0.01 %");
        assert_eq!(share(1444, 5120), "28.2 %");
        assert_eq!(bytes(65_536), "64.0 KiB");
        assert_eq!(count(5_242_880), "5\u{202F}242\u{202F}880");
        assert_eq!(three_digits(-0.5), "-0.500");
    }

    #[test]
    fn moments_follow_the_calendar() {
        let at = |seconds: u64| moment(seconds * 1_000_000_000);
        assert_eq!(at(0), "1970-01-01 00:00 UTC");
        assert_eq!(at(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(at(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(at(1_767_225_599), "2025-12-31 23:59 UTC");
        assert_eq!(moment(u64::MAX), "2554-07-21 23:34 UTC");
    }

    #[test]
    fn hostile_text_is_harmless() {
        assert_eq!(
            escape("<script>'\"&\u{1b}[2J\0\u{202E}"),
            "&lt;script&gt;&#39;&quot;&amp;\u{FFFD}[2J\u{FFFD}\u{FFFD}"
        );
        assert_eq!(printable("a\tb"), "a\u{FFFD}b");
        assert_eq!(clip("abcdef", 4), "abc…");
        assert_eq!(clip("日本語", 3), "日本語");
    }
}
