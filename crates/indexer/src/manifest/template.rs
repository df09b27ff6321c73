//! Sample rules with columns in braces, filled row by row.

use std::path::Path;

use super::column::Column;
use crate::error::Result;
use crate::join::last_name;
use crate::{IndexerError, Pattern, SampleRule};

/// A sample rule whose files and groups are named by columns.
#[derive(Debug)]
pub(super) struct Template {
    files: Option<Vec<Piece>>,
    parts: Vec<Vec<Piece>>,
    names: Vec<String>,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    /// Position of the column.
    Column(usize),
}

/// Whether a rule names columns.
pub(super) fn has_columns(rule: &SampleRule) -> bool {
    let in_pattern = match &rule.pattern {
        Pattern::Groups(parts) => parts.iter().any(|part| part.contains('{')),
        Pattern::Rows(_) => false,
    };
    in_pattern || rule.files.as_ref().is_some_and(|files| files.contains('{'))
}

impl Template {
    pub(super) fn new(rule: &SampleRule, columns: &[Column], table: &Path) -> Result<Self> {
        let Pattern::Groups(parts) = &rule.pattern else {
            return Err(IndexerError::Request(format!(
                "`{rule}`: rows along an axis have no key, so a table cannot name them"
            )));
        };
        if !has_columns(rule) {
            return Err(IndexerError::Request(format!(
                "the sample rule `{rule}` names no column of `{}`: write columns in braces, as in \
                 `{{file}}={{group}}`",
                table.display()
            )));
        }
        if let Some(part) = parts.iter().find(|part| part.contains(['*', '?'])) {
            return Err(IndexerError::Request(format!(
                "`{part}` in the sample rule `{rule}` stands for any name, so a row does not say \
                 which sample it means: put a column in braces in its place"
            )));
        }
        let mut template = Self {
            files: None,
            parts: Vec::new(),
            names: Vec::new(),
        };
        let mut parse = |text: &str| template.parse(text, rule, columns, table);
        let parsed: Vec<Vec<Piece>> = parts
            .iter()
            .map(|part| parse(part))
            .collect::<Result<_>>()?;
        let files = rule.files.as_ref().map(|files| parse(files)).transpose()?;
        template.parts = parsed;
        template.files = files;
        Ok(template)
    }

    fn parse(
        &mut self,
        text: &str,
        rule: &SampleRule,
        columns: &[Column],
        table: &Path,
    ) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, behind)) = after.split_once('}') else {
                return Err(IndexerError::Request(format!(
                    "a brace is not closed in the sample rule `{rule}`"
                )));
            };
            let Some(column) = columns.iter().position(|column| column.name == name) else {
                let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                return Err(IndexerError::Request(format!(
                    "`{}` has no column `{name}`, which the sample rule `{rule}` names: it has `{}`",
                    table.display(),
                    names.join("`, `")
                )));
            };
            if !columns[column].has_text() {
                return Err(IndexerError::Request(format!(
                    "the column `{name}` of `{}` holds neither text nor integers, so it cannot \
                     name files or groups",
                    table.display()
                )));
            }
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Column(column));
            self.names.push(name.to_owned());
            rest = behind;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(pieces)
    }

    /// Whether the column says where samples are.
    pub(super) fn names(&self, column: &str) -> bool {
        self.names.iter().any(|name| name == column)
    }

    /// The rule by which files are read: any name where a column stands.
    pub(super) fn rule(&self) -> SampleRule {
        let glob = |pieces: &Vec<Piece>| -> String {
            pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) => text.as_str(),
                    Piece::Column(_) => "*",
                })
                .collect()
        };
        SampleRule {
            files: self.files.as_ref().map(glob),
            pattern: Pattern::Groups(self.parts.iter().map(glob).collect()),
        }
    }

    /// Whether the groups of samples have names that differ: else each file is one sample.
    pub(super) fn has_key(&self) -> bool {
        self.parts.iter().any(|part| part.iter().any(is_column))
    }

    /// Appends the file of a row; false if the rule names none.
    pub(super) fn file(&self, columns: &[Column], row: u64, out: &mut String) -> bool {
        let Some(files) = &self.files else {
            return false;
        };
        fill(files, columns, row, out);
        if let Some(below) = out.strip_prefix("./") {
            *out = below.to_owned();
        }
        true
    }

    /// Appends the key of a row: the names that columns give, as the walk of a file has it.
    pub(super) fn key(&self, columns: &[Column], row: u64, out: &mut String) {
        for part in self.parts.iter().filter(|part| part.iter().any(is_column)) {
            if !out.is_empty() {
                out.push('/');
            }
            fill(part, columns, row, out);
        }
    }
}

const fn is_column(piece: &Piece) -> bool {
    matches!(piece, Piece::Column(_))
}

fn fill(pieces: &[Piece], columns: &[Column], row: u64, out: &mut String) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Column(column) => {
                out.push_str(&columns[*column].text(row).unwrap_or_default());
            }
        }
    }
}

/// Whether a file is the one that a row names: by its path if the name has folders.
pub(super) fn fits(file: &str) -> impl Fn(&str) -> bool + use<'_> {
    let rule = file.contains(['*', '?']).then(|| SampleRule {
        files: Some(file.to_owned()),
        pattern: Pattern::Groups(Vec::new()),
    });
    move |path: &str| match &rule {
        Some(rule) => rule.covers(path),
        None => path == file || !file.contains('/') && last_name(path) == file,
    }
}
