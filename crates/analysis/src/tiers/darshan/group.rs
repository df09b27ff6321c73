//! Processes: ranks of logs, or groups of logs.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::epochs::{self, Use};
use super::profile::{Entry, Profile};
use super::{ClassifyError, Combine, GroupBy, Options, Window, classes};
use crate::tiers::table::TableBuilder;
use crate::tiers::{ClassTable, Row, TableError};

/// The table, and what was met on the way to it.
pub(super) struct Grouped {
    pub(super) table: ClassTable,
    /// Records that were shared evenly among several epochs.
    pub(super) ambiguous: u64,
    /// Records in an epoch, or all of them where none was given.
    pub(super) placed: u64,
    outside: u64,
    outside_s: f64,
    write_s: f64,
}

impl Grouped {
    pub(super) fn warn(&self, warnings: &mut Vec<String>) {
        if self.ambiguous > 0 {
            warnings.push(format!(
                "{} records span several epochs without a trace of their reads and were shared evenly (ambiguous): run with DXT_ENABLE_IO_TRACE=1, or with one run for each epoch",
                self.ambiguous
            ));
        }
        if self.outside > 0 {
            warnings.push(format!(
                "{} records ({:.3} s) lie outside of every epoch",
                self.outside, self.outside_s
            ));
        }
        if self.write_s > 0.0 {
            warnings.push(format!(
                "{:.3} s of writes on the tiers are no part of the classes",
                self.write_s
            ));
        }
    }
}

/// The table of all profiles. `starts` has the start of each job.
pub(super) fn table(
    profiles: &[Profile],
    options: &Options,
    starts: &BTreeMap<i64, i64>,
) -> Result<Grouped, ClassifyError> {
    let names = names(profiles);
    let mut filling = Filling {
        windows: &options.windows,
        rows: ClassTable::builder(),
        grouped: Grouped {
            table: ClassTable::default(),
            ambiguous: 0,
            placed: 0,
            outside: 0,
            outside_s: 0.0,
            write_s: 0.0,
        },
    };
    let mut groups = HashMap::new();
    let all_groups = group_names(profiles, options.group_by)?;
    for (place, profile) in profiles.iter().enumerate() {
        let of_log = |source| ClassifyError::Log {
            log: profile.file.clone(),
            source,
        };
        let start = starts.get(&profile.jobid).copied().unwrap_or(0);
        let mut ranks: Vec<i64> = profile.entries.iter().map(|entry| entry.rank).collect();
        if profile.nprocs <= 1 || ranks.is_empty() {
            ranks.push(0);
        }
        ranks.sort_unstable();
        ranks.dedup();
        for rank in ranks {
            let process = process(&names[place], profile, profiles.len(), rank);
            filling.exist(&process).map_err(of_log)?;
            groups.insert(process, all_groups[place].clone());
        }
        for entry in &profile.entries {
            let process = process(&names[place], profile, profiles.len(), entry.rank);
            let offset = offset(profile, options, start);
            filling.entry(&process, entry, offset).map_err(of_log)?;
        }
    }
    let rows = filling.rows.finish();
    let table = match options.group_by {
        GroupBy::Log => rows,
        GroupBy::Job | GroupBy::Parent => combine(&rows, &groups, options.combine)?,
    };
    Ok(Grouped {
        table,
        ..filling.grouped
    })
}

/// What the times of a log's records lie behind the clock of the windows, in seconds.
fn offset(profile: &Profile, options: &Options, job_start_ns: i64) -> f64 {
    let is_unix = options.windows.first().is_some_and(|window| window.is_unix);
    let origin = if is_unix { 0 } else { job_start_ns };
    profile.start_unix_ns.saturating_sub(origin) as f64 / 1e9
}

struct Filling<'a> {
    windows: &'a [Window],
    rows: TableBuilder,
    grouped: Grouped,
}

impl Filling<'_> {
    /// A process that did no I/O on the tiers is a process all the same.
    fn exist(&mut self, process: &str) -> Result<(), TableError> {
        if self.windows.is_empty() {
            return self.rows.add_other(process, None, 0.0);
        }
        for (_, epoch) in self.windows.iter().zip(1..) {
            self.rows.add_other(process, Some(epoch), 0.0)?;
        }
        Ok(())
    }

    fn entry(&mut self, process: &str, entry: &Entry, offset: f64) -> Result<(), TableError> {
        if entry.tier.is_some() && entry.write_s > 0.0 {
            self.grouped.write_s += entry.write_s;
        }
        if self.windows.is_empty() {
            self.grouped.placed += 1;
            return self.add(process, None, entry, (1.0, 1.0));
        }
        let moved = |(start, end): &(f64, f64)| (start + offset, end + offset);
        let reads: Vec<(f64, f64)> = entry.reads.iter().map(moved).collect();
        let used = Use {
            span: entry.span.as_ref().map(moved),
            reads: &reads,
        };
        let Some(split) = epochs::split(self.windows, &used) else {
            if entry.tier.is_some() {
                self.grouped.outside += 1;
                self.grouped.outside_s += entry.read_s + entry.meta_s;
            }
            return Ok(());
        };
        if entry.tier.is_some() {
            self.grouped.placed += 1;
            self.grouped.ambiguous += u64::from(split.is_ambiguous);
        }
        for (place, read, meta) in split.parts {
            // As many epochs as the caller gave windows for.
            let epoch = u32::try_from(place + 1).unwrap_or(u32::MAX);
            self.add(process, Some(epoch), entry, (read, meta))?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        process: &str,
        epoch: Option<u32>,
        entry: &Entry,
        (read, meta): (f64, f64),
    ) -> Result<(), TableError> {
        let (read_s, meta_s) = (entry.read_s * read, entry.meta_s * meta);
        match entry.tier {
            Some(tier) => {
                let (reads, metas) = classes(tier);
                self.rows.add(process, epoch, &reads, read_s)?;
                self.rows.add(process, epoch, &metas, meta_s)
            }
            None => self.rows.add_other(process, epoch, read_s + meta_s),
        }
    }
}

/// A name for each log that no other has: `job-pid` as Darshan writes it in file names, or else
/// the name of the file, or else its path.
fn names(profiles: &[Profile]) -> Vec<String> {
    let stem = |profile: &Profile| {
        let file = profile.file.rsplit('/').next().unwrap_or_default();
        file.strip_suffix(".darshan").unwrap_or(file).to_owned()
    };
    let short = |profile: &Profile| {
        let (job, pid) = ids(&profile.file)?;
        Some(format!("{job}-{pid}"))
    };
    let tries: [Vec<Option<String>>; 2] = [
        profiles.iter().map(short).collect(),
        profiles.iter().map(|profile| Some(stem(profile))).collect(),
    ];
    for names in tries {
        let names: Option<Vec<String>> = names.into_iter().collect();
        if let Some(names) = names.filter(|names| are_different(names)) {
            return names;
        }
    }
    profiles
        .iter()
        .map(|profile| profile.file.clone())
        .collect()
}

fn are_different(names: &[String]) -> bool {
    let mut seen = HashSet::new();
    names.iter().all(|name| seen.insert(name))
}

/// Job and process id in a file name: `user_exe_id3116902-2110488_12-19-….darshan`.
fn ids(file: &str) -> Option<(&str, &str)> {
    let file = file.rsplit('/').next()?;
    let (_, rest) = file.rsplit_once("_id")?;
    let (job, pid) = rest.split('_').next()?.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(job) && digits(pid)).then_some((job, pid))
}

fn process(name: &str, profile: &Profile, logs: usize, rank: i64) -> String {
    if profile.nprocs <= 1 {
        name.to_owned()
    } else if logs == 1 {
        format!("rank {rank}")
    } else {
        format!("{name} rank {rank}")
    }
}

/// The group of each log.
fn group_names(profiles: &[Profile], by: GroupBy) -> Result<Vec<String>, ClassifyError> {
    let of_job = |profile: &Profile| format!("job {}", profile.jobid);
    let of_parent = |profile: &Profile| {
        let own = || ids(&profile.file).map(|(_, pid)| pid.to_owned());
        let parent = profile.fork_parent.clone().or_else(own);
        format!("parent {}", parent.unwrap_or_else(|| profile.file.clone()))
    };
    match by {
        GroupBy::Log => Ok(vec![String::new(); profiles.len()]),
        GroupBy::Job => Ok(profiles.iter().map(of_job).collect()),
        GroupBy::Parent if profiles.iter().all(|one| one.fork_parent.is_none()) => {
            Err(ClassifyError::NoParents)
        }
        GroupBy::Parent => Ok(profiles.iter().map(of_parent).collect()),
    }
}

fn combine(
    rows: &ClassTable,
    groups: &HashMap<String, String>,
    how: Combine,
) -> Result<ClassTable, ClassifyError> {
    let mut members: BTreeMap<(&str, Option<u32>), Vec<&Row>> = BTreeMap::new();
    for row in rows.rows() {
        let group = groups.get(row.process()).map_or(row.process(), |name| name);
        members.entry((group, row.epoch())).or_default().push(row);
    }
    let mut table = ClassTable::builder();
    for ((group, epoch), mut rows_of) in members {
        if how == Combine::Max {
            // The first of equal ones, so that the answer does not depend on luck.
            rows_of.sort_by(|a, b| b.total_s().total_cmp(&a.total_s()));
            rows_of.truncate(1);
        }
        for row in rows_of {
            let of_group = |source| ClassifyError::Log {
                log: group.to_owned(),
                source,
            };
            for (class, seconds) in rows.named(row).pairs() {
                table.add(group, epoch, class, seconds).map_err(of_group)?;
            }
            table
                .add_other(group, epoch, row.other_s())
                .map_err(of_group)?;
        }
    }
    Ok(table.finish())
}
