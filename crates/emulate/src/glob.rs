//! Path patterns for faults: `?`, `*` (within one component) and `**` (across components).

/// Whether `path` (relative, bytes) matches `pattern`.
///
/// A pattern without `/` is held against the last component alone, so `*.h5` finds every HDF5
/// file of the tree. The work is bounded by the product of the two lengths.
pub fn matches(pattern: &str, path: &[u8]) -> bool {
    let pattern = pattern.as_bytes();
    if pattern.contains(&b'/') || pattern == b"**" {
        return whole(strip_root(pattern), path);
    }
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    whole(pattern, name)
}

fn strip_root(pattern: &[u8]) -> &[u8] {
    pattern.strip_prefix(b"/").unwrap_or(pattern)
}

/// Row by row: whether the pattern's first tokens match the path's first `s` bytes.
fn whole(pattern: &[u8], path: &[u8]) -> bool {
    let mut row = vec![false; path.len() + 1];
    row[0] = true;
    let mut rest = pattern;
    let mut at_component = true;
    while let Some(&token) = rest.first() {
        let used = match token {
            b'*' if at_component && rest.starts_with(b"**/") => {
                any_folders(&mut row, path);
                3
            }
            b'*' => {
                let across = rest.starts_with(b"**");
                for s in 1..=path.len() {
                    row[s] |= row[s - 1] && (across || path[s - 1] != b'/');
                }
                if across { 2 } else { 1 }
            }
            _ => {
                one_byte(&mut row, path, token);
                1
            }
        };
        at_component = rest[used - 1] == b'/';
        rest = &rest[used..];
    }
    row[path.len()]
}

/// `**/`: nothing, or any number of whole components.
fn any_folders(row: &mut [bool], path: &[u8]) {
    let mut begun = false;
    for s in 1..=path.len() {
        begun |= row[s - 1];
        row[s] |= begun && path[s - 1] == b'/';
    }
}

fn one_byte(row: &mut [bool], path: &[u8], token: u8) {
    for s in (1..=path.len()).rev() {
        let byte = path[s - 1];
        row[s] = row[s - 1] && (byte == token || (token == b'?' && byte != b'/'));
    }
    row[0] = false;
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_people_expect() {
        let yes = [
            ("*.h5", "a.h5"),
            ("*.h5", "train/raw/a.h5"),
            ("train/*.h5", "train/a.h5"),
            ("train/**", "train/x/y.h5"),
            ("**/a.h5", "a.h5"),
            ("**/a.h5", "x/y/a.h5"),
            ("x/**/a", "x/a"),
            ("x/**/a", "x/y/z/a"),
            ("/top/a?", "top/ab"),
            ("**", "any/thing"),
            ("a*b*c", "aXbYbZc"),
            ("", ""),
            ("exact", "exact"),
            ("*", "x"),
        ];
        for (pattern, path) in yes {
            assert!(
                matches(pattern, path.as_bytes()),
                "`{pattern}` matches `{path}`"
            );
        }
        let no = [
            ("*.h5", "a.h5x"),
            ("train/*.h5", "train/x/a.h5"),
            ("train/*", "valid/a"),
            ("a?", "a"),
            ("x/**/a", "x/ya"),
            ("/top/a?", "top/a/"),
            ("exact", "exactly"),
            ("*b", "abc"),
        ];
        for (pattern, path) in no {
            assert!(
                !matches(pattern, path.as_bytes()),
                "`{pattern}` does not match `{path}`"
            );
        }
    }

    #[test]
    fn hostile_patterns_end() {
        let pattern = "*a".repeat(500) + "b";
        assert!(!matches(&pattern, &vec![b'a'; 2000]));
    }
}
