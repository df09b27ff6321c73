//! Names with wildcards: `*` stands for any characters of one name, `?` for one.

/// True if `pattern` covers all of `name`. Linear in both for one star, quadratic at worst.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go on when a star has to take one more character.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(b'?') => {
                p += 1;
                n += char_len(name, n);
            }
            Some(byte) if *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((star, taken)) => {
                    retry = Some((star, taken + 1));
                    (p, n) = (star, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// True if the name has no wildcard.
pub(crate) fn is_literal(pattern: &str) -> bool {
    !pattern.contains(['*', '?'])
}

fn char_len(name: &[u8], at: usize) -> usize {
    let tail = name[at + 1..]
        .iter()
        .take_while(|byte| **byte & 0xc0 == 0x80);
    1 + tail.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_like_a_shell() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abbc"),
            ("a*b*c", "axxbyybc"),
            ("?", "é"),
            ("raw_*.h5", "raw_007.h5"),
            ("***", "x"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("a*c", "abcd"),
            ("a", "ab"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
