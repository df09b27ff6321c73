//! Parameters of benchmarks: what each is, read from text or from a configuration, checked once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::{BenchError, Result};

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Count,
    /// Bytes: a number, or one with a unit as in `4KiB`, `1M`, `2GiB`.
    Size,
    /// Several sizes, parted by commas.
    Sizes,
    /// A number.
    Number,
    /// `true` or `false`.
    Flag,
    /// Any text; may be empty.
    Text,
    /// A file or folder; empty: none.
    Path,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// One parameter of a benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name, in words joined by `_`.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Its value where none is given, as it would be written.
    pub default: &'static str,
    /// What it is, in one line.
    pub help: &'static str,
}

impl Param {
    /// A parameter.
    #[must_use]
    pub const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            default,
            help,
        }
    }

    /// Reads a value as it is written on a command line.
    ///
    /// # Errors
    /// [`BenchError::Usage`] names the parameter, the value and what is wanted.
    pub fn parse(&self, text: &str) -> Result<Value> {
        let text = text.trim();
        let value = match self.kind {
            Kind::Count => text.parse::<u64>().ok().map(Value::from),
            Kind::Size => size(text).map(Value::from),
            Kind::Sizes => text
                .split(',')
                .map(size)
                .collect::<Option<Vec<u64>>>()
                .map(Value::from),
            Kind::Number => number(text).map(Value::from),
            Kind::Flag => text.parse::<bool>().ok().map(Value::from),
            Kind::Text | Kind::Path => Some(Value::from(text)),
            Kind::Choice(words) => words.contains(&text).then(|| Value::from(text)),
        };
        value.ok_or_else(|| self.wrong(text))
    }

    /// Checks a value of a configuration.
    ///
    /// # Errors
    /// As [`Param::parse`].
    pub fn check(&self, value: &Value) -> Result<Value> {
        let wrong = || self.wrong(&value.to_string());
        match (self.kind, value) {
            (_, Value::String(text)) => self.parse(text),
            (Kind::Count | Kind::Size, Value::Number(number)) => {
                number.as_u64().map(Value::from).ok_or_else(wrong)
            }
            (Kind::Number, Value::Number(number)) => {
                number.as_f64().map(Value::from).ok_or_else(wrong)
            }
            (Kind::Flag, Value::Bool(_)) => Ok(value.clone()),
            (Kind::Sizes, Value::Number(_)) => self.check(&Value::from(vec![value.clone()])),
            (Kind::Sizes, Value::Array(list)) => {
                let one = |value: &Value| match value {
                    Value::String(text) => size(text),
                    other => other.as_u64(),
                };
                let sizes: Option<Vec<u64>> = list.iter().map(one).collect();
                sizes.map(Value::from).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    fn wrong(&self, found: &str) -> BenchError {
        let wanted = match self.kind {
            Kind::Count => "a whole number".to_owned(),
            Kind::Size => "bytes, as in `4096` or `4KiB`".to_owned(),
            Kind::Sizes => "sizes parted by commas, as in `8KiB,1MiB`".to_owned(),
            Kind::Number => "a finite number".to_owned(),
            Kind::Flag => "`true` or `false`".to_owned(),
            Kind::Text | Kind::Path => "text".to_owned(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
        };
        BenchError::Usage(format!("`{}` must be {wanted}: `{found}`", self.name))
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

/// Bytes with an optional unit. A unit of one letter is a power of 1024, as fio has it.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "K" | "k" | "KiB" => 1 << 10,
        "M" | "m" | "MiB" => 1 << 20,
        "G" | "g" | "GiB" => 1 << 30,
        "T" | "t" | "TiB" => 1 << 40,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Every parameter of a benchmark with its value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(Map<String, Value>);

impl Params {
    /// Values for all of `known`: those given, else the defaults.
    ///
    /// # Errors
    /// [`BenchError::Usage`] for a value that does not fit, and for a name that is not known.
    pub fn resolve(known: &[Param], given: &Map<String, Value>) -> Result<Self> {
        let names: BTreeMap<&str, &Param> = known.iter().map(|param| (param.name, param)).collect();
        if let Some(name) = given.keys().find(|name| !names.contains_key(name.as_str())) {
            let names: Vec<&str> = known.iter().map(|param| param.name).collect();
            return Err(BenchError::Usage(format!(
                "there is no parameter `{name}`: there are {}",
                names.join(", ")
            )));
        }
        let mut values = Map::new();
        for param in known {
            let value = match given.get(param.name) {
                Some(value) => param.check(value)?,
                None => param.parse(param.default)?,
            };
            values.insert(param.name.to_owned(), value);
        }
        Ok(Self(values))
    }

    /// Values as they stand, of a benchmark that another program checks.
    #[must_use]
    pub fn unchecked(values: Map<String, Value>) -> Self {
        Self(values)
    }

    /// All values.
    #[must_use]
    pub fn values(&self) -> &Map<String, Value> {
        &self.0
    }

    fn get<'a, T>(&'a self, name: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<T> {
        let found = self.0.get(name).and_then(read);
        found.ok_or_else(|| BenchError::Usage(format!("parameter `{name}` is missing")))
    }

    /// A whole number, or bytes.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if there is none of this name; so for all of these.
    pub fn count(&self, name: &str) -> Result<u64> {
        self.get(name, Value::as_u64)
    }

    /// A whole number that must not be 0.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if it is.
    pub fn positive(&self, name: &str) -> Result<u64> {
        match self.count(name)? {
            0 => Err(BenchError::Usage(format!("`{name}` must be at least 1: 0"))),
            count => Ok(count),
        }
    }

    /// Several sizes.
    ///
    /// # Errors
    /// As [`Params::count`].
    pub fn sizes(&self, name: &str) -> Result<Vec<u64>> {
        self.get(name, |value| {
            value.as_array()?.iter().map(Value::as_u64).collect()
        })
    }

    /// A number.
    ///
    /// # Errors
    /// As [`Params::count`].
    pub fn number(&self, name: &str) -> Result<f64> {
        self.get(name, Value::as_f64)
    }

    /// A flag.
    ///
    /// # Errors
    /// As [`Params::count`].
    pub fn flag(&self, name: &str) -> Result<bool> {
        self.get(name, Value::as_bool)
    }

    /// Text, or the word of a choice.
    ///
    /// # Errors
    /// As [`Params::count`].
    pub fn text(&self, name: &str) -> Result<&str> {
        self.get(name, Value::as_str)
    }

    /// A path, if one is given.
    ///
    /// # Errors
    /// As [`Params::count`].
    pub fn path(&self, name: &str) -> Result<Option<PathBuf>> {
        let text = self.text(name)?;
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Param] = &[
        Param::new("num_copies", Kind::Count, "10", "files"),
        Param::new("file_size", Kind::Size, "4KiB", "bytes of each"),
        Param::new("sizes", Kind::Sizes, "8KiB,1M", "sizes"),
        Param::new("rate", Kind::Number, "1.5", "files a second"),
        Param::new(
            "pattern",
            Kind::Choice(&["sequential", "random"]),
            "random",
            "order",
        ),
    ];

    fn given(json: &str) -> Map<String, Value> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn defaults_stand_where_nothing_is_given() {
        let params = Params::resolve(KNOWN, &Map::new()).unwrap();
        assert_eq!(params.count("num_copies").unwrap(), 10);
        assert_eq!(params.count("file_size").unwrap(), 4096);
        assert_eq!(params.sizes("sizes").unwrap(), [8192, 1 << 20]);
        assert_eq!(params.text("pattern").unwrap(), "random");
    }

    #[test]
    fn text_of_a_command_line_and_values_of_a_file_mean_the_same() {
        let text = given(r#"{"num_copies":"7","file_size":"1KiB","sizes":"1,2","rate":"2"}"#);
        let typed = given(r#"{"num_copies":7,"file_size":1024,"sizes":[1,2],"rate":2}"#);
        assert_eq!(
            Params::resolve(KNOWN, &text).unwrap(),
            Params::resolve(KNOWN, &typed).unwrap()
        );
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        for (json, said) in [
            (
                r#"{"num_copy":1}"#,
                "there is no parameter `num_copy`: there are num_copies, file_size, sizes, rate, pattern",
            ),
            (
                r#"{"num_copies":-1}"#,
                "`num_copies` must be a whole number: `-1`",
            ),
            (
                r#"{"file_size":"4QiB"}"#,
                "`file_size` must be bytes, as in `4096` or `4KiB`: `4QiB`",
            ),
            (
                r#"{"file_size":"99999999999G"}"#,
                "`file_size` must be bytes, as in `4096` or `4KiB`: `99999999999G`",
            ),
            (r#"{"rate":"nan"}"#, "`rate` must be a finite number: `nan`"),
            (
                r#"{"pattern":"zigzag"}"#,
                "`pattern` must be one of sequential, random: `zigzag`",
            ),
        ] {
            let error = Params::resolve(KNOWN, &given(json)).unwrap_err();
            assert_eq!(error.to_string(), said);
        }
    }
}
