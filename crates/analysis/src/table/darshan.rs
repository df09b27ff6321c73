//! A Darshan log.

use std::collections::HashMap;
use std::fmt::Write;

use forebay_darshan::{Log, ModuleState};

use super::table;
use crate::text::{self, printable};

/// A log as plain text: job, mounts, modules, and the `top` files with the most I/O time.
#[must_use]
pub fn darshan(name: &str, log: &Log, top: usize) -> String {
    let job = &log.job;
    let mut out = String::new();
    let mut line = |words: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{words}");
    };
    line(format_args!("log       {}", printable(name)));
    line(format_args!(
        "format    Darshan {}, {} endian, {}",
        log.version,
        format!("{:?}", log.order).to_lowercase(),
        format!("{:?}", log.compression).to_lowercase()
    ));
    let started = text::moment(u64::try_from(job.start_unix_ns).unwrap_or(0));
    line(format_args!(
        "job       {}, user {}, processes {}, started {started}, ran {:.3} s",
        job.jobid,
        job.uid,
        job.nprocs,
        job.run_s()
    ));
    line(format_args!("command   {}", printable(&job.exe)));
    for (key, value) in &job.metadata {
        line(format_args!("{:<9} {}", printable(key), printable(value)));
    }
    for mount in &job.mounts {
        let (path, kind) = (printable(&mount.path), printable(&mount.fs_type));
        line(format_args!("mount     {path} ({kind})"));
    }
    for module in &log.modules {
        let state = match module.state {
            ModuleState::Read => format!("records {}", module.records),
            ModuleState::Skipped => "skipped".into(),
        };
        let partial = if module.is_partial { ", partial" } else { "" };
        let (name, version) = (module.module, module.version);
        line(format_args!(
            "module    {name} version {version}, {state}{partial}"
        ));
    }
    for fault in &log.faults {
        line(format_args!("fault     {}", printable(&fault.to_string())));
    }
    out + &files(log, top)
}

/// Sums over the records of one file.
#[derive(Clone, Copy, Default)]
struct File {
    ranks: usize,
    opens: i64,
    bytes_read: i64,
    bytes_written: i64,
    read_s: f64,
    write_s: f64,
    meta_s: f64,
}

impl File {
    /// Adds the record of one rank; counters that were not watched are -1.
    fn add(&mut self, [opens, read, written]: [i64; 3], [read_s, write_s, meta_s]: [f64; 3]) {
        self.ranks += 1;
        self.opens = self.opens.saturating_add(opens.max(0));
        self.bytes_read = self.bytes_read.saturating_add(read.max(0));
        self.bytes_written = self.bytes_written.saturating_add(written.max(0));
        self.read_s += read_s.max(0.0);
        self.write_s += write_s.max(0.0);
        self.meta_s += meta_s.max(0.0);
    }

    fn total_s(&self) -> f64 {
        self.read_s + self.write_s + self.meta_s
    }
}

/// The files of POSIX and of STDIO, each in a table of its own: their records count apart.
fn files(log: &Log, top: usize) -> String {
    let mut posix: HashMap<u64, File> = HashMap::new();
    for record in &log.posix {
        let counts = [record.opens(), record.bytes_read(), record.bytes_written()];
        let times = [record.read_s(), record.write_s(), record.meta_s()];
        posix.entry(record.id).or_default().add(counts, times);
    }
    let mut stdio: HashMap<u64, File> = HashMap::new();
    for record in &log.stdio {
        let counts = [record.opens(), record.bytes_read(), record.bytes_written()];
        let times = [record.read_s(), record.write_s(), record.meta_s()];
        stdio.entry(record.id).or_default().add(counts, times);
    }
    of_module(log, "POSIX file", &posix, top) + &of_module(log, "STDIO file", &stdio, top)
}

fn of_module(log: &Log, head: &str, sums: &HashMap<u64, File>, top: usize) -> String {
    if sums.is_empty() {
        return String::new();
    }
    let mut files: Vec<(&str, File)> = sums
        .iter()
        .map(|(id, file)| (log.name(*id).unwrap_or("(no name in the log)"), *file))
        .collect();
    files.sort_by(|(a_name, a), (b_name, b)| {
        b.total_s().total_cmp(&a.total_s()).then(a_name.cmp(b_name))
    });
    let heads = [
        head, "ranks", "opens", "read", "written", "READ s", "WRITE s", "META s",
    ];
    let rows: Vec<Vec<String>> = files.iter().take(top).map(row).collect();
    let mut out = table(&heads, &rows);
    if files.len() > top {
        out.push_str(&format!("{} more files\n", text::count(files.len() - top)));
    }
    out
}

fn row((name, file): &(&str, File)) -> Vec<String> {
    let bytes = |bytes: i64| text::bytes(bytes.unsigned_abs());
    vec![
        tail(&printable(name), 60),
        file.ranks.to_string(),
        file.opens.to_string(),
        bytes(file.bytes_read),
        bytes(file.bytes_written),
        format!("{:.6}", file.read_s),
        format!("{:.6}", file.write_s),
        format!("{:.6}", file.meta_s),
    ]
}

/// The last `limit` characters: what tells long paths apart is at their ends.
fn tail(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(count + 1 - limit).collect();
    format!("…{kept}")
}
