//! Lists of hosts as Slurm writes them: `n[001-003,7],gpu[1-2]-[3,4]x`. Pure.

use thiserror::Error;

/// Most hosts in one list.
const MOST: usize = 65_536;

/// A list that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostListError {
    /// Brackets that do not match, an empty name or range, or something else that is no list.
    #[error("`{0}` is no list of hosts")]
    Malformed(String),
    /// A range that runs backwards, or whose ends are no numbers.
    #[error("`{0}` is no range of numbers")]
    Range(String),
    /// More hosts than any job has.
    #[error("list names more than {MOST} hosts")]
    TooMany,
}

/// The hosts of a list, in its order.
///
/// # Errors
/// [`HostListError`] if it is none.
pub fn hosts(list: &str) -> Result<Vec<String>, HostListError> {
    let mut found = Vec::new();
    for item in items(list)? {
        let names = expand(item)?;
        if found.len() + names.len() > MOST {
            return Err(HostListError::TooMany);
        }
        found.extend(names);
    }
    Ok(found)
}

/// Cuts at the commas that are in no brackets.
fn items(list: &str) -> Result<Vec<&str>, HostListError> {
    let malformed = || HostListError::Malformed(list.to_owned());
    let (mut items, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, letter) in list.char_indices() {
        match letter {
            '[' if !inside => inside = true,
            ']' if inside => inside = false,
            '[' | ']' => return Err(malformed()),
            ',' if !inside => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&list[start..]);
    let is_name = |item: &&str| !item.is_empty() && !item.contains(char::is_whitespace);
    if inside || !items.iter().all(is_name) {
        return Err(malformed());
    }
    Ok(items)
}

/// The names of one item: each combination of its brackets, the last changing first.
fn expand(item: &str) -> Result<Vec<String>, HostListError> {
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((before, after)) = rest.split_once('[') {
        // Brackets match: `items` has seen to it.
        let (inside, behind) = after.split_once(']').unwrap_or((after, ""));
        let numbers = numbers(inside)?;
        if names.len().saturating_mul(numbers.len()) > MOST {
            return Err(HostListError::TooMany);
        }
        let longer = |name: &String| {
            let name = format!("{name}{before}");
            let longer = numbers.iter().map(move |number| format!("{name}{number}"));
            longer.collect::<Vec<_>>()
        };
        names = names.iter().flat_map(longer).collect();
        rest = behind;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

/// `1,03-05` as `1`, `03`, `04`, `05`.
fn numbers(ranges: &str) -> Result<Vec<String>, HostListError> {
    let mut found = Vec::new();
    for range in ranges.split(',') {
        let wrong = || HostListError::Range(range.to_owned());
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse::<u64>().ok().filter(|_| is_number);
            number.ok_or_else(wrong)
        };
        let (first, last) = (number(low)?, number(high)?);
        if first > last {
            return Err(wrong());
        }
        if last - first >= MOST as u64 || found.len() > MOST {
            return Err(HostListError::TooMany);
        }
        let width = low.len();
        found.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_read_as_slurm_writes_them() {
        for (list, names) in [
            ("n0", "n0"),
            ("a,b,a-c", "a b a-c"),
            ("n[0-3]", "n0 n1 n2 n3"),
            ("n[008-010,7]", "n008 n009 n010 n7"),
            ("gpu[1-2]-[3,4]x,y", "gpu1-3x gpu1-4x gpu2-3x gpu2-4x y"),
            (
                "rack1n[9-11].site",
                "rack1n9.site rack1n10.site rack1n11.site",
            ),
        ] {
            let wanted: Vec<&str> = names.split(' ').collect();
            assert_eq!(hosts(list).unwrap(), wanted, "{list}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused_by_name() {
        for list in ["", "a,,b", "n[1", "n1]", "n[1[2]]", "a b", ","] {
            assert_eq!(hosts(list), Err(HostListError::Malformed(list.into())));
        }
        for (list, range) in [
            ("n[]", ""),
            ("n[3-1]", "3-1"),
            ("n[1-2-3]", "1-2-3"),
            ("n[+1]", "+1"),
        ] {
            assert_eq!(
                hosts(list),
                Err(HostListError::Range(range.into())),
                "{list}"
            );
        }
        for list in [
            "n[0-65536]",
            "n[0-999]x[0-999]",
            "n[0-99999999999999]",
            "a[1-65000],b[1-65000]",
        ] {
            assert_eq!(hosts(list), Err(HostListError::TooMany), "{list}");
        }
    }

    proptest! {
        #[test]
        fn no_list_does_harm(list in "[a-c0-9,\\[\\]-]{0,40}") {
            if let Ok(hosts) = hosts(&list) {
                prop_assert!(!hosts.is_empty() && hosts.len() <= MOST);
            }
        }

        #[test]
        fn a_range_names_each_number_once(first in 0u64..5000, count in 1u64..300, width in 0usize..6) {
            let last = first + count - 1;
            let names = hosts(&format!("n[{first:0width$}-{last}]")).unwrap();
            let wanted: Vec<_> = (first..=last).map(|number| format!("n{number:0width$}")).collect();
            prop_assert_eq!(names, wanted);
        }
    }
}
