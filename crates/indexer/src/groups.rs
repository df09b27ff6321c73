//! Samples that are groups: walks one HDF5 file by a pattern.

use forebay_dataset::index::FieldSpec;

use crate::error::Result;
use crate::extents::Extents;
use crate::h5::{Array, H5File, Object, ObjectKind, Target};
use crate::scan::{FieldFilter, Schema};
use crate::{IndexerError, glob};

/// Groups inside a sample, and data sets of one sample: more is a file that refers to itself.
const MAX_FIELDS: usize = 4096;
/// Groups inside each other, below a sample.
const MAX_DEPTH: usize = 32;

/// The samples of one file.
#[derive(Debug, Default)]
pub(crate) struct GroupSamples {
    samples: Vec<GroupSample>,
    /// The samples have a position and no key.
    pub(crate) without_keys: bool,
    /// Keys, end to end.
    keys: String,
    pub(crate) schemas: Vec<Schema>,
    pub(crate) extents: Extents,
}

#[derive(Clone, Copy, Debug)]
struct GroupSample {
    key_end: u64,
    first_extent: u64,
    schema: u32,
}

impl GroupSamples {
    /// Samples that have a position and no key.
    pub(crate) fn by_position() -> Self {
        Self {
            without_keys: true,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Key of a sample: what the wildcards of the pattern stand for.
    pub(crate) fn key(&self, sample: usize) -> &str {
        let start = match sample {
            0 => 0,
            _ => self.samples[sample - 1].key_end as usize,
        };
        &self.keys[start..self.samples[sample].key_end as usize]
    }

    /// Position in `schemas` of what a sample holds.
    pub(crate) fn schema(&self, sample: usize) -> usize {
        self.samples[sample].schema as usize
    }

    /// Position of the sample's first extent; the others follow it.
    pub(crate) fn first_extent(&self, sample: usize) -> usize {
        self.samples[sample].first_extent as usize
    }

    /// Kinds of samples so far.
    pub(crate) fn kinds(&self) -> usize {
        self.schemas.len()
    }

    /// Adds a sample of these fields, each with its array.
    pub(crate) fn add(
        &mut self,
        key: &str,
        fields: &[FieldSpec],
        arrays: impl IntoIterator<Item = Array>,
    ) {
        let first_extent = self.extents.len() as u64;
        let schema = self.intern(fields, || key.to_owned());
        for array in arrays {
            self.extents.push(array);
        }
        self.keys.push_str(key);
        self.samples.push(GroupSample {
            key_end: self.keys.len() as u64,
            first_extent,
            schema,
        });
    }

    fn intern(&mut self, fields: &[FieldSpec], example: impl FnOnce() -> String) -> u32 {
        let known = self
            .schemas
            .iter()
            .rposition(|schema| schema.fields == fields);
        let position = known.unwrap_or_else(|| {
            self.schemas.push(Schema {
                fields: fields.to_vec(),
                samples: 0,
                example: example(),
            });
            self.schemas.len() - 1
        });
        self.schemas[position].samples += 1;
        position as u32
    }
}

/// Walks a file.
pub(crate) struct GroupWalk<'a> {
    pub(crate) input: &'a crate::files::InputFile,
    pub(crate) file: &'a H5File,
    pub(crate) parts: &'a [String],
    pub(crate) filter: &'a FieldFilter,
    pub(crate) found: GroupSamples,
    /// Names from the root down to where the walk is.
    path: Vec<String>,
    /// The groups on that path: one that comes again is a circle.
    ancestors: Vec<(u32, u64)>,
    /// Fields and groups of the current sample.
    fields: Vec<FieldSpec>,
    groups: usize,
}

impl<'a> GroupWalk<'a> {
    pub(crate) fn new(
        input: &'a crate::files::InputFile,
        file: &'a H5File,
        parts: &'a [String],
        filter: &'a FieldFilter,
    ) -> Self {
        Self {
            input,
            file,
            parts,
            filter,
            found: GroupSamples::default(),
            path: Vec::new(),
            ancestors: Vec::new(),
            fields: Vec::new(),
            groups: 0,
        }
    }

    /// Finds every sample of the file.
    pub(crate) fn run(mut self) -> Result<GroupSamples> {
        let root = self.within(self.file.object(self.file.root()))?;
        self.descend(&root)?;
        Ok(self.found)
    }

    fn within<T>(&self, result: crate::h5::H5Result<T>) -> Result<T> {
        result.map_err(|error| IndexerError::h5(&self.input.path, &self.path.join("/"))(error))
    }

    fn descend(&mut self, group: &Object) -> Result<()> {
        let Some(part) = self.parts.get(self.path.len()) else {
            return self.sample(group);
        };
        self.ancestors.push(group.identity());
        for link in self.within(self.file.links(group))? {
            if !glob::matches(part, &link.name) {
                continue;
            }
            self.path.push(link.name);
            let child = self.follow(group, &link.target)?;
            if child.kind == ObjectKind::Group && !self.ancestors.contains(&child.identity()) {
                self.descend(&child)?;
            }
            self.path.pop();
        }
        self.ancestors.pop();
        Ok(())
    }

    fn follow(&self, group: &Object, target: &Target) -> Result<Object> {
        match self.within(self.file.follow(group, target))? {
            Some(object) => Ok(object),
            None => Err(IndexerError::Damaged {
                place: format!(
                    "`{}` of `{}`",
                    self.path.join("/"),
                    self.input.path.display()
                ),
                what: "it is a link that leads nowhere".to_owned(),
            }),
        }
    }

    fn sample(&mut self, group: &Object) -> Result<()> {
        let first_extent = self.found.extents.len() as u64;
        self.fields.clear();
        self.groups = 0;
        self.collect(group, &mut String::new(), 0)?;
        let schema = self.found.intern(&self.fields, || self.path.join("/"));
        let start = self.found.keys.len();
        for (part, name) in self.parts.iter().zip(&self.path) {
            if glob::is_literal(part) {
                continue;
            }
            if self.found.keys.len() > start {
                self.found.keys.push('/');
            }
            self.found.keys.push_str(name);
        }
        if self.parts.iter().all(|part| glob::is_literal(part)) {
            self.found.keys.push_str(stem(&self.input.name));
        }
        self.found.samples.push(GroupSample {
            key_end: self.found.keys.len() as u64,
            first_extent,
            schema,
        });
        Ok(())
    }

    /// Adds the data sets below `group`, whose path inside the sample is `prefix`.
    fn collect(&mut self, group: &Object, prefix: &mut String, depth: usize) -> Result<()> {
        self.groups += 1;
        if depth > MAX_DEPTH || self.groups > MAX_FIELDS {
            return self.endless();
        }
        self.ancestors.push(group.identity());
        for link in self.within(self.file.links(group))? {
            let prefix_len = prefix.len();
            prefix.push_str(&link.name);
            // A link that no wanted field can lie behind may lead to what is not supported.
            if self.filter.may_hold(prefix) {
                self.path.push(link.name);
                self.member(group, &link.target, prefix, depth)?;
                self.path.pop();
            }
            prefix.truncate(prefix_len);
        }
        self.ancestors.pop();
        Ok(())
    }

    fn member(
        &mut self,
        group: &Object,
        target: &Target,
        name: &mut String,
        depth: usize,
    ) -> Result<()> {
        let child = self.follow(group, target)?;
        match child.kind {
            ObjectKind::Dataset => {
                let filter = self.filter;
                let keeps = |suffix: &str| filter.keeps_part(name, suffix);
                let parts = self.file.arrays(&child, false, keeps);
                for (suffix, array) in self.within(parts)? {
                    if self.fields.len() == MAX_FIELDS {
                        return self.endless();
                    }
                    self.fields.push(FieldSpec {
                        name: format!("{name}{suffix}"),
                        dtype: array.dtype,
                    });
                    self.found.extents.push(array);
                }
            }
            ObjectKind::Group if !self.ancestors.contains(&child.identity()) => {
                name.push('/');
                self.collect(&child, name, depth + 1)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn endless(&self) -> Result<()> {
        Err(IndexerError::Request(format!(
            "the sample `{}` of `{}` has more than {MAX_FIELDS} data sets or groups, or {MAX_DEPTH} \
             levels of groups: choose groups further down with `--sample`",
            self.path[..self.parts.len().min(self.path.len())].join("/"),
            self.input.path.display()
        )))
    }
}

/// A file's name without its extension.
pub(crate) fn stem(name: &str) -> &str {
    let file_at = name.rfind('/').map_or(0, |slash| slash + 1);
    match name[file_at..].rfind('.') {
        Some(dot) if dot > 0 => &name[..file_at + dot],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stem_keeps_folders_and_hidden_names() {
        assert_eq!(stem("a/b.c/raw.tar.h5"), "a/b.c/raw.tar");
        assert_eq!(stem("a.b/raw"), "a.b/raw");
        assert_eq!(stem(".h5"), ".h5");
    }
}
