//! Profiles: what the operator writes, and the plan that runs once every rule holds.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::draw::{Latency, Slowdown};
use crate::error::{Error, Result};
use crate::fault::FaultRule;

mod rules;
use rules::Rules;

/// Names of the profiles that come with the program.
pub const BUILT_IN: [&str; 3] = ["lustre", "vast", "nvme"];

/// A profile file is refused beyond this size.
const LARGEST_FILE: u64 = 1 << 20;
/// More faults than this at once are refused.
pub(crate) const MOST_FAULTS: usize = 64;

/// A profile as it is written in TOML. Every field may be left out; unknown ones are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileSettings {
    /// Every draw follows from it.
    pub seed: u64,
    /// Multiplies all times and divides all rates: 0.1 is the same tier ten times faster.
    pub scale: f64,
    /// Requests held at once, waiting or being served. Beyond it the kernel has to wait.
    pub max_in_flight: u32,
    /// Reads of file bytes.
    pub read: ClassSettings,
    /// Lookup, getattr, open, readdir, readlink.
    pub metadata: ClassSettings,
    /// Times in which the whole server is slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_periods: Option<SlowSettings>,
    /// Faults in force from the start.
    #[serde(rename = "fault", skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultRule>,
}

impl Default for ProfileSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            scale: 1.0,
            max_in_flight: 4096,
            read: ClassSettings::default(),
            metadata: ClassSettings::default(),
            slow_periods: None,
            faults: Vec::new(),
        }
    }
}

/// One class of requests, as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassSettings {
    /// Median time, in ms. 0: no delay but the tail's.
    pub median_ms: f64,
    /// 95 % quantile of the body, in ms. Give this or `sigma`; neither: no spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
    /// Standard deviation of the logarithm of the body's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// Requests the server works on at once; the rest wait in order.
    pub max_parallel: u32,
    /// Time added for each MiB asked for, in ms. Reads only.
    pub ms_per_mib: f64,
    /// Bytes per second over all reads together; none: no cap. Reads only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// Bytes that may pass at once after a pause, before the cap is felt. Reads only.
    pub burst_bytes: u64,
    /// The rare long times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<TailSettings>,
}

impl Default for ClassSettings {
    fn default() -> Self {
        Self {
            median_ms: 0.0,
            p95_ms: None,
            sigma: None,
            max_parallel: 256,
            ms_per_mib: 0.0,
            bytes_per_s: None,
            burst_bytes: 0,
            tail: None,
        }
    }
}

/// The tail, as written: a Pareto distribution between two bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TailSettings {
    /// Share of requests in the tail.
    pub probability: f64,
    /// Shortest tail time, in ms.
    pub min_ms: f64,
    /// Longest tail time, in ms.
    pub max_ms: f64,
    /// Steepness; lower is heavier.
    pub alpha: f64,
}

/// Periods in which the whole server is slow, as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowSettings {
    /// Mean length of a normal period, in seconds.
    pub mean_normal_s: f64,
    /// Mean length of a slow period, in seconds.
    pub mean_slow_s: f64,
    /// Multiplies the body's times while slow.
    #[serde(default = "one")]
    pub body_factor: f64,
    /// Multiplies the tails' probabilities while slow.
    #[serde(default = "one")]
    pub tail_factor: f64,
}

fn one() -> f64 {
    1.0
}

/// What the emulated server runs with. It exists only if every rule holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Seed of every draw.
    pub seed: u64,
    /// Requests held at once.
    pub max_in_flight: usize,
    /// Reads.
    pub read: Class,
    /// Metadata operations.
    pub metadata: Class,
    /// Slow periods, if any.
    pub slow: Option<SlowPlan>,
    /// Faults in force.
    pub faults: Vec<FaultRule>,
}

/// One class of requests, with the scale applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Body and tail.
    pub latency: Latency,
    /// Requests served at once.
    pub max_parallel: usize,
    /// Seconds for each byte asked for.
    pub seconds_per_byte: f64,
    /// Cap over all requests of the class, bytes per second.
    pub bytes_per_s: Option<f64>,
    /// Bytes that pass uncapped after a pause.
    pub burst_bytes: u64,
}

/// Slow periods, with the scale applied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowPlan {
    /// Mean length of a normal period.
    pub mean_normal: Duration,
    /// Mean length of a slow period.
    pub mean_slow: Duration,
    /// What changes while slow.
    pub slowdown: Slowdown,
}

impl ProfileSettings {
    /// The built-in profile of that name, or the TOML file at that path.
    ///
    /// # Errors
    /// [`Error::Profile`] if there is neither, or the text is not a profile.
    pub fn load(name_or_path: &str) -> Result<Self> {
        if let Some(text) = built_in(name_or_path) {
            return Self::parse(name_or_path, text);
        }
        let path = Path::new(name_or_path);
        let refuse = |why: String| Error::Profile {
            name: name_or_path.to_owned(),
            why,
        };
        let size = fs::metadata(path).map_err(|e| {
            refuse(format!(
                "no such built-in profile ({}) and no readable file: {e}",
                BUILT_IN.join(", ")
            ))
        })?;
        if size.len() > LARGEST_FILE {
            return Err(refuse(format!(
                "the file has {} bytes, at most {LARGEST_FILE} are read",
                size.len()
            )));
        }
        let text = fs::read_to_string(path).map_err(|e| refuse(e.to_string()))?;
        Self::parse(name_or_path, &text)
    }

    /// Parse TOML text; `name` is used in errors.
    ///
    /// # Errors
    /// [`Error::Profile`] with the line that is wrong.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|e| Error::Profile {
            name: name.to_owned(),
            why: e.to_string(),
        })
    }

    /// The same profile with all times multiplied by `scale` once more.
    #[must_use]
    pub fn scaled(mut self, scale: f64) -> Self {
        self.scale *= scale;
        self
    }

    /// Set fields by dotted key and TOML value, such as `read.median_ms=5`, all or none.
    ///
    /// # Errors
    /// [`Error::BrokenRules`] naming every assignment that is not a field or has the wrong type.
    pub fn assign(&self, assignments: &[String]) -> Result<Self> {
        let mut broken = Vec::new();
        let mut settings = self.clone();
        for assignment in assignments {
            match settings.with(assignment) {
                Ok(next) => settings = next,
                Err(why) => broken.push(format!("`{assignment}`: {why}")),
            }
        }
        if broken.is_empty() {
            Ok(settings)
        } else {
            Err(Error::BrokenRules(broken))
        }
    }

    fn with(&self, assignment: &str) -> std::result::Result<Self, String> {
        let (key, value) = assignment
            .split_once('=')
            .ok_or("expected `key=value`, as in `read.median_ms=5`")?;
        let (key, value) = (key.trim(), value.trim());
        let mut tree = toml::Value::try_from(self).map_err(|e| e.to_string())?;
        let (parents, last) = key
            .rsplit_once('.')
            .map_or((None, key), |(p, l)| (Some(p), l));
        let mut at = &mut tree;
        for part in parents.into_iter().flat_map(|p| p.split('.')) {
            let table = at
                .as_table_mut()
                .ok_or_else(|| format!("`{part}` is not a section"))?;
            at = table
                .entry(part)
                .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        }
        let table = at
            .as_table_mut()
            .ok_or_else(|| format!("`{key}` lies in no section"))?;
        if value == "none" {
            table.remove(last);
        } else {
            let parsed: toml::Table =
                toml::from_str(&format!("value = {value}")).map_err(|e| e.message().to_owned())?;
            let value = parsed.get("value").cloned().ok_or("expected one value")?;
            table.insert(last.to_owned(), as_float_where_due(last, value));
        }
        // The two ways to write the width exclude each other, so the newer one wins.
        match last {
            "p95_ms" => drop(table.remove("sigma")),
            "sigma" => drop(table.remove("p95_ms")),
            _ => {}
        }
        tree.try_into()
            .map_err(|e: toml::de::Error| e.message().to_owned())
    }

    /// Check every rule and apply the scale.
    ///
    /// # Errors
    /// [`Error::BrokenRules`] with every rule that does not hold.
    pub fn resolve(&self) -> Result<Profile> {
        let mut rules = Rules::default();
        rules.range("scale", self.scale, 1e-6, 1e6);
        if !(1..=65_536).contains(&self.max_in_flight) {
            rules.broken(format!(
                "`max_in_flight` must be 1 to 65536: {}",
                self.max_in_flight
            ));
        }
        let scale = if self.scale > 0.0 { self.scale } else { 1.0 };
        let read = rules.class("read", &self.read, scale);
        let metadata = rules.class("metadata", &self.metadata, scale);
        if self.metadata.bytes_per_s.is_some() || self.metadata.ms_per_mib != 0.0 {
            rules.broken(
                "`metadata` moves no bytes: `bytes_per_s` and `ms_per_mib` belong to `read`".into(),
            );
        }
        let slow = self
            .slow_periods
            .as_ref()
            .map(|slow| rules.slow(slow, scale));
        if self.faults.len() > MOST_FAULTS {
            rules.broken(format!(
                "at most {MOST_FAULTS} faults at once: {}",
                self.faults.len()
            ));
        }
        for (n, fault) in self.faults.iter().enumerate() {
            fault.check(&mut |why| rules.0.push(format!("`fault[{n}]` {why}")));
        }
        if !rules.0.is_empty() {
            return Err(Error::BrokenRules(rules.0));
        }
        Ok(Profile {
            seed: self.seed,
            max_in_flight: self.max_in_flight as usize,
            read,
            metadata,
            slow,
            faults: self.faults.clone(),
        })
    }
}

/// `read.median_ms=5` means 5.0; the integer fields are the ones listed.
fn as_float_where_due(field: &str, value: toml::Value) -> toml::Value {
    let integer = [
        "seed",
        "max_in_flight",
        "max_parallel",
        "bytes_per_s",
        "burst_bytes",
    ];
    match value {
        toml::Value::Integer(n) if !integer.contains(&field) => toml::Value::Float(n as f64),
        other => other,
    }
}

/// The TOML text of a built-in profile.
pub fn built_in(name: &str) -> Option<&'static str> {
    match name {
        "lustre" => Some(include_str!("../profiles/lustre.toml")),
        "vast" => Some(include_str!("../profiles/vast.toml")),
        "nvme" => Some(include_str!("../profiles/nvme.toml")),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
