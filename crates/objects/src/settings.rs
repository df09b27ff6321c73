//! How stores are reached.

use std::time::Duration;

use forebay_origin::{OriginError, StoreFault};

/// Seconds that a call has, where nothing is said: less than a client waits for the daemon, so
/// that the store's own fault arrives.
const DEFAULT_SECONDS: u64 = 45;
const VARIABLE: &str = "FOREBAY_STORE_SECONDS";

/// What calls of stores may take, and what the environment says.
#[derive(Clone)]
pub struct StoreSettings {
    /// Time that one call has, with all attempts.
    pub call: Duration,
    /// Differentiated services code point of what is sent to stores, 0 to 63; `None` leaves the
    /// system's.
    pub dscp: Option<u8>,
    /// Variables such as `AWS_ACCESS_KEY_ID`.
    pub variables: Vec<(String, String)>,
}

// The variables hold secrets.
impl std::fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreSettings")
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}

impl StoreSettings {
    /// Takes what concerns stores from the variables of a process.
    ///
    /// # Errors
    /// [`OriginError::Store`] if `FOREBAY_STORE_SECONDS` is not a number from 1 to 3600.
    pub fn from_variables(
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, OriginError> {
        let mut settings = Self {
            call: Duration::from_secs(DEFAULT_SECONDS),
            dscp: None,
            variables: Vec::new(),
        };
        for (name, value) in variables {
            if name == VARIABLE && !value.is_empty() {
                let seconds = value.parse().ok().filter(|s| (1..=3600).contains(s));
                let seconds = seconds.ok_or_else(|| refused(&value))?;
                settings.call = Duration::from_secs(seconds);
            } else if ["AWS_", "GOOGLE_", "AZURE_"]
                .iter()
                .any(|kind| name.starts_with(kind))
            {
                settings.variables.push((name, value));
            }
        }
        Ok(settings)
    }

    /// The value of a variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut set = self.variables.iter();
        set.find(|(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// Whether any of these variables is set.
    pub(crate) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.get(name).is_some())
    }

    /// Time that one attempt has, so that a call has several.
    pub(crate) fn attempt(&self) -> Duration {
        (self.call / 3).min(Duration::from_secs(30))
    }
}

fn refused(value: &str) -> OriginError {
    OriginError::Store {
        act: "use the setting".to_owned(),
        url: VARIABLE.to_owned(),
        source: StoreFault::Settings {
            detail: format!("it must be a number of seconds from 1 to 3600: `{value}`"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Result<StoreSettings, OriginError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        StoreSettings::from_variables(pairs.iter().map(owned))
    }

    #[test]
    fn only_what_concerns_stores_is_kept_and_secrets_are_not_shown() {
        let settings = settings(&[
            ("AWS_SECRET_ACCESS_KEY", "hunter2"),
            ("PATH", "/bin"),
            ("FOREBAY_STORE_SECONDS", "9"),
            ("GOOGLE_BUCKET", ""),
        ]);
        let settings = settings.unwrap();
        assert_eq!(settings.call, Duration::from_secs(9));
        assert_eq!(settings.get("AWS_SECRET_ACCESS_KEY"), Some("hunter2"));
        assert_eq!(
            (settings.get("PATH"), settings.get("GOOGLE_BUCKET")),
            (None, None)
        );
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn a_time_that_is_none_is_refused_by_name() {
        for value in ["0", "3601", "-1", "soon"] {
            let error = settings(&[(VARIABLE, value)]).unwrap_err();
            assert!(error.to_string().contains(VARIABLE), "{error}");
        }
    }
}
