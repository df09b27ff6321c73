//! A data set written by one rank.

use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::dataset::{self, Plan, Times, Writer};
use super::flat::sync_folder;
use crate::folder::Folder;
use crate::spec::Fsync;
use crate::workload::{Registration, Stage, Work, Workload};
use crate::{BenchError, Kind, Op, Param, Params, Result, Verify, content, files};

pub(super) const REGISTRATION: Registration = Registration {
    category: "Data generation",
    help: "Write files of several sizes with content that can be made again",
    params: &[
        Param::new(
            "sizes",
            Kind::Sizes,
            "8KiB,64KiB,1MiB,16MiB",
            "bytes of a file of each class, 8 KiB to 1 GiB in the paper",
        ),
        Param::new("copies_per_size", Kind::Count, "8", "files of each class"),
        Param::new(
            "total_size",
            Kind::Size,
            "0",
            "bytes of all files of a class, in place of their number",
        ),
        Param::new(
            "dir_shards",
            Kind::Count,
            "1",
            "folders that the files are spread over",
        ),
    ],
    samples: |params| Ok(plan(params, 0)?.count().saturating_mul(6)),
    ..Registration::new("create_dataset", |params| {
        Ok(Box::new(CreateDataset {
            plan: plan(params, 0)?,
            root: None,
        }))
    })
};

/// The most files of a data set.
const MOST: u64 = 10_000_000;

fn plan(params: &Params, seed: u64) -> Result<Plan> {
    let (copies, total) = (
        params.count("copies_per_size")?,
        params.count("total_size")?,
    );
    let sizes = params.sizes("sizes")?;
    let class = |&size: &u64| match total {
        0 => (size, copies),
        total => (size, total.div_ceil(size.max(1))),
    };
    let plan = Plan {
        classes: sizes.iter().map(class).collect(),
        shards: params.positive("dir_shards")?,
        seed,
    };
    if plan.count() == 0 || plan.count() > MOST || plan.shards > 100_000 {
        return Err(BenchError::Usage(format!(
            "a data set has 1 to {MOST} files in at most 100000 folders: {} and {}",
            plan.count(),
            plan.shards
        )));
    }
    Ok(plan)
}

struct CreateDataset {
    plan: Plan,
    root: Option<Folder>,
}

/// A number of bytes in its greatest whole unit.
fn class_name(size: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units
        .iter()
        .find(|(bits, _)| size >> bits > 0 && size.is_multiple_of(1 << bits));
    match unit {
        Some((bits, unit)) => format!("file_{}{unit}", size >> bits),
        None => format!("file_{size}B"),
    }
}

struct Ops {
    parts: [Op; 5],
    classes: Vec<Op>,
}

impl Ops {
    fn new(at: &mut Stage<'_>, plan: &Plan) -> Self {
        let parts = ["open", "write", "fsync", "close", "file_total"].map(|name| at.op(name));
        let class = |&(size, _): &(u64, u64)| at.op(&class_name(size));
        Self {
            parts,
            classes: plan.classes.iter().map(class).collect(),
        }
    }

    fn add(&self, at: &mut Stage<'_>, class: usize, times: &Times) {
        let [open, write, fsync, close, total] = self.parts;
        at.recorder.add(open, times.open);
        at.recorder.add(write, times.write);
        if at.spec.fsync != Fsync::None {
            at.recorder.add(fsync, times.fsync);
        }
        at.recorder.add(close, times.close);
        at.recorder.add(total, times.total());
        at.recorder.add(self.classes[class], times.total());
    }
}

impl CreateDataset {
    fn write(&self, at: &mut Stage<'_>, root: &Folder) -> Result<Duration> {
        let ops = Ops::new(at, &self.plan);
        let mut writer = Writer::new(&self.plan, root)?;
        let mut paused = Duration::ZERO;
        for (class, size) in self.plan.sizes() {
            at.go_on()?;
            let times = writer.write(at, size, at.spec.fsync)?;
            ops.add(at, class, &times);
            paused += times.paused;
        }
        writer.finish()?;
        if at.spec.fsync == Fsync::FileAndFolder {
            sync_folder(root)?;
        }
        Ok(paused)
    }

    /// Compares the first, a middle and the last part of a file with what it should be.
    fn is_right(
        &self,
        at: &Stage<'_>,
        root: &Folder,
        index: u64,
        entry: &dataset::Entry,
    ) -> Result<bool> {
        const PART: u64 = 64 << 10;
        let path = root.path().join(&entry.path);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fault = |act| BenchError::os(act, &path);
        let file = rustix::fs::open(&path, flags, Mode::empty()).map_err(fault("open"))?;
        let stat = rustix::fs::fstat(&file).map_err(fault("look at"))?;
        let end = entry.bytes.saturating_sub(PART);
        for offset in [0, end / 2, end] {
            at.go_on()?;
            rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(offset)).map_err(fault("read"))?;
            let mut found = vec![0; PART.min(entry.bytes - offset) as usize];
            let read = files::read_full(&file, &mut found).map_err(fault("read"))?;
            let mut wanted = vec![0; found.len()];
            content::deterministic(self.plan.seed, index, offset, &mut wanted);
            if read != found.len() || found != wanted {
                return Ok(false);
            }
        }
        Ok(stat.st_size as u64 == entry.bytes)
    }
}

impl Workload for CreateDataset {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        self.plan.seed = at.spec.seed;
        Ok(())
    }

    fn set_up(&mut self, at: &mut Stage<'_>) -> Result<()> {
        if at.is_first() {
            self.root = Some(at.shared.make(&format!("dataset-{:05}", at.iteration))?);
        }
        Ok(())
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        // One rank writes; the others wait at the barrier after this.
        let Some(root) = self.root.take() else {
            return Ok(Work::default());
        };
        let paused = self.write(at, &root);
        self.root = Some(root);
        Ok(Work {
            ops: self.plan.count(),
            bytes: self.plan.bytes(),
            paused: paused?,
        })
    }

    fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify> {
        let mut found = Verify::default();
        let Some(root) = &self.root else {
            return Ok(found);
        };
        let entries = dataset::read(at, root.path())?;
        found.checked = self.plan.count().max(entries.len() as u64);
        found.bad = found.checked - (entries.len() as u64).min(self.plan.count());
        for (index, entry) in entries.iter().enumerate() {
            found.bad += u64::from(!self.is_right(at, root, index as u64, entry)?);
        }
        Ok(found)
    }

    fn tear_down(&mut self, at: &mut Stage<'_>) -> Result<()> {
        if self.root.take().is_none() {
            return Ok(());
        }
        at.shared.remove(&format!("dataset-{:05}", at.iteration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_named_by_their_size() {
        let names = [1, 8 << 10, 1 << 20, 3 << 30, 1536].map(class_name);
        assert_eq!(
            names,
            [
                "file_1B",
                "file_8KiB",
                "file_1MiB",
                "file_3GiB",
                "file_1536B"
            ]
        );
    }
}
