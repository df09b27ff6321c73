//! Faults: which request goes wrong, and how. Decisions are seeded and replay.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::draw::{Stream, uniform};
use crate::glob;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultKind {
    /// The request fails with `EIO` after its usual time.
    Eio,
    /// A read returns fewer bytes than it could.
    Short,
    /// The request gets no answer until it is released, at most `max_hang_s`.
    Hang,
    /// The file looks changed: its time, size or inode differ from the source's.
    Changed,
}

/// Which requests a fault strikes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultClass {
    /// Reads of file bytes.
    #[default]
    Read,
    /// Lookup, getattr, open, readdir, readlink.
    Metadata,
}

/// One fault. All conditions given must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Reads or metadata operations. `changed` has no class.
    #[serde(default)]
    pub class: FaultClass,
    /// Pattern of the path below the source; none: every path. `*`, `**` and `?`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Share of matching requests struck; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Only the nth matching request since the fault was set, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// For `short`: bytes returned at most; none: half of those asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// For `hang`: seconds until the request goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hang_s: Option<f64>,
    /// For `changed`: nanoseconds added to the modification time; none: one second, unless
    /// `size` or `inode` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtime_ns: Option<i64>,
    /// For `changed`: bytes added to the reported size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// For `changed`: the file gets another inode number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inode: bool,
}

/// A hang ends by itself after this, unless `max_hang_s` says otherwise.
pub const DEFAULT_HANG: Duration = Duration::from_secs(60);
const LONGEST_HANG_S: f64 = 3600.0;
const LONGEST_PATTERN: usize = 1024;

impl FaultRule {
    /// A fault of that kind that strikes every request of its class.
    pub fn new(kind: FaultKind) -> Self {
        Self {
            kind,
            class: FaultClass::Read,
            path: None,
            probability: None,
            nth: None,
            bytes: None,
            max_hang_s: None,
            mtime_ns: None,
            size: None,
            inode: false,
        }
    }

    /// Report every broken rule.
    pub(crate) fn check(&self, broken: &mut dyn FnMut(String)) {
        if let Some(p) = self.probability
            && !(0.0..=1.0).contains(&p)
        {
            broken(format!("`probability` must be 0 to 1: {p}"));
        }
        if self.nth == Some(0) {
            broken("`nth` counts from 1: 0".into());
        }
        if let Some(path) = &self.path
            && (path.is_empty() || path.len() > LONGEST_PATTERN)
        {
            broken(format!(
                "`path` must have 1 to {LONGEST_PATTERN} bytes: {}",
                path.len()
            ));
        }
        if let Some(s) = self.max_hang_s
            && !(0.0..=LONGEST_HANG_S).contains(&s)
        {
            broken(format!("`max_hang_s` must be 0 to {LONGEST_HANG_S}: {s}"));
        }
        let changed = self.kind == FaultKind::Changed;
        let fields = [
            ("bytes", self.bytes.is_some(), self.kind == FaultKind::Short),
            (
                "max_hang_s",
                self.max_hang_s.is_some(),
                self.kind == FaultKind::Hang,
            ),
            ("mtime_ns", self.mtime_ns.is_some(), changed),
            ("size", self.size.is_some(), changed),
            ("inode", self.inode, changed),
            ("nth", self.nth.is_some(), !changed),
            ("probability", self.probability.is_some(), !changed),
        ];
        for (name, given, fits) in fields {
            if given && !fits {
                broken(format!("`{name}` has no meaning for kind {:?}", self.kind).to_lowercase());
            }
        }
        if self.kind == FaultKind::Short && self.class == FaultClass::Metadata {
            broken("kind `short` is for class `read`".into());
        }
    }

    fn applies_to(&self, path: &Path) -> bool {
        let bytes = path.as_os_str().as_bytes();
        self.path
            .as_deref()
            .is_none_or(|pattern| glob::matches(pattern, bytes))
    }

    fn action(&self) -> Action {
        match self.kind {
            FaultKind::Eio => Action::Eio,
            FaultKind::Short => Action::Short(self.bytes),
            FaultKind::Hang => Action::Hang(
                self.max_hang_s
                    .and_then(|s| Duration::try_from_secs_f64(s).ok())
                    .unwrap_or(DEFAULT_HANG),
            ),
            FaultKind::Changed => Action::None,
        }
    }
}

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing out of the ordinary.
    None,
    /// Fail.
    Eio,
    /// Return at most this many bytes, or half.
    Short(Option<u64>),
    /// Hold back, at most this long.
    Hang(Duration),
}

impl Action {
    /// How many bytes a read of `asked` returns at most.
    pub fn limit(self, asked: usize) -> usize {
        match self {
            Self::Short(Some(bytes)) => asked.min(usize::try_from(bytes).unwrap_or(usize::MAX)),
            Self::Short(None) => asked.div_ceil(2).min(asked.saturating_sub(1).max(1)),
            Self::None | Self::Eio | Self::Hang(_) => asked,
        }
    }
}

/// How a changed file's attributes differ from the source's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bump {
    /// Nanoseconds added to the modification time.
    pub mtime_ns: i64,
    /// Bytes added to the size.
    pub size: i64,
    /// Another inode number.
    pub inode: bool,
}

/// The faults in force, with the count of requests each has seen.
#[derive(Debug, Default)]
pub struct Faults {
    seed: u64,
    rules: Vec<(FaultRule, u64)>,
}

impl Faults {
    /// Start counting anew for these rules.
    pub fn new(seed: u64, rules: Vec<FaultRule>) -> Self {
        Self {
            seed,
            rules: rules.into_iter().map(|rule| (rule, 0)).collect(),
        }
    }

    /// Take over `rules`, keeping the counts of those that were in force before.
    pub fn replace(&mut self, seed: u64, rules: Vec<FaultRule>) {
        let old = std::mem::take(&mut self.rules);
        self.seed = seed;
        self.rules = rules
            .into_iter()
            .enumerate()
            .map(|(n, rule)| {
                let seen = old
                    .get(n)
                    .filter(|(was, _)| *was == rule)
                    .map_or(0, |(_, seen)| *seen);
                (rule, seen)
            })
            .collect();
    }

    /// What happens to this request. The first rule that strikes wins; each one counts it.
    pub fn decide(&mut self, class: FaultClass, path: &Path) -> Action {
        let mut action = Action::None;
        for (n, (rule, seen)) in self.rules.iter_mut().enumerate() {
            if rule.kind == FaultKind::Changed || rule.class != class || !rule.applies_to(path) {
                continue;
            }
            *seen += 1;
            let lucky = rule
                .probability
                .is_some_and(|p| uniform(self.seed, Stream::Faults, *seen, n as u64) >= p);
            let other = rule.nth.is_some_and(|nth| nth != *seen);
            if action == Action::None && !lucky && !other {
                action = rule.action();
            }
        }
        action
    }

    /// How the attributes of `path` are changed, if they are.
    pub fn bump(&self, path: &Path) -> Bump {
        let mut bump = Bump::default();
        for (rule, _) in &self.rules {
            if rule.kind != FaultKind::Changed || !rule.applies_to(path) {
                continue;
            }
            let other = rule.size.is_some() || rule.inode;
            let mtime = rule
                .mtime_ns
                .unwrap_or(if other { 0 } else { 1_000_000_000 });
            bump.mtime_ns = bump.mtime_ns.saturating_add(mtime);
            bump.size = bump.size.saturating_add(rule.size.unwrap_or(0));
            bump.inode |= rule.inode;
        }
        bump
    }

    /// Whether no rule is in force, so that the path need not be asked for.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: FaultKind, change: impl FnOnce(&mut FaultRule)) -> FaultRule {
        let mut rule = FaultRule::new(kind);
        change(&mut rule);
        rule
    }

    fn struck(faults: &mut Faults, n: usize) -> Vec<bool> {
        (0..n)
            .map(|_| faults.decide(FaultClass::Read, Path::new("a.h5")) != Action::None)
            .collect()
    }

    #[test]
    fn nth_strikes_once_and_counts_only_matching_requests() {
        let only = rule(FaultKind::Eio, |r| {
            r.nth = Some(3);
            r.path = Some("*.h5".into());
        });
        let mut faults = Faults::new(1, vec![only]);

        assert_eq!(
            faults.decide(FaultClass::Read, Path::new("other.bin")),
            Action::None
        );
        assert_eq!(
            faults.decide(FaultClass::Metadata, Path::new("a.h5")),
            Action::None
        );
        assert_eq!(struck(&mut faults, 5), [false, false, true, false, false]);
    }

    #[test]
    fn probability_is_met_and_replays() {
        let rules = vec![rule(FaultKind::Eio, |r| r.probability = Some(0.1))];
        let first = struck(&mut Faults::new(5, rules.clone()), 20_000);
        let share = first.iter().filter(|hit| **hit).count() as f64 / 20_000.0;

        assert!((share - 0.1).abs() < 0.01, "{share}");
        assert_eq!(
            first,
            struck(&mut Faults::new(5, rules.clone()), 20_000),
            "same seed"
        );
        assert_ne!(
            first,
            struck(&mut Faults::new(6, rules), 20_000),
            "other seed"
        );
    }

    #[test]
    fn adding_a_rule_keeps_the_counts_of_the_others() {
        let first = rule(FaultKind::Eio, |r| r.nth = Some(3));
        let mut faults = Faults::new(1, vec![first.clone()]);
        struck(&mut faults, 2);
        let second = rule(FaultKind::Short, |r| r.path = Some("x".into()));
        faults.replace(1, vec![first, second]);
        assert_eq!(struck(&mut faults, 1), [true]);
    }

    #[test]
    fn a_short_read_is_shorter_but_never_empty_by_default() {
        let short = Action::Short(None);
        assert_eq!([2, 3, 100].map(|n| short.limit(n)), [1, 2, 50]);
        assert_eq!(Action::Short(Some(10)).limit(4), 4);
        assert_eq!(Action::Eio.limit(7), 7);
    }

    #[test]
    fn changed_files_differ_by_what_was_asked() {
        let all = rule(FaultKind::Changed, |r| r.path = Some("a*".into()));
        let size = rule(FaultKind::Changed, |r| r.size = Some(-4));
        let faults = Faults::new(1, vec![all, size]);

        let both = Bump {
            mtime_ns: 1_000_000_000,
            size: -4,
            inode: false,
        };
        assert_eq!(faults.bump(Path::new("x/a1")), both);
        assert_eq!(
            faults.bump(Path::new("b")),
            Bump {
                size: -4,
                ..Bump::default()
            }
        );
    }
}
