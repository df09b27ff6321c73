//! What settings have to be.

use std::ops::RangeInclusive;

use forebay_cache::Policy;

/// The rules of a plan, and which of them are broken.
#[derive(Default)]
pub(super) struct Rules {
    pub(super) broken: Vec<String>,
}

impl Rules {
    pub(super) fn check(&mut self, holds: bool, rule: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(rule());
        }
    }

    pub(super) fn bytes(&mut self, name: &str, text: Option<String>, default: u64) -> u64 {
        let Some(text) = text else { return default };
        let bytes = parse_bytes(&text);
        self.check(bytes.is_some(), || {
            format!("`{name}` must be a size such as `500 GiB`: `{text}`")
        });
        bytes.unwrap_or(default)
    }

    pub(super) fn rate(&mut self, name: &str, text: Option<String>) -> Option<u64> {
        let text = text?;
        let bytes = parse_bytes(&text).filter(|bytes| *bytes > 0);
        self.check(bytes.is_some(), || {
            format!("`{name}` must be bytes a second, such as `2 GB`: `{text}`")
        });
        bytes
    }

    pub(super) fn policy(&mut self, name: Option<&str>) -> Policy {
        match name {
            None | Some("plan") => Policy::Plan,
            Some("lru") => Policy::Lru,
            Some("pin") => Policy::Pin,
            Some(other) => {
                self.check(false, || {
                    format!("`policy` must be `plan`, `lru` or `pin`: `{other}`")
                });
                Policy::Plan
            }
        }
    }

    pub(super) fn within(&mut self, name: &str, value: u32, range: RangeInclusive<u32>) -> usize {
        let (least, most) = (range.start(), range.end());
        self.check(range.contains(&value), || {
            format!("`{name}` must be between {least} and {most}: {value}")
        });
        value as usize
    }
}

/// A size in bytes: digits, then nothing or one of `B KB MB GB TB KiB MiB GiB TiB`.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let factor: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_do_not_overflow() {
        for (text, bytes) in [
            ("0", 0),
            ("12", 12),
            ("5 GiB", 5 << 30),
            ("7kb", 7000),
            (" 1T ", 1 << 40),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5 GB", "1 XB", "99999999999 TiB"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }
}
