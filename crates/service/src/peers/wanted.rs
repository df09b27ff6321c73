//! Blocks that a member asked for, and the way to send them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use forebay_cache::{Cache, Job, Lent, jobs};
use forebay_dataset::{ByteRange, ErrorKind, Fingerprint, ShardIndex};
use forebay_transport::{LinkWriter, Loan, Loans};
use forebay_wire::{Answer, BlockRun, MAX_LENT};

use super::Peers;
use crate::link::Refusal;
use crate::stage::{OpenDataset, Readers};

/// Bytes of blocks in one frame, or lent by one.
const FRAME_BYTES: u64 = MAX_LENT as u64;
/// Fewer bytes are sent over the link: a read over the fabric costs more than they do.
const SMALLEST_LOAN: u64 = 128 << 10;

/// Where an answer goes: a link of the transport, or a simulated one.
pub(crate) trait AnswerTo {
    /// Sends a frame.
    fn send(&self, frame: &[u8]) -> io::Result<()>;

    /// Sends a frame, and bytes of a file after it.
    fn send_file(&self, frame: &[u8], file: &File, offset: u64, len: u64) -> io::Result<()>;
}

impl AnswerTo for LinkWriter {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        Self::send(self, frame)
    }

    fn send_file(&self, frame: &[u8], file: &File, offset: u64, len: u64) -> io::Result<()> {
        Self::send_file(self, frame, file, offset, len)
    }
}

/// Blocks that a member wants, all of a data set that is open here.
pub(crate) struct Wanted {
    open: OpenDataset,
    runs: Vec<(ShardIndex, Range<u64>)>,
}

impl Wanted {
    /// Checks what a member asks for.
    pub(crate) fn check(
        peers: &Peers,
        generation: u128,
        runs: Vec<BlockRun>,
    ) -> Result<Self, Refusal> {
        let open = peers.offered(generation).ok_or_else(|| {
            let message = format!("data set {generation:032x} is not open here");
            Refusal::new(ErrorKind::NotFound, message)
        })?;
        let check = |run: BlockRun| check_run(&open, run);
        let runs = runs.into_iter().map(check).collect::<Result<_, _>>()?;
        Ok(Self { open, runs })
    }

    fn ranges(&self) -> impl Iterator<Item = (ShardIndex, ByteRange)> {
        let size = u64::from(self.open.dataset.index().block_size().bytes());
        self.runs.iter().filter_map(move |(shard, blocks)| {
            let len = (blocks.end - blocks.start) * size;
            Some((*shard, ByteRange::new(blocks.start * size, len).ok()?))
        })
    }

    /// True if all of it can be sent now.
    pub(crate) fn is_resident(&self, cache: &Cache) -> bool {
        self.ranges()
            .all(|(shard, range)| cache.is_resident(&self.open.dataset, shard, range))
    }

    /// Makes it resident, as far as there is room.
    pub(crate) fn fill(&self, readers: &Readers, deadline: Instant) -> Result<(), Refusal> {
        let ranges: Vec<_> = self.ranges().collect();
        let jobs: Vec<Job> = jobs(&ranges, self.open.dataset.index().block_size());
        let staged = readers.stage(&self.open, jobs, deadline, None);
        // What there is no room for is missing from the answer.
        staged.map_err(|error| Refusal::of(error.kind(), &error))?;
        Ok(())
    }

    /// The device did not give what the map promised: the next who asks must not meet it again.
    fn distrust(&self, cache: &Cache, shard: ShardIndex, lent: &Lent, error: &io::Error) {
        let is_devices = error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
        if let Some(range) = ByteRange::new(lent.offset(), lent.len())
            .ok()
            .filter(|_| is_devices)
        {
            let _ = cache.distrust(&self.open.dataset, shard, range);
        }
    }

    /// Sends what is resident of it, or lends it where that may be.
    pub(crate) fn send(
        &self,
        cache: &Cache,
        writer: &dyn AnswerTo,
        loans: Option<&Loans>,
        id: u64,
    ) -> io::Result<()> {
        let mut complete = true;
        for (shard, blocks) in &self.runs {
            let mut at = blocks.start;
            while at < blocks.end {
                let lent = cache.lend(&self.open.dataset, *shard, &(at..blocks.end), FRAME_BYTES);
                let Ok(Some(lent)) = lent else {
                    complete = false;
                    at += 1;
                    continue;
                };
                at += lent.checksums().len() as u64;
                let first = at - lent.checksums().len() as u64;
                match loans.map_or(Ok(None), |loans| loan(loans, &lent)) {
                    Ok(Some(loan)) => {
                        writer.send(&told(id, loan, *shard, first, &lent).encode())?;
                    }
                    Ok(None) => {
                        let sent = send_over_link(writer, id, *shard, first, &lent);
                        sent.inspect_err(|error| self.distrust(cache, *shard, &lent, error))?;
                    }
                    Err(error) => {
                        // Nothing was said of them yet, so the link is as good as it was.
                        self.distrust(cache, *shard, &lent, &error);
                        complete = false;
                    }
                }
            }
        }
        writer.send(&Answer::Ended { id, complete }.encode())
    }
}

/// Puts blocks where the other side reads them, if they are worth it and there is room.
fn loan(loans: &Loans, lent: &Lent) -> io::Result<Option<Loan>> {
    if !(SMALLEST_LOAN..=FRAME_BYTES).contains(&lent.len()) {
        return Ok(None);
    }
    let fill = |bytes: &mut [u8]| lent.file().read_exact_at(bytes, lent.offset());
    loans.lend(lent.len() as usize, fill)
}

fn told(id: u64, loan: Loan, shard: ShardIndex, first: u64, lent: &Lent) -> Answer {
    Answer::Lent {
        id,
        loan: loan.number,
        offset: loan.offset,
        shard: shard.0,
        first,
        body_len: lent.len() as u32,
        checksums: lent.checksums().to_vec(),
    }
}

fn send_over_link(
    writer: &dyn AnswerTo,
    id: u64,
    shard: ShardIndex,
    first: u64,
    lent: &Lent,
) -> io::Result<()> {
    let blocks = Answer::Blocks {
        id,
        shard: shard.0,
        first,
        body_len: lent.len() as u32,
        checksums: lent.checksums().to_vec(),
    };
    writer.send_file(&blocks.encode(), lent.file(), lent.offset(), lent.len())
}

/// A run that lies in one file, the same that the asker's index has there.
fn check_run(open: &OpenDataset, run: BlockRun) -> Result<(ShardIndex, Range<u64>), Refusal> {
    let index = open.dataset.index();
    let size = u64::from(index.block_size().bytes());
    let shard = ShardIndex(run.shard);
    let blocks = run.first..run.first + u64::from(run.count);
    let outside = || {
        let Range { start, end } = blocks.clone();
        let message = format!(
            "blocks [{start}, {end}) of shard {} are in no one file",
            shard.0
        );
        Refusal::new(ErrorKind::InvalidInput, message)
    };
    let start = blocks.start.checked_mul(size).ok_or_else(outside)?;
    let segment = index.segment_at(shard, start).ok().flatten();
    let segment = index.segment(segment.ok_or_else(outside)?);
    let segment = segment.map_err(|error| Refusal::of(error.kind(), &error))?;
    let segment_end = segment.shard_start + segment.fingerprint.size;
    if blocks.end > segment_end.div_ceil(size) {
        return Err(outside());
    }
    let asked = Fingerprint {
        size: run.file_size,
        mtime_ns: run.file_mtime_ns,
        inode: run.file_inode,
    };
    if asked != segment.fingerprint {
        let message = format!("origin file `{}` is another one here", segment.path);
        return Err(Refusal::new(ErrorKind::Stale, message));
    }
    Ok((shard, blocks))
}
