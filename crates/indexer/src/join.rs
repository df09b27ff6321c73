//! Puts parts together to the samples of an index: one after another, or joined by key.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::io::{self, Seek, Write};

use forebay_dataset::IndexError;
use forebay_dataset::index::{self, FieldSpec, Pick, Picks};

use crate::assemble::{self, Chosen};
use crate::error::Result;
use crate::files::Inputs;
use crate::parts::{Bytes, Part, damaged};
use crate::{IndexRequest, IndexerError, SampleRule};

/// What is written: samples of parts.
pub(crate) struct Composition {
    pub(crate) root: String,
    pub(crate) fields: Vec<FieldSpec>,
    pub(crate) parts: Vec<Part>,
    pub(crate) order: Order,
    pub(crate) keys: Keys,
}

/// Which samples, in which order.
pub(crate) enum Order {
    /// All samples of the parts, which begin at these positions; the last is the end.
    All(Vec<u64>),
    /// So many picks for each sample.
    Joined(Vec<Pick>, usize),
}

/// What the key of a sample is: that of its first pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    None,
    /// As the rule found it.
    Raw,
    /// With the stem of the file before it, since keys of two files are alike.
    Long,
}

impl Composition {
    /// All samples of one rule.
    pub(crate) fn all(root: String, fields: Vec<FieldSpec>, parts: Vec<Part>) -> Result<Self> {
        let mut starts = vec![0];
        for part in &parts {
            starts.push(starts[starts.len() - 1] + part.samples);
        }
        let mut composition = Self {
            root,
            fields,
            parts,
            order: Order::All(starts),
            keys: Keys::None,
        };
        composition.choose_keys()?;
        Ok(composition)
    }

    /// Keys are long where they would repeat without.
    pub(crate) fn choose_keys(&mut self) -> Result<()> {
        if !self.has_samples_with_keys() {
            self.keys = Keys::None;
            return Ok(());
        }
        self.keys = Keys::Raw;
        let one_file = matches!(&self.order, Order::All(_)) && self.parts.len() == 1;
        if one_file && !self.parts[0].stems {
            return Ok(());
        }
        let mut hashes = Vec::with_capacity(self.len() as usize);
        for sample in 0..self.len() {
            let first = self.first(sample);
            let key = self.parts[first.part as usize].raw_key(first.sample);
            hashes.push(hash(key.map_err(damaged)?));
        }
        hashes.sort_unstable();
        if hashes.windows(2).any(|pair| pair[0] == pair[1]) {
            self.keys = Keys::Long;
        }
        Ok(())
    }

    fn has_samples_with_keys(&self) -> bool {
        !self.is_empty() && self.parts[self.first(0).part as usize].has_keys()
    }

    fn first(&self, sample: u64) -> Pick {
        match &self.order {
            Order::All(starts) => {
                let part = starts.partition_point(|start| *start <= sample) - 1;
                Pick {
                    part: part as u32,
                    sample: sample - starts[part],
                }
            }
            Order::Joined(picks, width) => picks[sample as usize * width],
        }
    }

    pub(crate) fn write(&self, out: &mut (impl Write + Seek)) -> io::Result<()> {
        let parts: Vec<index::Part<'_, Bytes>> = self
            .parts
            .iter()
            .filter_map(|part| part.index.as_ref())
            .map(|index| index::Part { index, prefix: "" })
            .collect();
        index::compose(&self.root, &self.fields, &parts, self, out)
    }
}

impl Picks for Composition {
    fn len(&self) -> u64 {
        match &self.order {
            Order::All(starts) => starts.last().copied().unwrap_or(0),
            Order::Joined(picks, width) => (picks.len() / width) as u64,
        }
    }

    fn has_keys(&self) -> bool {
        self.keys != Keys::None
    }

    fn picks(&self, sample: u64, out: &mut Vec<Pick>) {
        match &self.order {
            Order::All(_) => out.push(self.first(sample)),
            Order::Joined(picks, width) => {
                let at = sample as usize * width;
                out.extend(&picks[at..at + width]);
            }
        }
    }

    fn key(&self, sample: u64, out: &mut String) -> Result<(), IndexError> {
        let first = self.first(sample);
        let part = &self.parts[first.part as usize];
        match self.keys {
            Keys::Long => part.push_long_key(first.sample, out),
            Keys::Raw | Keys::None => {
                out.push_str(part.raw_key(first.sample)?);
                Ok(())
            }
        }
    }
}

/// Where the samples of one rule are, by what is looked for: a key, or the name of a file.
pub(crate) struct Lookup<'a> {
    parts: &'a [Part],
    /// Sorted by hash.
    entries: Vec<(u64, Pick)>,
    by_file: bool,
}

impl<'a> Lookup<'a> {
    /// Of those of `parts` that are of `rule`; by the last name of a sample's file with `by_file`.
    pub(crate) fn new(parts: &'a [Part], rule: usize, by_file: bool) -> Result<Self> {
        let mut lookup = Self {
            parts,
            entries: Vec::new(),
            by_file,
        };
        for (number, part) in (0..).zip(parts) {
            for sample in 0..if part.rule == rule { part.samples } else { 0 } {
                let pick = Pick {
                    part: number,
                    sample,
                };
                let hash = hash(lookup.text(pick)?);
                lookup.entries.push((hash, pick));
            }
        }
        lookup
            .entries
            .sort_unstable_by_key(|(hash, pick)| (*hash, pick.part, pick.sample));
        Ok(lookup)
    }

    fn text(&self, pick: Pick) -> Result<&'a str> {
        let part = &self.parts[pick.part as usize];
        if self.by_file {
            let file = part.file(pick.sample).map_err(damaged)?;
            return Ok(last_name(file));
        }
        part.raw_key(pick.sample).map_err(damaged)
    }

    /// The samples that have this key, or lie in a file of this last name.
    pub(crate) fn all(&self, text: &str) -> Result<Vec<Pick>> {
        let wanted = hash(text);
        let from = self.entries.partition_point(|(hash, _)| *hash < wanted);
        let mut found = Vec::new();
        for (_, pick) in self.entries[from..]
            .iter()
            .take_while(|(hash, _)| *hash == wanted)
        {
            if self.text(*pick)? == text {
                found.push(*pick);
            }
        }
        Ok(found)
    }

    /// Two samples of one key, if there are any.
    fn repeated(&self) -> Result<Option<(Pick, Pick)>> {
        for pair in self.entries.windows(2) {
            if pair[0].0 == pair[1].0 && self.text(pair[0].1)? == self.text(pair[1].1)? {
                return Ok(Some((pair[0].1, pair[1].1)));
            }
        }
        Ok(None)
    }
}

/// Joins the samples of several rules that have one key: those of the first rule, in order.
pub(crate) struct Join<'a> {
    pub(crate) request: &'a IndexRequest,
    pub(crate) inputs: &'a Inputs,
    pub(crate) rules: &'a [SampleRule],
    pub(crate) parts: &'a [Part],
}

impl Join<'_> {
    /// The picks, and how many samples were left out.
    pub(crate) fn run(&self) -> Result<(Vec<Pick>, u64)> {
        let mut lookups = Vec::with_capacity(self.rules.len());
        for rule in 0..self.rules.len() {
            let lookup = Lookup::new(self.parts, rule, false)?;
            if let Some((one, other)) = lookup.repeated()? {
                return Err(IndexerError::Request(format!(
                    "the sample `{}` is in `{}` and in `{}`, so it cannot be joined",
                    self.key(one)?,
                    self.path(one)?,
                    self.path(other)?
                )));
            }
            lookups.push(lookup);
        }
        let mut picks = Vec::new();
        let mut skipped = 0;
        for (number, part) in (0..).zip(self.parts) {
            for sample in 0..if part.rule == 0 { part.samples } else { 0 } {
                let first = Pick {
                    part: number,
                    sample,
                };
                if !self.join(first, &lookups[1..], &mut picks)? {
                    skipped += 1;
                }
            }
        }
        skipped += self.leftover(&lookups)?;
        if picks.is_empty() {
            return Err(IndexerError::Uneven(
                "no sample is complete: check that the sample rules give the same keys".to_owned(),
            ));
        }
        Ok((picks, skipped))
    }

    fn join(&self, first: Pick, others: &[Lookup<'_>], picks: &mut Vec<Pick>) -> Result<bool> {
        let before = picks.len();
        picks.push(first);
        for (rule, lookup) in (1..).zip(others) {
            match lookup.all(self.key(first)?)?.first() {
                Some(partner) => picks.push(*partner),
                None => {
                    picks.truncate(before);
                    return self.without_partner(first, rule);
                }
            }
        }
        Ok(true)
    }

    fn key(&self, pick: Pick) -> Result<&str> {
        let part = &self.parts[pick.part as usize];
        part.raw_key(pick.sample).map_err(damaged)
    }

    fn path(&self, pick: Pick) -> Result<String> {
        let part = &self.parts[pick.part as usize];
        let file = part.file(pick.sample).map_err(damaged)?;
        Ok(self.inputs.root.join(file).display().to_string())
    }

    fn without_partner(&self, pick: Pick, rule: usize) -> Result<bool> {
        if self.request.skip_incomplete {
            return Ok(false);
        }
        Err(IndexerError::Uneven(format!(
            "the sample `{}` of `{}` is not complete: no file of the rule `{}` holds it; leave \
             out such samples with `--skip-incomplete`",
            self.key(pick)?,
            self.path(pick)?,
            self.rules[rule]
        )))
    }

    /// Samples of later rules that no sample of the first was joined with.
    fn leftover(&self, lookups: &[Lookup<'_>]) -> Result<u64> {
        let mut count = 0;
        for lookup in &lookups[1..] {
            let mut least: Option<(&str, Pick)> = None;
            for (_, pick) in &lookup.entries {
                let key = self.key(*pick)?;
                if lookups[0].all(key)?.is_empty() {
                    count += 1;
                    if least.is_none_or(|(known, _)| key < known) {
                        least = Some((key, *pick));
                    }
                }
            }
            // The least, so that the message does not depend on the order of hashes.
            if let Some((_, pick)) = least {
                self.without_partner(pick, 0)?;
            }
        }
        Ok(count)
    }
}

/// The parts that are used of all rules, without the others, and the fields of each rule.
pub(crate) fn chosen(
    request: &IndexRequest,
    inputs: &Inputs,
    parts: Vec<Part>,
    rules: usize,
) -> Result<(Vec<Part>, Vec<Vec<FieldSpec>>, u64)> {
    let mut fields = Vec::with_capacity(rules);
    let mut left_out = 0;
    let mut kept = vec![false; parts.len()];
    for rule in 0..rules {
        let chosen: Chosen<'_> = assemble::choose(request, inputs, &parts, rule)?;
        left_out += chosen.left_out;
        for (kept, part) in kept.iter_mut().zip(&parts) {
            *kept |= chosen.parts.iter().any(|used| std::ptr::eq(*used, part));
        }
        fields.push(chosen.fields);
    }
    let used = parts
        .into_iter()
        .zip(kept)
        .filter_map(|(part, kept)| kept.then_some(part));
    Ok((used.collect(), fields, left_out))
}

pub(crate) fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Only within a run: nothing that is written depends on it.
fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}
