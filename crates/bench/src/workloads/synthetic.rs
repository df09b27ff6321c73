//! Files that come, are sized and are filled by distributions.

mod data;
mod params;

use std::ffi::CString;
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use forebay_analysis::random::Random;
use rustix::fs::{OFlags, fsync};
use serde::Serialize;

use super::distribution::{Arrival, Sizes};
use super::flat::sync_folder;
use crate::folder::Folder;
use crate::measure::nanoseconds;
use crate::spec::Fsync;
use crate::workload::{Registration, Stage, Work, Workload};
use crate::{BenchError, Op, Params, Result, Verify, files, sys};
use data::{CHUNK, Data};
use params::PARAMS;

pub(super) const REGISTRATION: Registration = Registration {
    category: "Data generation",
    help: "Write files whose times, sizes and content follow distributions",
    params: PARAMS,
    samples: |params| Ok(params.count("num_files")?.saturating_mul(6)),
    ..Registration::new("create_synthetic_workload", |params| {
        Ok(Box::new(Synthetic::new(params)?))
    })
};

/// The most files; their plan is in memory.
const MOST: u64 = 10_000_000;

/// One file of the plan.
#[derive(Clone, Copy, Debug)]
struct Planned {
    at: Duration,
    size: u64,
}

/// A line of the trace. Times are seconds after the start of the iteration.
#[derive(Serialize)]
struct Line {
    idx: u64,
    t_planned: f64,
    t_start: f64,
    size: u64,
    t_done: f64,
}

struct Synthetic {
    count: u64,
    arrival: Arrival,
    sizes: Sizes,
    simulate: bool,
    data: Data,
    plan: Vec<Planned>,
    buffer: Vec<u8>,
    folder: Option<Folder>,
    trace: Vec<(f64, f64)>,
}

impl Synthetic {
    fn new(params: &Params) -> Result<Self> {
        let count = params.positive("num_files")?;
        if count > MOST {
            return Err(BenchError::Usage(format!(
                "`num_files` must be at most {MOST}: {count}"
            )));
        }
        Ok(Self {
            count,
            arrival: Arrival::new(params)?,
            sizes: Sizes::new(params)?,
            simulate: params.flag("simulate_arrivals")?,
            data: Data::new(params)?,
            plan: Vec::new(),
            buffer: Vec::new(),
            folder: None,
            trace: Vec::new(),
        })
    }

    fn name(index: u64) -> CString {
        // A name of letters, digits, `_` and `.` holds no zero byte.
        CString::new(format!("file_{index}.dat")).unwrap_or_default()
    }

    /// Sleeps until `due`, but not beyond the end of the run.
    fn wait(at: &Stage<'_>, began: Instant, due: Duration) -> Result<()> {
        loop {
            at.go_on()?;
            let left = due.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    /// Writes one file; the time that was spent on its content.
    fn one(
        &mut self,
        at: &mut Stage<'_>,
        ops: &[Op; 5],
        index: u64,
        folder: &Folder,
    ) -> Result<Duration> {
        let [open, write, fsync_op, close, total] = *ops;
        let (size, name) = (self.plan[index as usize].size, Self::name(index));
        let path = folder.path().join(format!("file_{index}.dat"));
        let fault = |act| BenchError::os(act, &path);
        let filling = Instant::now();
        // The first chunk is made before the file is opened; for most files it is the only one.
        let first = size.min(CHUNK) as usize;
        self.data
            .fill(at.spec.seed, index, 0, &mut self.buffer[..first])?;
        let mut paused = filling.elapsed();
        let mut lap = at.recorder.lap();
        let file = files::create(folder, &name, OFlags::empty()).map_err(fault("create"))?;
        at.recorder.part(&mut lap, open);
        let (mut offset, mut writing) = (0, Duration::ZERO);
        while offset < size {
            at.go_on()?;
            let take = (size - offset).min(CHUNK) as usize;
            if offset > 0 {
                let filling = Instant::now();
                self.data
                    .fill(at.spec.seed, index, offset, &mut self.buffer[..take])?;
                paused += filling.elapsed();
            }
            let clock = Instant::now();
            files::write_all(&file, &self.buffer[..take]).map_err(fault("write"))?;
            writing += clock.elapsed();
            offset += take as u64;
        }
        at.recorder.add(write, nanoseconds(writing));
        let mut lap = at.recorder.lap();
        let ending = Instant::now();
        if at.spec.fsync != Fsync::None {
            fsync(&file).map_err(fault("write back"))?;
            at.recorder.part(&mut lap, fsync_op);
        }
        sys::close(file).map_err(BenchError::io("close", &path))?;
        at.recorder.part(&mut lap, close);
        at.recorder
            .add(total, nanoseconds(writing + ending.elapsed()));
        Ok(paused)
    }

    fn write_trace(&self, at: &Stage<'_>) -> Result<()> {
        let path = at.output.join(format!("trace-{:05}.jsonl", at.iteration));
        let write = || -> std::io::Result<()> {
            let mut file = BufWriter::new(std::fs::File::create(&path)?);
            for (index, (planned, (start, done))) in self.plan.iter().zip(&self.trace).enumerate() {
                let line = Line {
                    idx: index as u64,
                    t_planned: planned.at.as_secs_f64(),
                    t_start: *start,
                    size: planned.size,
                    t_done: *done,
                };
                serde_json::to_writer(&mut file, &line)?;
                file.write_all(b"\n")?;
            }
            file.flush()
        };
        write().map_err(BenchError::io("write", &path))
    }
}

impl Workload for Synthetic {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        let mut random = Random::new(at.spec.seed);
        let times = self.arrival.times(self.count, &mut random)?;
        let planned = |at| Planned {
            at,
            size: self.sizes.draw(&mut random),
        };
        self.plan = times.into_iter().map(planned).collect();
        let largest = self.plan.iter().map(|one| one.size).max().unwrap_or(0);
        self.buffer = vec![0; largest.min(CHUNK) as usize];
        Ok(())
    }

    fn set_up(&mut self, at: &mut Stage<'_>) -> Result<()> {
        if at.is_first() {
            self.folder = Some(at.shared.make(&format!("synthetic-{:05}", at.iteration))?);
            self.trace = Vec::with_capacity(self.plan.len());
        }
        Ok(())
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        // One rank writes; the others wait at the barrier after this.
        let Some(folder) = self.folder.take() else {
            return Ok(Work::default());
        };
        let ops = ["open", "write", "fsync", "close", "file_total"].map(|name| at.op(name));
        let lateness = at.op("arrival_lateness");
        let began = Instant::now();
        let (mut work, mut asleep) = (Work::default(), Duration::ZERO);
        for index in 0..self.count {
            let due = self.plan[index as usize].at;
            if self.simulate {
                let before = began.elapsed();
                Self::wait(at, began, due)?;
                asleep += began.elapsed() - before;
                // Arrivals do not wait for the file before: a late one is late.
                let late = began.elapsed().saturating_sub(due);
                at.recorder.add(lateness, nanoseconds(late));
            }
            at.go_on()?;
            let start = began.elapsed().as_secs_f64();
            work.paused += self.one(at, &ops, index, &folder)?;
            self.trace.push((start, began.elapsed().as_secs_f64()));
            work.ops += 1;
            work.bytes += self.plan[index as usize].size;
        }
        if at.spec.fsync == Fsync::FileAndFolder {
            sync_folder(&folder)?;
        }
        work.paused += asleep;
        self.folder = Some(folder);
        Ok(work)
    }

    fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify> {
        let mut found = Verify::default();
        let Some(folder) = &self.folder else {
            return Ok(found);
        };
        self.write_trace(at)?;
        let mut wanted = vec![0; 64 << 10];
        for (index, planned) in self.plan.iter().enumerate() {
            at.go_on()?;
            let path = folder.path().join(format!("file_{index}.dat"));
            let bytes = std::fs::symlink_metadata(&path)
                .map(|found| found.len())
                .ok();
            let mut good = bytes == Some(planned.size);
            if good && self.data.is_repeatable() {
                let take = planned.size.min(wanted.len() as u64) as usize;
                self.data
                    .fill(at.spec.seed, index as u64, 0, &mut wanted[..take])?;
                let file = std::fs::File::open(&path).map_err(BenchError::io("open", &path))?;
                let mut begin = vec![0; take];
                let read = files::read_full(&file, &mut begin);
                good = read.is_ok_and(|count| count == take) && begin == wanted[..take];
            }
            found.checked += 1;
            found.bad += u64::from(!good);
        }
        Ok(found)
    }

    fn tear_down(&mut self, at: &mut Stage<'_>) -> Result<()> {
        if self.folder.take().is_none() {
            return Ok(());
        }
        at.shared.remove(&format!("synthetic-{:05}", at.iteration))
    }
}
