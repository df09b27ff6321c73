//! Fields are taken out of a record one by one, each by its rule; what is left is not known.

use serde_json::{Map, Value};

use super::{Fault, MAX_PATH_BYTES, MAX_SECONDS};
use crate::text;

pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub(super) fn new(map: Map<String, Value>) -> Self {
        Self(map)
    }

    /// Names of the fields that nothing has taken.
    pub(super) fn rest(self) -> Vec<String> {
        self.0.into_iter().map(|(name, _)| name).collect()
    }

    /// A field that is absent or null is `None`.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a null away.
    fn has(&mut self, name: &str) -> bool {
        let value = self.take(name);
        let present = value.is_some();
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value);
        }
        present
    }

    fn require(&mut self, name: &str) -> Result<Value, Fault> {
        self.take(name)
            .ok_or_else(|| Fault::of(format!("field `{name}` is missing")))
    }

    pub(super) fn text(&mut self, name: &str) -> Result<String, Fault> {
        match self.require(name)? {
            Value::String(text) => Ok(text),
            other => Err(wrong(name, "text", &other)),
        }
    }

    pub(super) fn path(&mut self) -> Result<String, Fault> {
        self.name("path", MAX_PATH_BYTES)
    }

    /// A text of 1 to `limit` bytes.
    pub(super) fn name(&mut self, field: &str, limit: usize) -> Result<String, Fault> {
        let name = self.text(field)?;
        if name.is_empty() || name.len() > limit {
            return Err(Fault::of(format!(
                "`{field}` must have 1 to {limit} bytes: {}",
                name.len()
            )));
        }
        Ok(name)
    }

    pub(super) fn name_or_none(
        &mut self,
        field: &str,
        limit: usize,
    ) -> Result<Option<String>, Fault> {
        let present = self.has(field);
        present.then(|| self.name(field, limit)).transpose()
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, Fault> {
        let items = match self.take(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(wrong(name, "a list of texts", &other)),
        };
        let text = |item| match item {
            Value::String(text) => Ok(text),
            other => Err(wrong(name, "a list of texts", &other)),
        };
        items.into_iter().map(text).collect()
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Map<String, Value>, Fault> {
        match self.take(name) {
            None => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(map),
            Some(other) => Err(wrong(name, "an object", &other)),
        }
    }

    pub(super) fn count(&mut self, name: &str) -> Result<u64, Fault> {
        let value = self.require(name)?;
        as_count(name, &value)
    }

    pub(super) fn count_or_none(&mut self, name: &str) -> Result<Option<u64>, Fault> {
        self.take(name)
            .map(|value| as_count(name, &value))
            .transpose()
    }

    pub(super) fn small_count(&mut self, name: &str) -> Result<u32, Fault> {
        let wide = self.count(name)?;
        u32::try_from(wide)
            .map_err(|_| Fault::of(format!("`{name}` must be at most {}: {wide}", u32::MAX)))
    }

    pub(super) fn small_count_or_none(&mut self, name: &str) -> Result<Option<u32>, Fault> {
        let present = self.has(name);
        present.then(|| self.small_count(name)).transpose()
    }

    pub(super) fn number_or_none(&mut self, name: &str) -> Result<Option<f64>, Fault> {
        let number = |value: Value| {
            value
                .as_f64()
                .ok_or_else(|| wrong(name, "a number", &value))
        };
        self.take(name).map(number).transpose()
    }

    pub(super) fn seconds(&mut self, name: &str) -> Result<f64, Fault> {
        let value = self.require(name)?;
        as_seconds(name, &value)
    }

    pub(super) fn seconds_or_none(&mut self, name: &str) -> Result<Option<f64>, Fault> {
        self.take(name)
            .map(|value| as_seconds(name, &value))
            .transpose()
    }

    /// A duration that ratios divide by.
    pub(super) fn positive_seconds(&mut self, name: &str) -> Result<f64, Fault> {
        let seconds = self.seconds(name)?;
        if seconds > 0.0 {
            return Ok(seconds);
        }
        Err(Fault::of(format!("`{name}` must be above 0: {seconds}")))
    }
}

fn as_count(name: &str, value: &Value) -> Result<u64, Fault> {
    value
        .as_u64()
        .ok_or_else(|| wrong(name, "a whole number of at least 0", value))
}

fn as_seconds(name: &str, value: &Value) -> Result<f64, Fault> {
    match value.as_f64() {
        Some(seconds) if (0.0..=MAX_SECONDS).contains(&seconds) => Ok(seconds),
        _ => Err(wrong(name, "a number of seconds from 0 to 10000000", value)),
    }
}

pub(super) fn wrong(name: &str, wanted: &str, found: &Value) -> Fault {
    let found = text::clip(&text::printable(&found.to_string()), 60);
    Fault::of(format!("`{name}` must be {wanted}: {found}"))
}
