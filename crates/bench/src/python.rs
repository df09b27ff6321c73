//! The Python half of the suite: which interpreter, and what it knows.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{BenchError, Result, Stop, program};

/// The interpreter: `FOREBAY_PYTHON`, else the one beside this program, else the one on the path.
#[must_use]
pub fn interpreter() -> PathBuf {
    if let Some(named) = std::env::var_os("FOREBAY_PYTHON").filter(|name| !name.is_empty()) {
        return named.into();
    }
    let beside = std::env::current_exe().ok().and_then(|program| {
        let python = program.parent()?.join("python3");
        python.exists().then_some(python)
    });
    beside.unwrap_or_else(|| "python3".into())
}

/// The command of a rank.
#[must_use]
pub fn rank(run: &Path) -> Command {
    let mut command = Command::new(interpreter());
    command.args(["-m", "forebay.bench", "rank"]).arg(run);
    command
}

/// A benchmark that Python has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PythonBenchmark {
    /// Its name.
    pub name: String,
    /// What kind of work it does.
    #[serde(default)]
    pub category: String,
    /// What it does, in one line.
    #[serde(default)]
    pub help: String,
    /// Its parameters.
    #[serde(default)]
    pub params: Vec<PythonParam>,
}

/// A parameter of such a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PythonParam {
    /// Its name.
    pub name: String,
    /// `int`, `float`, `bool` or `str`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Its value where none is given; `null` where one must be.
    #[serde(default)]
    pub default: Value,
    /// What it is.
    #[serde(default)]
    pub help: String,
}

impl PythonBenchmark {
    /// Whether it has such a parameter.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.params.iter().any(|param| param.name == name)
    }

    /// Values for all parameters that are given or have a default. Python checks them again.
    ///
    /// # Errors
    /// [`BenchError::Usage`] for a name that is not known, and for text that is no number where one
    /// is wanted.
    pub fn resolve(&self, given: &Map<String, Value>) -> Result<Map<String, Value>> {
        if let Some(name) = given.keys().find(|name| !self.has(name)) {
            let names: Vec<&str> = self
                .params
                .iter()
                .map(|param| param.name.as_str())
                .collect();
            return Err(BenchError::Usage(format!(
                "benchmark `{}` has no parameter `{name}`: it has {}",
                self.name,
                names.join(", ")
            )));
        }
        let mut values = Map::new();
        for param in &self.params {
            let value = match given.get(&param.name) {
                Some(Value::String(text)) => param.parse(text)?,
                Some(value) => value.clone(),
                None => param.default.clone(),
            };
            if !value.is_null() {
                values.insert(param.name.clone(), value);
            }
        }
        Ok(values)
    }
}

impl PythonParam {
    fn parse(&self, text: &str) -> Result<Value> {
        let value = match self.kind.as_str() {
            "int" => text.parse::<i64>().ok().map(Value::from),
            "float" => text
                .parse::<f64>()
                .ok()
                .filter(|one| one.is_finite())
                .map(Value::from),
            "bool" => text.parse::<bool>().ok().map(Value::from),
            _ => Some(Value::from(text)),
        };
        value.ok_or_else(|| {
            BenchError::Usage(format!(
                "`{}` must be of type {}: `{text}`",
                self.name, self.kind
            ))
        })
    }
}

/// The benchmarks that Python has, those of `module` too.
///
/// # Errors
/// [`BenchError::Program`] where there is no Python with `forebay`, with the way out.
pub fn list(module: Option<&Path>, stop: &Stop) -> Result<Vec<PythonBenchmark>> {
    let mut command = Command::new(interpreter());
    command.args(["-m", "forebay.bench", "list", "--json"]);
    if let Some(module) = module {
        command.arg("--module").arg(module);
    }
    let ended =
        program::run_well(&mut command, &|| stop.check(0)).map_err(|error| match error {
            BenchError::Program { program, fault } => BenchError::Program {
                program,
                fault: format!("{fault} (name a Python that has forebay with FOREBAY_PYTHON)"),
            },
            other => other,
        })?;
    serde_json::from_slice(&ended.stdout).map_err(|error| BenchError::Program {
        program: interpreter().display().to_string(),
        fault: format!("did not list its benchmarks: {error}"),
    })
}

/// Whether there is a Python that can run the engine torch.
#[must_use]
pub fn has_torch(stop: &Stop) -> bool {
    let mut command = Command::new(interpreter());
    command.args(["-c", "import torch, forebay.bench"]);
    program::run_well(&mut command, &|| stop.check(0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_type_of_their_parameter() {
        let listed = r#"{"name":"mine","params":[
            {"name":"size","type":"int","default":5,"help":""},
            {"name":"fast","type":"bool","default":false,"help":""},
            {"name":"rate","type":"float","default":null}]}"#;
        let mine: PythonBenchmark = serde_json::from_str(listed).unwrap();
        let resolve = |given: &str| mine.resolve(&serde_json::from_str(given).unwrap());
        let values = resolve(r#"{"size":"7","fast":"true"}"#).unwrap();
        assert_eq!(
            Value::Object(values),
            serde_json::json!({"size": 7, "fast": true})
        );
        let error = resolve(r#"{"size":"x"}"#).unwrap_err().to_string();
        assert_eq!(error, "`size` must be of type int: `x`");
        let error = resolve(r#"{"sizes":1}"#).unwrap_err().to_string();
        assert_eq!(
            error,
            "benchmark `mine` has no parameter `sizes`: it has size, fast, rate"
        );
    }
}
