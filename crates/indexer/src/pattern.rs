//! What a sample is in an HDF5 file.

use std::fmt;
use std::str::FromStr;

use crate::{IndexerError, glob};

/// What a sample is in an HDF5 file.
///
/// Written as text:
/// - `*/dcomplex/*`: every group whose path has this form. `*` stands for any characters of one
///   name, `?` for one character. The data sets in it, and below it as `sub/name`, are its
///   fields. Its key is what the parts with wildcards stand for, joined by `/`; without
///   wildcards, the path of the file without its extension.
/// - `/`: the root group: each file is a sample.
/// - `rows`: each row along axis 0 of the data sets in the root group, which are equally long.
/// - `rows:/a,/b/c`: the same of the named data sets. Rows have no key.
///
/// A group named `rows` in the root is written `/rows`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pattern {
    /// Groups by path, one name or wildcard for each level; none for the root.
    Groups(Vec<String>),
    /// Rows along axis 0 of these data sets; none: of all in the root group.
    Rows(Vec<String>),
}

impl FromStr for Pattern {
    type Err = IndexerError;

    fn from_str(text: &str) -> Result<Self, IndexerError> {
        if text == "rows" {
            return Ok(Self::Rows(Vec::new()));
        }
        if let Some(list) = text.strip_prefix("rows:") {
            let names: Vec<String> = list
                .split(',')
                .map(|name| name.trim_matches('/').to_owned())
                .collect();
            if names.iter().any(String::is_empty) {
                return Err(IndexerError::Request(format!(
                    "sample pattern `{text}` names no data set: write `rows:/path,/other`"
                )));
            }
            return Ok(Self::Rows(names));
        }
        if text.is_empty() {
            return Err(IndexerError::Request(
                "a sample pattern is empty: `*/*`, `/` or `rows` are patterns".to_owned(),
            ));
        }
        let parts = text.split('/').filter(|part| !part.is_empty());
        Ok(Self::Groups(parts.map(str::to_owned).collect()))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Groups(parts) if parts.len() == 1 && parts[0].starts_with("rows") => {
                write!(f, "/{}", parts[0])
            }
            Self::Groups(parts) if parts.is_empty() => f.write_str("/"),
            Self::Groups(parts) => f.write_str(&parts.join("/")),
            Self::Rows(names) if names.is_empty() => f.write_str("rows"),
            Self::Rows(names) => write!(f, "rows:/{}", names.join(",/")),
        }
    }
}

/// A pattern, and the files that it is for. Written `PATTERN` or `GLOB=PATTERN`.
///
/// The glob is compared with the file's name, or with its path below the root if it contains a
/// `/`. The first `=` ends the glob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRule {
    /// The files; `None` for all.
    pub files: Option<String>,
    /// What a sample is in them.
    pub pattern: Pattern,
}

impl SampleRule {
    /// True if the rule is for the file at `path`, relative to the root.
    pub(crate) fn covers(&self, path: &str) -> bool {
        let Some(files) = &self.files else {
            return true;
        };
        if files.contains('/') {
            let (mut wanted, mut found) = (files.split('/'), path.split('/'));
            loop {
                match (wanted.next(), found.next()) {
                    (None, None) => return true,
                    (Some(wanted), Some(found)) if glob::matches(wanted, found) => {}
                    _ => return false,
                }
            }
        }
        glob::matches(files, path.rsplit('/').next().unwrap_or(path))
    }
}

impl FromStr for SampleRule {
    type Err = IndexerError;

    fn from_str(text: &str) -> Result<Self, IndexerError> {
        match text.split_once('=') {
            Some(("", _)) => Err(IndexerError::Request(format!(
                "sample rule `{text}` names no files: write `GLOB=PATTERN` or `PATTERN`"
            ))),
            Some((files, pattern)) => Ok(Self {
                files: Some(files.trim_start_matches("./").to_owned()),
                pattern: pattern.parse()?,
            }),
            None => Ok(Self {
                files: None,
                pattern: text.parse()?,
            }),
        }
    }
}

impl fmt::Display for SampleRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(files) = &self.files {
            write!(f, "{files}=")?;
        }
        write!(f, "{}", self.pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_survive_a_round_trip() {
        for text in [
            "*/dcomplex/*",
            "/",
            "rows",
            "rows:/a,/b/c",
            "/rows",
            "a=*/b",
            "x/*.h5=rows",
        ] {
            let rule: SampleRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
        assert_ne!("/rows".parse::<Pattern>().unwrap(), "rows".parse().unwrap());
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for text in ["", "rows:", "rows:/a,", "=*/*", "x="] {
            assert!(text.parse::<SampleRule>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_rule_covers_files_by_name_or_by_path() {
        let covers = |rule: &str, path| rule.parse::<SampleRule>().unwrap().covers(path);
        assert!(covers("raw*.h5=*", "deep/raw_1.h5"));
        assert!(!covers("raw*.h5=*", "raw/edges.h5"));
        assert!(covers("raw/*=*", "raw/edges.h5"));
        assert!(!covers("raw/*=*", "raw/deep/edges.h5"));
        assert!(covers("*", "anything"));
    }
}
