//! All-reduces of one run, put in order.

use std::collections::BTreeMap;
use std::io::BufRead;

use crate::record::lines::{self, count};
use crate::record::{AllReduce, Manifest, Parsed, Phase, Record, RecordError};
use crate::run::{MAX_ITERATIONS, Unread};
use crate::stats::Sorted;

/// All-reduces of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Collectives {
    /// What was run.
    pub manifest: Manifest,
    /// Each tier with each size of message, in the order measured.
    pub contentions: Vec<Contention>,
    /// Remarks by the code that measured.
    pub notes: Vec<String>,
    /// What the files held that was not used.
    pub unread: Unread,
}

/// One tier with one size of message. Both phases may be empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Contention {
    /// Name of the tier.
    pub tier: String,
    /// Bytes that were reduced.
    pub message_bytes: u64,
    /// Ranks that measured.
    pub ranks: usize,
    /// Without I/O.
    pub baseline: Turns,
    /// With the tier's I/O.
    pub loaded: Turns,
    /// Every wait of every rank for its loader, in seconds.
    pub waits: Vec<f64>,
    /// Bytes of samples that were taken.
    pub read_bytes: u64,
    /// Iterations that not all ranks measured, which are not used.
    pub incomplete: usize,
}

/// Seconds of every all-reduce of a phase by round, in the order measured: from when its last rank
/// came. That rank waited for no other, so its time is the shortest that any rank measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turns(Vec<Vec<f64>>);

impl Turns {
    /// Takes finite, positive seconds by round.
    #[must_use]
    pub fn new(rounds: Vec<Vec<f64>>) -> Self {
        Self(rounds)
    }

    /// Each round.
    #[must_use]
    pub fn rounds(&self) -> &[Vec<f64>] {
        &self.0
    }

    /// Every value.
    #[must_use]
    pub fn all(&self) -> Vec<f64> {
        self.0.iter().flatten().copied().collect()
    }

    /// Number of values.
    #[must_use]
    pub fn n(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Every value in order; `None` without one.
    #[must_use]
    pub fn sorted(&self) -> Option<Sorted> {
        Sorted::new(self.0.iter().flatten().copied()).ok()
    }

    /// How much the rounds differ: the greatest of their medians over the least. `None` for
    /// fewer than two rounds.
    #[must_use]
    pub fn drift(&self) -> Option<f64> {
        self.greatest_over_least(Sorted::median)
    }

    /// The same for the longest value of each round.
    #[must_use]
    pub fn drift_of_max(&self) -> Option<f64> {
        self.greatest_over_least(Sorted::max)
    }

    fn greatest_over_least(&self, of: fn(&Sorted) -> f64) -> Option<f64> {
        let rounds = self.0.iter().filter(|round| !round.is_empty());
        let values: Vec<f64> = rounds
            .filter_map(|round| Some(of(&Sorted::new(round.iter().copied()).ok()?)))
            .collect();
        let least = values.iter().copied().reduce(f64::min)?;
        let greatest = values.iter().copied().reduce(f64::max)?;
        (values.len() > 1 && least > 0.0).then(|| greatest / least)
    }
}

/// Reads the files of one run, one of each rank.
#[derive(Default)]
pub(super) struct Reader {
    has_manifest: bool,
    manifest: Option<Manifest>,
    /// By tier and size, in the order of their first record.
    places: Vec<(String, u64)>,
    values: Vec<Values>,
    records: usize,
    lines: u64,
    notes: Vec<String>,
    unread: Unread,
}

/// Phase, round, iteration.
type Key = (Phase, u32, u64);

#[derive(Default)]
struct Values {
    /// Seconds of each rank.
    seconds: BTreeMap<Key, BTreeMap<u32, f64>>,
    waits: Vec<f64>,
    read_bytes: u64,
}

impl Reader {
    /// Reads one more file.
    ///
    /// # Errors
    /// The first line that breaks a rule, by number; a file with no manifest.
    pub(super) fn read(&mut self, records: impl BufRead) -> Result<(), RecordError> {
        self.has_manifest = false;
        self.lines += lines::each(records, |parsed, line| self.add(parsed, line))?;
        if self.has_manifest {
            Ok(())
        } else {
            Err(RecordError::Empty)
        }
    }

    fn add(&mut self, parsed: Parsed, line: u64) -> Result<(), RecordError> {
        let is_manifest = matches!(parsed, Parsed::Known(Record::Manifest(_), _));
        if !self.has_manifest && !is_manifest {
            return Err(RecordError::NoManifest { line });
        }
        let (record, unknown) = match parsed {
            Parsed::Known(record, unknown) => (record, unknown),
            Parsed::Unknown(kind) => {
                count(&mut self.unread.kinds, &kind);
                return Ok(());
            }
        };
        let kind = record.kind();
        match record {
            Record::Manifest(manifest) => {
                if std::mem::replace(&mut self.has_manifest, true) {
                    let what = "the `manifest`".into();
                    return Err(RecordError::Duplicate { line, what });
                }
                self.manifest.get_or_insert(manifest);
            }
            Record::AllReduce(one) => self.add_one(one, line)?,
            // What a tier is, each rank says.
            Record::Note(note) if self.notes.contains(&note.text) => {}
            Record::Note(note) => self.unread.keep(&mut self.notes, note.text),
            Record::Iteration(_) | Record::Epoch(_) | Record::Io(_) | Record::Execution(_) => {
                count(&mut self.unread.others, kind);
            }
        }
        for field in unknown {
            count(&mut self.unread.fields, &format!("{kind}.{field}"));
        }
        Ok(())
    }

    fn add_one(&mut self, one: AllReduce, line: u64) -> Result<(), RecordError> {
        if self.records == MAX_ITERATIONS {
            let (limit, what) = (MAX_ITERATIONS, "all-reduces");
            return Err(RecordError::TooMany { line, limit, what });
        }
        self.records += 1;
        let key = (one.tier, one.message_bytes);
        let place = self.places.iter().position(|known| *known == key);
        let place = place.unwrap_or_else(|| {
            self.places.push(key);
            self.values.push(Values::default());
            self.places.len() - 1
        });
        let values = &mut self.values[place];
        let ranks = (values.seconds)
            .entry((one.phase, one.round, one.iteration))
            .or_default();
        if ranks.insert(one.rank, one.seconds).is_some() {
            let (tier, message) = &self.places[place];
            let what = format!(
                "iteration {} of round {} on rank {}, tier `{tier}`, {message} bytes",
                one.iteration, one.round, one.rank
            );
            return Err(RecordError::Duplicate { line, what });
        }
        values.waits.extend(one.wait_s);
        let more = one.read_bytes.unwrap_or(0);
        values.read_bytes = values.read_bytes.saturating_add(more);
        Ok(())
    }

    /// The run.
    ///
    /// # Errors
    /// No file, or none with an all-reduce.
    pub(super) fn finish(self) -> Result<Collectives, RecordError> {
        let Some(manifest) = self.manifest else {
            return Err(RecordError::Empty);
        };
        if self.records == 0 {
            return Err(RecordError::NoIterations { lines: self.lines });
        }
        let places = self.places.into_iter().zip(self.values);
        Ok(Collectives {
            manifest,
            contentions: places
                .map(|(place, values)| ordered(place, values))
                .collect(),
            notes: self.notes,
            unread: self.unread,
        })
    }
}

fn ordered((tier, message_bytes): (String, u64), values: Values) -> Contention {
    let ranks = values.seconds.values().map(BTreeMap::len).max();
    let ranks = ranks.unwrap_or(0);
    let mut incomplete = 0;
    let mut phases: BTreeMap<Phase, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
    for ((phase, round, _), seconds) in &values.seconds {
        if seconds.len() < ranks {
            incomplete += 1;
            continue;
        }
        let of_last = seconds.values().copied().fold(f64::MAX, f64::min);
        let rounds = phases.entry(*phase).or_default();
        rounds.entry(*round).or_default().push(of_last);
    }
    let mut turns = |phase| {
        let rounds = phases.remove(&phase).unwrap_or_default();
        Turns(rounds.into_values().collect())
    };
    Contention {
        tier,
        message_bytes,
        ranks,
        baseline: turns(Phase::Baseline),
        loaded: turns(Phase::Loaded),
        waits: values.waits,
        read_bytes: values.read_bytes,
        incomplete,
    }
}
