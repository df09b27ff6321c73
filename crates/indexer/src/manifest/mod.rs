//! A table of samples: which there are, where they lie, and what else is known of each.
//!
//! Columns named in the placeholders of the sample rules say where a sample lies; every other
//! column becomes a field whose values lie in the index.

mod column;
mod csv;
mod parquet;
mod template;

use std::fs::File;
use std::path::{Path, PathBuf};

use forebay_dataset::index::{FieldExtent, FieldSpec, IndexBuilder, Pick, Storage};
use forebay_dataset::{BlockSize, IndexError, SegmentIndex};

use crate::error::Result;
use crate::files::Inputs;
use crate::join::{Lookup, last_name};
use crate::parts::{Part, in_memory};
use crate::plan::Named;
use crate::scan::FieldFilter;
use crate::{Format, IndexRequest, IndexerError, SampleRule};
use column::Column;
use template::Template;

/// A manifest, read.
pub(crate) struct Manifest {
    path: PathBuf,
    columns: Vec<Column>,
    rows: u64,
    templates: Vec<Template>,
    /// The rules by which files are read, with wildcards in place of columns.
    rules: Vec<SampleRule>,
}

impl Manifest {
    /// Reads the manifest that a request names, if it names one.
    pub(crate) fn of(request: &IndexRequest) -> Result<Option<Self>> {
        let Some(path) = &request.manifest else {
            return match request
                .samples
                .iter()
                .find(|rule| template::has_columns(rule))
            {
                None => Ok(None),
                Some(rule) => Err(IndexerError::Request(format!(
                    "the sample rule `{rule}` names columns: name the table that has them with \
                     `--manifest`"
                ))),
            };
        };
        if request.samples.is_empty() {
            return Err(IndexerError::Request(format!(
                "how rows of `{}` lead to samples is not said: add `--sample`, with columns in \
                 braces, as in `--sample '{{file}}={{group}}'`",
                path.display()
            )));
        }
        let (mut columns, untyped) = read(path)?;
        let templates = request.samples.iter();
        let templates: Vec<Template> = templates
            .map(|rule| Template::new(rule, &columns, path))
            .collect::<Result<_>>()?;
        if untyped {
            columns = columns
                .into_iter()
                .map(|column| typed(column, &templates))
                .collect();
        }
        let rows = columns.first().map_or(0, Column::len);
        if rows == 0 {
            let path = path.display();
            return Err(IndexerError::Request(format!("`{path}` has no rows")));
        }
        Ok(Some(Self {
            path: path.clone(),
            rows,
            rules: templates.iter().map(Template::rule).collect(),
            templates,
            columns,
        }))
    }

    /// Fails unless each file is a sample, as of files of this format.
    pub(crate) fn check_files_are_samples(&self, format: Format) -> Result<()> {
        let one = |rule: &&SampleRule| rule.pattern.to_string() != "/";
        match self.rules.iter().find(one) {
            None if format == Format::Files && self.rules.len() > 1 => Err(IndexerError::Request(
                "several sample rules give fields of one name where each file is a sample: \
                     use one"
                    .to_owned(),
            )),
            None => Ok(()),
            Some(rule) => Err(IndexerError::Request(format!(
                "the sample rule `{rule}` names groups, which files of format {format} do not \
                 have: write `GLOB=/`"
            ))),
        }
    }

    pub(crate) fn rules(&self) -> &[SampleRule] {
        &self.rules
    }

    /// The files that the rows name for a rule; `None` if its files are not named.
    pub(crate) fn files(&self, rule: usize) -> Option<Named> {
        let template = self.templates.get(rule)?;
        let mut named = Named::default();
        let mut text = String::new();
        for row in 0..self.rows {
            text.clear();
            if !template.file(&self.columns, row, &mut text) {
                return None;
            }
            named.add(&text);
        }
        Some(named)
    }

    /// The samples of each row, rule by rule, and how many rows were left out. `values` is the
    /// position of the part that holds the other columns, if there is one.
    pub(crate) fn resolve(
        &self,
        request: &IndexRequest,
        inputs: &Inputs,
        parts: &[Part],
        values: Option<u32>,
    ) -> Result<(Vec<Pick>, u64)> {
        let by_file = |template: &Template| inputs.format == Format::Files || !template.has_key();
        let mut lookups = Vec::with_capacity(self.templates.len());
        for (rule, template) in self.templates.iter().enumerate() {
            self.check_keys(inputs, parts, rule)?;
            lookups.push(Lookup::new(parts, rule, by_file(template))?);
        }
        let mut picks = Vec::new();
        let mut rows = Vec::new();
        let mut skipped = 0;
        for row in 0..self.rows {
            let before = picks.len();
            let found = self.row(row, parts, &lookups, &mut picks);
            match found {
                Ok(()) => rows.push(row),
                Err(Missing::Sample(_)) if request.skip_incomplete => {
                    picks.truncate(before);
                    skipped += 1;
                    continue;
                }
                Err(Missing::Sample(what)) => {
                    return Err(IndexerError::Uneven(format!(
                        "{what}; leave out such rows with `--skip-incomplete`"
                    )));
                }
                Err(Missing::Failed(error)) => return Err(error),
            }
            picks.extend(values.map(|part| Pick { part, sample: row }));
        }
        if picks.is_empty() {
            return Err(IndexerError::Uneven(format!(
                "no row of `{}` leads to a sample: check `--sample`",
                self.path.display()
            )));
        }
        let width = picks.len() / rows.len();
        self.check_unique(picks.iter().step_by(width), &rows)?;
        Ok((picks, skipped))
    }

    fn check_keys(&self, inputs: &Inputs, parts: &[Part], rule: usize) -> Result<()> {
        match parts.iter().find(|part| part.rule == rule) {
            Some(part) if !part.has_keys() => Err(IndexerError::Request(format!(
                "samples of format {} have no key, so rows of `{}` cannot lead to them",
                inputs.format,
                self.path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Appends the samples of a row.
    fn row(
        &self,
        row: u64,
        parts: &[Part],
        lookups: &[Lookup<'_>],
        picks: &mut Vec<Pick>,
    ) -> std::result::Result<(), Missing> {
        let (mut file, mut key) = (String::new(), String::new());
        for (template, lookup) in self.templates.iter().zip(lookups) {
            file.clear();
            key.clear();
            let named = template.file(&self.columns, row, &mut file);
            template.key(&self.columns, row, &mut key);
            let wanted = if template.has_key() {
                &key
            } else {
                last_name(&file)
            };
            let mut found = lookup.all(wanted)?;
            if named {
                let fits = template::fits(&file);
                let mut kept = Vec::with_capacity(found.len());
                for pick in found {
                    let path = parts[pick.part as usize].file(pick.sample);
                    if fits(path.map_err(crate::parts::damaged)?) {
                        kept.push(pick);
                    }
                }
                found = kept;
            }
            let what = || {
                let sample = match template.has_key() {
                    true => format!("sample `{key}`"),
                    false => "sample".to_owned(),
                };
                match named {
                    true => format!("{sample} in a file `{file}`"),
                    false => sample,
                }
            };
            let place = || format!("row {} of `{}`", row + 1, self.path.display());
            match found.as_slice() {
                [pick] => picks.push(*pick),
                [] => {
                    return Err(Missing::Sample(format!(
                        "{}: there is no {}",
                        place(),
                        what()
                    )));
                }
                [one, other, ..] => {
                    let path = |pick: &Pick| {
                        let path = parts[pick.part as usize].file(pick.sample);
                        path.map_or_else(|_| String::new(), str::to_owned)
                    };
                    return Err(Missing::Failed(IndexerError::Uneven(format!(
                        "{}: the {} is in `{}` and in `{}`: name one file, as in `--sample \
                         '{{file}}=...'`",
                        place(),
                        what(),
                        path(one),
                        path(other)
                    ))));
                }
            }
        }
        Ok(())
    }

    /// Two rows of one sample would have one key.
    fn check_unique<'a>(&self, firsts: impl Iterator<Item = &'a Pick>, rows: &[u64]) -> Result<()> {
        let mut seen: Vec<(u32, u64, u64)> = firsts
            .zip(rows)
            .map(|(pick, row)| (pick.part, pick.sample, *row))
            .collect();
        seen.sort_unstable();
        match seen
            .windows(2)
            .find(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1))
        {
            None => Ok(()),
            Some(pair) => Err(IndexerError::Uneven(format!(
                "rows {} and {} of `{}` lead to the same sample: keep one of them",
                pair[0].2 + 1,
                pair[1].2 + 1,
                self.path.display()
            ))),
        }
    }

    /// The columns that no rule names, as a part; `None` if there is none.
    pub(crate) fn values(
        &self,
        block_size: BlockSize,
        filter: &FieldFilter,
        rule: usize,
    ) -> Result<Option<Part>> {
        let used = |column: &Column| {
            self.templates
                .iter()
                .any(|template| template.names(&column.name))
        };
        let columns: Vec<&Column> = self
            .columns
            .iter()
            .filter(|column| !used(column) && filter.keeps(&column.name))
            .collect();
        if columns.is_empty() {
            return Ok(None);
        }
        let mut fields = Vec::with_capacity(columns.len());
        for column in &columns {
            let dtype = column
                .dtype()
                .map_err(|why| self.unusable(&column.name, &why))?;
            fields.push(FieldSpec {
                name: column.name.clone(),
                dtype,
            });
        }
        let in_table = |source: IndexError| IndexerError::Index {
            path: self.path.clone(),
            source,
        };
        let mut builder = IndexBuilder::new("/", fields.clone(), block_size).map_err(in_table)?;
        for row in 0..self.rows {
            let extents: Vec<FieldExtent> = columns
                .iter()
                .zip(&fields)
                .map(|(column, field)| FieldExtent {
                    segment: SegmentIndex(0),
                    shape: Vec::new(),
                    storage: Storage::Value {
                        bytes: column.value(row, field.dtype),
                    },
                })
                .collect();
            builder.add_sample(None, &extents, None).map_err(in_table)?;
        }
        Ok(Some(Part {
            rule,
            fields,
            samples: self.rows,
            example: self.path.display().to_string(),
            stems: false,
            files: Vec::new(),
            index: Some(in_memory(builder)?),
        }))
    }

    fn unusable(&self, column: &str, why: &str) -> IndexerError {
        IndexerError::Request(format!(
            "the column `{column}` of `{}` cannot be a field: {why}; leave it out with `--fields`",
            self.path.display()
        ))
    }
}

/// What a row lacks.
enum Missing {
    Sample(String),
    Failed(IndexerError),
}

impl From<IndexerError> for Missing {
    fn from(error: IndexerError) -> Self {
        Self::Failed(error)
    }
}

/// Numbers where a column of text holds numbers; what names samples stays as it is written.
fn typed(column: Column, templates: &[Template]) -> Column {
    if templates
        .iter()
        .any(|template| template.names(&column.name))
    {
        return column;
    }
    Column {
        cells: csv::numbers(column.cells),
        ..column
    }
}

/// The columns of a table, and whether they have no types: Parquet by its first bytes, else text
/// with separators.
fn read(path: &Path) -> Result<(Vec<Column>, bool)> {
    let mut file = File::open(path).map_err(IndexerError::io("open", path))?;
    let mut magic = [0; 4];
    let read =
        std::io::Read::read(&mut file, &mut magic).map_err(IndexerError::io("read", path))?;
    let typed = magic[..read] == *b"PAR1";
    let columns = match typed {
        true => parquet::columns(path)?,
        false => csv::columns(path)?,
    };
    let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok((columns, !typed)),
        Some(pair) => Err(IndexerError::Request(format!(
            "two columns of `{}` are called `{}`: rename one",
            path.display(),
            pair[0]
        ))),
    }
}
