//! fio, where it is installed: its figures in the same records.
//!
//! fio keeps no single latency, so each iteration gives one sample of each of its percentiles.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::workload::{Registration, Stage, Work, Workload};
use crate::{BenchError, Kind, Param, Params, Result, Verify, program};

pub(super) const REGISTRATION: Registration = Registration {
    category: "External",
    help: "Run fio and record its latencies",
    params: &[
        Param::new(
            "rw",
            Kind::Choice(&[
                "read",
                "write",
                "randread",
                "randwrite",
                "readwrite",
                "randrw",
            ]),
            "randread",
            "what it does",
        ),
        Param::new("bs", Kind::Size, "4KiB", "bytes of one operation"),
        Param::new("size", Kind::Size, "64MiB", "bytes of the file of each job"),
        Param::new(
            "runtime_s",
            Kind::Count,
            "5",
            "seconds of an iteration; 0: until the file is done",
        ),
        Param::new("ioengine", Kind::Text, "psync", "fio's engine"),
        Param::new("iodepth", Kind::Count, "1", "operations in flight"),
        Param::new("numjobs", Kind::Count, "1", "jobs of each rank"),
        Param::new("direct", Kind::Flag, "false", "past the page cache"),
        Param::new(
            "jobfile",
            Kind::Path,
            "",
            "fio's own job file, in place of all of these",
        ),
    ],
    ..Registration::new("fio", |params| Ok(Box::new(Fio::new(params)?)))
};

struct Fio {
    arguments: Vec<String>,
    jobfile: Option<PathBuf>,
    failed: u64,
}

impl Fio {
    fn new(params: &Params) -> Result<Self> {
        let mut arguments = vec!["--name=forebay".to_owned()];
        for name in ["rw", "ioengine"] {
            arguments.push(format!("--{name}={}", params.text(name)?));
        }
        for name in ["bs", "size", "iodepth", "numjobs"] {
            arguments.push(format!("--{name}={}", params.positive(name)?));
        }
        arguments.push(format!("--direct={}", u8::from(params.flag("direct")?)));
        let seconds = params.count("runtime_s")?;
        if seconds > 0 {
            arguments.extend([format!("--runtime={seconds}"), "--time_based".to_owned()]);
        }
        Ok(Self {
            arguments,
            jobfile: params.path("jobfile")?,
            failed: 0,
        })
    }

    /// Takes the figures of one run of fio into the records.
    fn record(&mut self, at: &mut Stage<'_>, said: &[u8], took: Duration) -> Result<Work> {
        let wrong = |what: &str| BenchError::Content(format!("fio's answer has no {what}"));
        // Some versions warn on stdout before the document begins.
        let start = said
            .iter()
            .position(|byte| *byte == b'{')
            .ok_or_else(|| wrong("JSON"))?;
        let answer: Value = serde_json::from_slice(&said[start..])
            .map_err(|error| BenchError::Content(format!("fio's answer is no JSON: {error}")))?;
        let jobs = answer["jobs"].as_array().ok_or_else(|| wrong("jobs"))?;
        let mut work = Work::default();
        let mut longest_ms = 0;
        self.failed = 0;
        for job in jobs {
            self.failed += u64::from(job["error"].as_u64().unwrap_or(1) != 0);
            for kind in ["read", "write"] {
                let figures = &job[kind];
                let ops = figures["total_ios"].as_u64().unwrap_or(0);
                if ops == 0 {
                    continue;
                }
                work.ops += ops;
                work.bytes += figures["io_bytes"].as_u64().unwrap_or(0);
                longest_ms = longest_ms.max(figures["runtime"].as_u64().unwrap_or(0));
                self.latencies(at, kind, &figures["clat_ns"]);
            }
        }
        if longest_ms > 0 && self.jobfile.is_none() {
            // Its start, and the making of its files, are no part of what it measures. The jobs of a
            // file may run one after another, and the longest of them says nothing of all.
            work.paused = took.saturating_sub(Duration::from_millis(longest_ms));
        }
        Ok(work)
    }

    fn latencies(&self, at: &mut Stage<'_>, kind: &str, latency: &Value) {
        let percentiles = &latency["percentile"];
        let figures = [
            ("mean", &latency["mean"]),
            ("max", &latency["max"]),
            ("p50", &percentiles["50.000000"]),
            ("p90", &percentiles["90.000000"]),
            ("p99", &percentiles["99.000000"]),
            ("p999", &percentiles["99.900000"]),
        ];
        for (name, value) in figures {
            if let Some(nanoseconds) = value.as_f64() {
                let op = at.op(&format!("{kind}_{name}"));
                at.recorder.add(op, nanoseconds.round() as u64);
            }
        }
    }
}

impl Workload for Fio {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        let mut version = Command::new("fio");
        program::run_well(version.arg("--version"), &|| at.go_on()).map_err(|error| {
            BenchError::Usage(format!("{error}: install fio, or leave this benchmark out"))
        })?;
        if let Some(jobfile) = &mut self.jobfile {
            // fio runs in a folder of its own.
            *jobfile = std::path::absolute(&*jobfile).map_err(BenchError::io("find", jobfile))?;
        }
        at.own.make("fio").map(|_| ())
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let folder = at.own.path().join("fio");
        let mut command = Command::new("fio");
        command.arg("--output-format=json");
        // Files are made in the run's folder, and left for the next iteration.
        command.current_dir(&folder);
        match &self.jobfile {
            Some(jobfile) => command.arg(jobfile),
            None => command
                .args(&self.arguments)
                .arg(format!("--directory={}", folder.display()))
                .arg(format!("--randseed={}", at.spec.seed)),
        };
        let began = Instant::now();
        let ended = program::run_well(&mut command, &|| at.go_on())?;
        self.record(at, &ended.stdout, began.elapsed())
    }

    fn verify(&mut self, _at: &mut Stage<'_>) -> Result<Verify> {
        Ok(Verify {
            checked: self.failed.max(1),
            bad: self.failed,
        })
    }
}
