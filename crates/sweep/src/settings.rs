//! Settings are what was written; a sweep is what will run.

use serde::{Deserialize, Serialize};

use crate::format::{MAX_FILE_BYTES, MIN_SAMPLE_BYTES, Shape};
use crate::{Format, Result, Shuffle, SweepError};

/// The most files of one data set.
pub const MAX_FILES: u32 = 10_000_000;
/// The most setups, rates and epochs together.
const MAX_RUNS: usize = 100_000;

/// A data set to make and read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSet {
    /// Its name: a part of its folder's name and, with the state of the tiers, of the setup's.
    pub name: String,
    /// Files.
    pub files: u32,
    /// What each looks like.
    pub shape: Shape,
    /// Samples of a batch, where it has one of its own.
    pub batch: Option<u32>,
}

impl DataSet {
    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.files) * self.shape.file_bytes()
    }
}

/// Time that a step computes, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compute {
    /// Mean.
    pub mean_s: f64,
    /// Standard deviation; a draw below 0 counts as 0.
    pub deviation_s: f64,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepSettings {
    /// The data sets.
    pub data_sets: Vec<DataSet>,
    /// What the tiers are, in a word: a part of each setup's name. Empty: nothing to say.
    pub state: String,
    /// Cache rates, in percent.
    pub rates: Vec<f64>,
    /// Epochs at each rate.
    pub epochs: u32,
    /// The order of an epoch.
    pub shuffle: Shuffle,
    /// Samples of a batch.
    pub batch: u32,
    /// Batches that are loaded ahead of the one computed; 0: none.
    pub prefetch: u32,
    /// Threads of each process that read.
    pub threads: u32,
    /// Time of a step.
    pub compute: Compute,
    /// Bytes asked for by one read.
    pub transfer_bytes: u64,
    /// Every order, draw and file follows from it.
    pub seed: u64,
    /// Leave files in the page cache.
    pub keep_page_cache: bool,
}

impl Default for SweepSettings {
    /// Every 5 %, 3 epochs, global shuffle, batches of 12, 2 batches ahead, one thread, no compute
    /// time, reads of 1 MiB.
    fn default() -> Self {
        Self {
            data_sets: Vec::new(),
            state: String::new(),
            rates: (0..=20).map(|step| f64::from(step) * 5.0).collect(),
            epochs: 3,
            shuffle: Shuffle::Global,
            batch: 12,
            prefetch: 2,
            threads: 1,
            compute: Compute::default(),
            transfer_bytes: 1 << 20,
            seed: 1,
            keep_page_cache: false,
        }
    }
}

/// A sweep that can be run. It exists only if every rule holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep(SweepSettings);

impl Sweep {
    /// The settings, which hold.
    #[must_use]
    pub fn settings(&self) -> &SweepSettings {
        &self.0
    }

    /// The name of a data set's setup.
    #[must_use]
    pub fn setup(&self, data_set: &DataSet) -> String {
        match self.0.state.as_str() {
            "" => data_set.name.clone(),
            state => format!("{}, {state}", data_set.name),
        }
    }

    /// The greatest cache rate, in percent: what the local tier must hold.
    #[must_use]
    pub fn most_cached(&self) -> f64 {
        self.0.rates.iter().copied().fold(0.0, f64::max)
    }

    /// Samples of a batch of a data set.
    #[must_use]
    pub fn batch(&self, data_set: &DataSet) -> u32 {
        data_set.batch.unwrap_or(self.0.batch)
    }
}

impl SweepSettings {
    /// Checks every rule for a job of `size` processes. Rates are put in order.
    ///
    /// # Errors
    /// [`SweepError::Settings`] with each rule that does not hold.
    pub fn resolve(mut self, size: u32) -> Result<Sweep> {
        let mut broken = Vec::new();
        let mut rule = |holds: bool, text: String| {
            if !holds {
                broken.push(text);
            }
        };
        rule(
            !self.data_sets.is_empty(),
            "name at least one data set with `--set`".into(),
        );
        rule(size > 0, "a job has at least one process".into());
        for (place, set) in self.data_sets.iter().enumerate() {
            check_set(set, size, &mut rule);
            let is_twice = self.data_sets[..place]
                .iter()
                .any(|other| other.name == set.name);
            rule(!is_twice, format!("data set `{}` is named twice", set.name));
        }
        rule(
            !self.rates.is_empty(),
            "name at least one cache rate".into(),
        );
        for rate in &self.rates {
            rule(
                (0.0..=100.0).contains(rate),
                format!("a cache rate is from 0 to 100: {rate}"),
            );
        }
        rule(
            self.state.len() <= 200,
            "the state's name has at most 200 bytes".into(),
        );
        let mut count = |name: &str, value: u64, least: u64, most: u64| {
            let holds = (least..=most).contains(&value);
            rule(
                holds,
                format!("`{name}` must be {least} to {most}: {value}"),
            );
        };
        count("epochs", u64::from(self.epochs), 1, 10_000);
        count("batch", u64::from(self.batch), 1, 1 << 20);
        count("prefetch", u64::from(self.prefetch), 0, 1_024);
        count("threads", u64::from(self.threads), 1, 256);
        count("transfer", self.transfer_bytes, 512, 1 << 30);
        let Compute {
            mean_s,
            deviation_s,
        } = self.compute;
        let sound = (0.0..=3_600.0).contains(&mean_s) && (0.0..=3_600.0).contains(&deviation_s);
        rule(
            sound,
            format!("the compute time must be 0 to 3600 s: {mean_s} and {deviation_s}"),
        );
        let runs = self.data_sets.len() * self.rates.len() * self.epochs as usize;
        rule(
            runs <= MAX_RUNS,
            format!("at most {MAX_RUNS} epochs in all: {runs}"),
        );
        if !broken.is_empty() {
            return Err(SweepError::Settings(broken));
        }
        self.rates.sort_by(f64::total_cmp);
        self.rates.dedup();
        Ok(Sweep(self))
    }
}

fn check_set(set: &DataSet, size: u32, rule: &mut impl FnMut(bool, String)) {
    let (name, shape) = (&set.name, set.shape);
    let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    let sized = (1..=64).contains(&name.len());
    rule(
        sized && name.bytes().all(fits),
        format!("a data set's name has 1 to 64 letters, digits, `-` or `_`: `{name}`"),
    );
    let files = (size.max(1)..=MAX_FILES).contains(&set.files);
    rule(
        files,
        format!(
            "data set `{name}` must have a file for each of {size} processes, at most {MAX_FILES}: {}",
            set.files
        ),
    );
    let samples = (1..=1 << 20).contains(&shape.samples);
    rule(
        samples,
        format!(
            "data set `{name}` must have 1 to 1048576 samples in a file: {}",
            shape.samples
        ),
    );
    let bytes = (MIN_SAMPLE_BYTES..MAX_FILE_BYTES).contains(&shape.sample_bytes);
    rule(
        bytes && samples && shape.file_bytes() <= MAX_FILE_BYTES,
        format!(
            "data set `{name}` must have samples of at least {MIN_SAMPLE_BYTES} bytes and files of at most {MAX_FILE_BYTES}: {} samples of {}",
            shape.samples, shape.sample_bytes
        ),
    );
    let batch = set.batch.is_none_or(|batch| (1..=1 << 20).contains(&batch));
    rule(
        batch,
        format!("the batch of data set `{name}` must be 1 to 1048576"),
    );
}

/// `NAME:FILES:BYTES`, with `:SAMPLES` and `:BATCH` where wanted, as a data set.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_set(
    text: &str,
    format: Format,
    bytes: impl Fn(&str) -> Option<u64>,
) -> std::result::Result<DataSet, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let wanted = "write it as NAME:FILES:BYTES, as in `small:4096:128KiB`, and then :SAMPLES in a file and :BATCH";
    let [name, files, sample_bytes, more @ ..] = parts.as_slice() else {
        return Err(wanted.into());
    };
    let number = |text: &str| {
        text.trim()
            .parse::<u32>()
            .map_err(|_| format!("`{text}` is no number: {wanted}"))
    };
    let (samples, batch) = match more {
        [] => (1, None),
        [samples] => (number(samples)?, None),
        [samples, batch] => (number(samples)?, Some(number(batch)?)),
        _ => return Err(wanted.into()),
    };
    let size = || format!("`{sample_bytes}` is no size: {wanted}");
    Ok(DataSet {
        name: (*name).to_owned(),
        files: number(files)?,
        shape: Shape {
            format,
            samples,
            sample_bytes: bytes(sample_bytes).ok_or_else(size)?,
        },
        batch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> DataSet {
        parse_set(text, Format::Raw, |text| text.parse().ok()).expect("sound")
    }

    #[test]
    fn every_broken_rule_is_reported_at_once() {
        let settings = SweepSettings {
            data_sets: vec![set("a:3:8"), set("a:10:64:0"), set("b/:10:64")],
            rates: vec![0.0, 101.0],
            epochs: 0,
            ..SweepSettings::default()
        };
        let Err(SweepError::Settings(broken)) = settings.resolve(4) else {
            panic!("it was accepted");
        };
        assert_eq!(broken.len(), 8, "{broken:#?}");
        assert_eq!(
            broken[0],
            "data set `a` must have a file for each of 4 processes, at most 10000000: 3"
        );
        assert_eq!(broken[7], "`epochs` must be 1 to 10000: 0");
    }

    #[test]
    fn rates_are_in_order_and_once() {
        let settings = SweepSettings {
            data_sets: vec![set("a:8:64")],
            rates: vec![50.0, 0.0, 50.0],
            state: "fast".into(),
            ..SweepSettings::default()
        };
        let sweep = settings.resolve(4).expect("sound");
        assert_eq!(sweep.settings().rates, [0.0, 50.0]);
        assert_eq!(
            (sweep.most_cached(), sweep.setup(&set("a:8:64")).as_str()),
            (50.0, "a, fast")
        );
    }

    #[test]
    fn a_data_set_is_written_in_one_word() {
        assert_eq!(set("small:4096:1024").shape.samples, 1);
        let full = set("x:2:64:3:4");
        assert_eq!(
            (full.files, full.shape.samples, full.batch),
            (2, 3, Some(4))
        );
        for wrong in [
            "small",
            "small:4096",
            "small:x:64",
            "small:1:big",
            "a:1:64:1:1:1",
        ] {
            assert!(
                parse_set(wrong, Format::Raw, |text| text.parse().ok()).is_err(),
                "{wrong}"
            );
        }
    }
}
