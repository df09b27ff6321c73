//! Configurations of the DLIO benchmark, as far as both know an option.

use serde_json::Value;

use crate::format::Shape;
use crate::settings::{Compute, DataSet};
use crate::{Format, Result, Shuffle, SweepError, SweepSettings};

/// A configuration file is refused beyond this, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// What a configuration says.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Settings, with the defaults of DLIO where the file is silent.
    pub settings: SweepSettings,
    /// The accelerator utilisation that a run must have, from 0 to 1.
    pub goal: Option<f64>,
    /// Options that this benchmark does not know, as `section.name`.
    pub ignored: Vec<String>,
}

/// Reads the YAML text of a DLIO workload.
///
/// # Errors
/// [`SweepError::Config`] for text that is no YAML mapping, and for an option whose value cannot
/// be used.
pub fn read(text: &str) -> Result<Config> {
    if text.len() > MAX_BYTES {
        return Err(SweepError::Config(format!(
            "it has {} bytes, at most {MAX_BYTES}",
            text.len()
        )));
    }
    let value: Value =
        serde_saphyr::from_str(text).map_err(|error| SweepError::Config(error.to_string()))?;
    let Value::Object(sections) = value else {
        return Err(SweepError::Config("it is no mapping of sections".into()));
    };
    let mut options = Options::new(sections);
    // DLIO's own defaults, where they differ.
    let mut settings = SweepSettings {
        epochs: 1,
        batch: 1,
        seed: 123,
        ..SweepSettings::default()
    };
    let data_set = data_set(&mut options)?;
    settings.data_sets = vec![data_set];
    settings.batch = options
        .count("reader.batch_size")?
        .unwrap_or(settings.batch);
    settings.threads = options
        .count("reader.read_threads")?
        .unwrap_or(settings.threads)
        .max(1);
    settings.prefetch = options
        .count("reader.prefetch_size")?
        .unwrap_or(settings.prefetch);
    if let Some(bytes) = options.count("reader.transfer_size")? {
        settings.transfer_bytes = u64::from(bytes);
    }
    settings.shuffle = match options.text("reader.file_shuffle")?.as_deref() {
        None | Some("off" | "false") => Shuffle::None,
        Some("seed" | "random") => Shuffle::Global,
        Some(other) => return Err(wrong("reader.file_shuffle", other, "off, seed or random")),
    };
    settings.epochs = options.count("train.epochs")?.unwrap_or(settings.epochs);
    settings.seed = options
        .count("train.seed")?
        .map_or(settings.seed, u64::from);
    settings.compute = compute(&mut options)?;
    let goal = options.number("metric.au")?;
    Ok(Config {
        settings,
        goal,
        ignored: options.rest(),
    })
}

fn data_set(options: &mut Options) -> Result<DataSet> {
    let format = match options.text("dataset.format")?.as_deref() {
        None | Some("tfrecord") => Format::Tfrecord,
        Some("npz") => Format::Npz,
        Some("hdf5") => Format::Hdf5,
        Some("raw") => Format::Raw,
        Some(other) => {
            return Err(wrong("dataset.format", other, "tfrecord, npz, hdf5 or raw"));
        }
    };
    let files = options.count("dataset.num_files_train")?;
    let files =
        files.ok_or_else(|| SweepError::Config("`dataset.num_files_train` is missing".into()))?;
    let samples = options.count("dataset.num_samples_per_file")?.unwrap_or(1);
    let bytes = match options.number("dataset.record_length_bytes")? {
        Some(bytes) => Some(bytes),
        None => options.number("dataset.record_length")?,
    };
    let name = options
        .text("model.name")?
        .or(options.text("model")?)
        .unwrap_or_else(|| "dlio".into());
    let fits = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') {
            c
        } else {
            '-'
        }
    };
    Ok(DataSet {
        name: name.chars().take(64).map(fits).collect(),
        files,
        shape: Shape {
            format,
            samples,
            sample_bytes: bytes.unwrap_or(65_536.0) as u64,
        },
        batch: None,
    })
}

/// A number, or a mean and a deviation.
fn compute(options: &mut Options) -> Result<Compute> {
    const NAME: &str = "train.computation_time";
    let wanted = "a number of seconds, or `mean` and `stdev`";
    match options.take(NAME) {
        None => Ok(Compute::default()),
        Some(Value::Number(number)) => Ok(Compute {
            mean_s: number.as_f64().unwrap_or(f64::NAN),
            deviation_s: 0.0,
        }),
        Some(Value::Object(fields)) => {
            let number = |name: &str| fields.get(name).and_then(Value::as_f64);
            let kind = fields.get("type").and_then(Value::as_str);
            let mean_s = number("mean").ok_or_else(|| wrong(NAME, "no `mean`", wanted))?;
            if !matches!(kind, None | Some("normal")) {
                return Err(wrong(
                    NAME,
                    kind.unwrap_or_default(),
                    "a normal distribution",
                ));
            }
            Ok(Compute {
                mean_s,
                deviation_s: number("stdev").unwrap_or(0.0),
            })
        }
        Some(other) => Err(wrong(NAME, &other.to_string(), wanted)),
    }
}

fn wrong(name: &str, found: &str, wanted: &str) -> SweepError {
    SweepError::Config(format!("`{name}` must be {wanted}: `{found}`"))
}

/// Options by section; those that were asked for are taken out.
struct Options(serde_json::Map<String, Value>);

impl Options {
    fn new(sections: serde_json::Map<String, Value>) -> Self {
        Self(sections)
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let found = match name.split_once('.') {
            None if self.0.get(name).is_some_and(Value::is_object) => None,
            None => self.0.remove(name),
            Some((section, option)) => self.0.get_mut(section)?.as_object_mut()?.remove(option),
        };
        found.filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            // YAML 1.1 reads `off` as false.
            Some(Value::Bool(value)) => Ok(Some(value.to_string())),
            Some(other) => Err(wrong(name, &other.to_string(), "a text")),
        }
    }

    fn number(&mut self, name: &str) -> Result<Option<f64>> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => match value.as_f64().filter(|number| (0.0..1e15).contains(number)) {
                Some(number) => Ok(Some(number)),
                None => Err(wrong(name, &value.to_string(), "a number, 0 or more")),
            },
        }
    }

    fn count(&mut self, name: &str) -> Result<Option<u32>> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
                Some(number) => Ok(Some(number)),
                None => Err(wrong(name, &value.to_string(), "a whole number below 2^32")),
            },
        }
    }

    fn rest(self) -> Vec<String> {
        let name = |(section, value): (String, Value)| match value {
            Value::Object(options) => options
                .keys()
                .map(|option| format!("{section}.{option}"))
                .collect(),
            _ => vec![section],
        };
        self.0.into_iter().flat_map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNET: &str = "
model:
  name: unet3d
  type: cnn
framework: pytorch
workflow:
  generate_data: False
  train: True
dataset:
  data_folder: data/unet3d/
  format: npz
  num_files_train: 168
  num_samples_per_file: 1
  record_length_bytes: 146600628
  record_length_bytes_stdev: 68341808
reader:
  batch_size: 7
  read_threads: 4
  file_shuffle: seed
  sample_shuffle: seed
train:
  epochs: 5
  computation_time: 0.323
metric:
  au: 0.90
";

    #[test]
    fn options_that_both_know_are_taken_and_others_listed() {
        let config = read(UNET).expect("sound");
        let settings = &config.settings;
        let set = &settings.data_sets[0];
        assert_eq!(
            (set.name.as_str(), set.files, set.shape.format),
            ("unet3d", 168, Format::Npz)
        );
        assert_eq!(
            (set.shape.samples, set.shape.sample_bytes),
            (1, 146_600_628)
        );
        assert_eq!(
            (settings.batch, settings.threads, settings.epochs),
            (7, 4, 5)
        );
        assert_eq!(
            (settings.prefetch, settings.seed, settings.shuffle),
            (2, 123, Shuffle::Global)
        );
        assert_eq!((settings.compute.mean_s, config.goal), (0.323, Some(0.90)));
        assert_eq!(
            config.ignored,
            [
                "dataset.data_folder",
                "dataset.record_length_bytes_stdev",
                "framework",
                "model.type",
                "reader.sample_shuffle",
                "workflow.generate_data",
                "workflow.train",
            ]
        );
        assert!(config.settings.resolve(4).is_ok());
    }

    #[test]
    fn compute_times_may_scatter_and_shuffles_may_be_off() {
        let text = "{dataset: {num_files_train: 8}, reader: {file_shuffle: off}, train: {computation_time: {mean: 0.1, stdev: 0.01, type: normal}}}";
        let config = read(text).expect("sound");
        assert_eq!(
            config.settings.compute,
            Compute {
                mean_s: 0.1,
                deviation_s: 0.01
            }
        );
        assert_eq!(config.settings.shuffle, Shuffle::None);
        assert_eq!(config.settings.data_sets[0].name, "dlio");
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let refused = |text: &str| read(text).unwrap_err().to_string();
        assert!(refused("dataset: {format: npz}").contains("`dataset.num_files_train` is missing"));
        assert!(
            refused("dataset: {format: jpeg, num_files_train: 1}")
                .contains("tfrecord, npz, hdf5 or raw: `jpeg`")
        );
        assert!(
            refused("dataset: {num_files_train: -1}").contains("`dataset.num_files_train` must be")
        );
        assert!(
            refused("train: {epochs: many}\ndataset: {num_files_train: 1}")
                .contains("`train.epochs`")
        );
        assert!(refused("- 1\n- 2").contains("no mapping"));
        assert!(refused("a: [").contains("cannot read the configuration"));
    }
}
