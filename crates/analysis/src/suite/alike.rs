//! Which runs did the same work on the same kind of machine.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::SuiteRun;

/// A field in which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// Its name, such as `params.file_size` or `fs.fstype`.
    pub field: String,
    /// What the base has.
    pub base: String,
    /// What the candidate has.
    pub candidate: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is {} against {}",
            self.field, self.base, self.candidate
        )
    }
}

/// What must be equal for times to be comparable: the work, the number of ranks, the machine's
/// class and the file system. By name.
pub(super) fn must_match(run: &SuiteRun) -> BTreeMap<String, String> {
    let first = run.first();
    let mut fields: BTreeMap<String, String> = first
        .params
        .iter()
        .map(|(name, value)| (format!("params.{name}"), value.to_string()))
        .collect();
    let mut add = |name: &str, value: String| fields.insert(name.into(), value);
    add("benchmark", first.benchmark.clone());
    add("dist.world_size", first.dist.world_size.to_string());
    add("host.cpu", first.host.cpu.clone());
    add("host.cores", first.host.cores.to_string());
    add("host.gpu", first.host.gpu.clone().unwrap_or_default());
    add("fs.fstype", first.fs.fstype.clone());
    add("fs.source", first.fs.source.clone());
    add("cache.policy", first.cache.policy.clone());
    fields
}

/// What may differ, since it is what an upgrade changes; it is shown beside the verdict.
fn worth_a_note(run: &SuiteRun) -> BTreeMap<String, String> {
    let first = run.first();
    let (host, fs) = (&first.host, &first.fs);
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
    BTreeMap::from([
        ("host.hostname".to_owned(), host.hostname.clone()),
        ("host.kernel".to_owned(), host.kernel.clone()),
        ("host.mem_bytes".to_owned(), host.mem_bytes.to_string()),
        ("host.python".to_owned(), or_none(&host.python)),
        ("host.torch".to_owned(), or_none(&host.torch)),
        ("host.cuda".to_owned(), or_none(&host.cuda)),
        ("fs.mount".to_owned(), fs.mount.clone()),
        ("fs.options".to_owned(), fs.options.clone()),
    ])
}

/// The fields that must be equal and are not.
pub(super) fn differences(base: &SuiteRun, candidate: &SuiteRun) -> Vec<Difference> {
    between(&must_match(base), &must_match(candidate))
}

/// The fields that may differ and do.
pub(super) fn notes(base: &SuiteRun, candidate: &SuiteRun) -> Vec<Difference> {
    between(&worth_a_note(base), &worth_a_note(candidate))
}

fn between(
    base: &BTreeMap<String, String>,
    candidate: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let mut names: Vec<&String> = base.keys().chain(candidate.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let shown = |fields: &BTreeMap<String, String>, name: &String| match fields.get(name) {
        Some(text) if text.is_empty() => "nothing".to_owned(),
        Some(text) => format!("`{text}`"),
        None => "absent".to_owned(),
    };
    names
        .into_iter()
        .filter(|name| base.get(*name) != candidate.get(*name))
        .map(|name| Difference {
            field: name.clone(),
            base: shown(base, name),
            candidate: shown(candidate, name),
        })
        .collect()
}
