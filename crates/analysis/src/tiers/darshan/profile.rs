//! What is kept of a log once its files are told apart: small, so that thousands fit.

use std::collections::{BTreeMap, HashMap};

use forebay_darshan::{Log, PosixRecord, records};

use super::place::{self, Prefixes, Tier};
use super::{Options, Shared};
use crate::record::MAX_SECONDS;

/// The I/O of one file by one rank.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) tier: Option<Tier>,
    pub(super) rank: i64,
    pub(super) read_s: f64,
    pub(super) meta_s: f64,
    pub(super) write_s: f64,
    /// First open and last close, in seconds from the start of the log.
    pub(super) span: Option<(f64, f64)>,
    /// Begin and end of traced reads, likewise; only where epochs are asked for.
    pub(super) reads: Vec<(f64, f64)>,
}

/// One log.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) file: String,
    pub(super) jobid: i64,
    pub(super) nprocs: i64,
    pub(super) fork_parent: Option<String>,
    pub(super) start_unix_ns: i64,
    pub(super) end_unix_ns: i64,
    pub(super) version: String,
    pub(super) entries: Vec<Entry>,
}

/// What is found out about all logs on the way.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// Files that each prefix met, in the order of the prefixes.
    pub(super) met: Vec<u64>,
    /// Seconds of reads and metadata operations on files of no tier.
    pub(super) other: BTreeMap<String, f64>,
    /// Shared records and their seconds.
    pub(super) shared: (u64, f64),
    /// Times of files on no tier that are none.
    pub(super) absurd: u64,
    /// Seconds of STDIO on files of a tier.
    pub(super) stdio_s: f64,
    pub(super) warnings: Vec<String>,
}

/// Files of no tier that are told apart; the others are counted together.
const MAX_OTHER: usize = 10_000;

impl Findings {
    /// Old versions of Darshan let times go below 0. On a tier that is an error; elsewhere it
    /// must not keep anybody from the tiers.
    fn without_absurd(&mut self, mut entry: Entry) -> Entry {
        for seconds in [&mut entry.read_s, &mut entry.meta_s] {
            if !(0.0..=MAX_SECONDS).contains(seconds) {
                *seconds = 0.0;
                self.absurd += 1;
            }
        }
        entry
    }

    fn add_other(&mut self, name: &str, seconds: f64) {
        let full = self.other.len() >= MAX_OTHER && !self.other.contains_key(name);
        let name = if full { "(others)" } else { name };
        *self.other.entry(name.to_owned()).or_default() += seconds;
    }
}

impl Profile {
    pub(super) fn new(file: &str, log: &Log, options: &Options, found: &mut Findings) -> Self {
        found.met.resize(options.prefixes.all().len(), 0);
        let reads = if options.windows.is_empty() {
            HashMap::new()
        } else {
            traced_reads(log)
        };
        let mut entries = Vec::with_capacity(log.posix.len());
        for record in &log.posix {
            let tier = tier_of(log, &options.prefixes, record.id, found);
            let Some(entry) = entry(record, tier, log.job.nprocs, options.shared, found) else {
                continue;
            };
            let entry = if tier.is_none() {
                found.without_absurd(entry)
            } else {
                entry
            };
            if tier.is_none() {
                let name = log.name(record.id).unwrap_or("(no name in the log)");
                found.add_other(name, entry.read_s + entry.meta_s);
            }
            let of_file = reads.get(&(record.id, record.rank));
            entries.push(Entry {
                reads: of_file.cloned().unwrap_or_default(),
                ..entry
            });
        }
        found.stdio_s += stdio_s(log, &options.prefixes);
        Self {
            file: file.to_owned(),
            jobid: log.job.jobid,
            nprocs: log.job.nprocs,
            fork_parent: log.job.metadata("fork_parent").map(str::to_owned),
            start_unix_ns: log.job.start_unix_ns,
            end_unix_ns: log.job.end_unix_ns,
            version: log.job.metadata("lib_ver").unwrap_or("?").to_owned(),
            entries,
        }
    }
}

/// The tier of a file, and a note of the prefix that it met.
fn tier_of(log: &Log, prefixes: &Prefixes, id: u64, found: &mut Findings) -> Option<Tier> {
    let name = log.name(id)?;
    if prefixes.all().is_empty() {
        return place::by_mount(&log.job, name);
    }
    let place = prefixes.find(name)?;
    found.met[place] += 1;
    Some(prefixes.all()[place].1)
}

/// `None` for a shared record that is not to be attributed.
fn entry(
    record: &PosixRecord,
    tier: Option<Tier>,
    nprocs: i64,
    shared: Shared,
    found: &mut Findings,
) -> Option<Entry> {
    let whole = Entry {
        tier,
        rank: record.rank,
        read_s: settled(record.read_s()),
        meta_s: settled(record.meta_s()),
        write_s: settled(record.write_s()),
        span: span(record),
        reads: Vec::new(),
    };
    if record.rank != records::SHARED {
        return Some(whole);
    }
    if nprocs == 1 {
        // The sum over one rank is that rank's own.
        return Some(Entry { rank: 0, ..whole });
    }
    if tier.is_some() {
        found.shared.0 += 1;
        found.shared.1 += (whole.read_s + whole.meta_s).max(0.0);
    }
    match shared {
        Shared::Warn => None,
        Shared::Slowest => Some(of_slowest(record, whole)),
    }
}

/// Darshan takes overlaps of operations out of its sums, and rounding can leave some microseconds
/// below 0 of what took no time. Whatever is further below is no time.
fn settled(seconds: f64) -> f64 {
    const ROUNDING_S: f64 = 1e-3;
    if (-ROUNDING_S..0.0).contains(&seconds) {
        0.0
    } else {
        seconds
    }
}

/// The slowest rank's time, shared among kinds of operation as the sums over all ranks are.
fn of_slowest(record: &PosixRecord, whole: Entry) -> Entry {
    let sum = whole.read_s + whole.write_s + whole.meta_s;
    let share = if sum > 0.0 {
        record.slowest_rank_s() / sum
    } else {
        0.0
    };
    Entry {
        rank: record.slowest_rank(),
        read_s: whole.read_s * share,
        meta_s: whole.meta_s * share,
        write_s: whole.write_s * share,
        ..whole
    }
}

/// From the first open to the last close; a file that was only looked at has neither.
fn span(record: &PosixRecord) -> Option<(f64, f64)> {
    let (start, end) = (record.open_start_s(), record.close_end_s());
    (start > 0.0 && end >= start).then_some((start, end))
}

fn traced_reads(log: &Log) -> HashMap<(u64, i64), Vec<(f64, f64)>> {
    let mut reads: HashMap<_, Vec<_>> = HashMap::new();
    for record in &log.dxt_posix {
        let times = record.reads.iter().map(|read| (read.start_s, read.end_s));
        let of_file = reads.entry((record.id, record.rank)).or_default();
        of_file.extend(times);
    }
    reads
}

/// Seconds of STDIO on files of a tier: they are no part of the classes.
fn stdio_s(log: &Log, prefixes: &Prefixes) -> f64 {
    let on_tier = |id: u64| {
        log.name(id).is_some_and(|name| match prefixes.all() {
            [] => place::by_mount(&log.job, name).is_some(),
            _ => prefixes.find(name).is_some(),
        })
    };
    let records = log.stdio.iter().filter(|record| on_tier(record.id));
    records
        .map(|record| (record.meta_s() + record.read_s()).max(0.0))
        .sum()
}
