//! Reads parts: locally, else by the daemon, else from the origin.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use forebay_dataset::decode::Scratch;
use forebay_dataset::{ByteRange, ErrorKind, IndexError, RangeError, ShardIndex};
use forebay_residency::{Counter, ReadOutcome, TakenMemory};
use forebay_wire::{HandedRange, MAX_HANDED, StageRange};

use crate::answers::{Served, Timed};
use crate::dataset::Dataset;
use crate::error::ClientError;
use crate::link;
use crate::parts::{Part, Target, decode_error};

/// Times that the daemon is asked for a range that it evicts before it is read.
const STAGE_TRIES: u32 = 3;
/// Bytes of an object that are asked for at one time where there is no room for all.
const PIECE: usize = 1 << 20;

/// What became of parts that the daemon was asked for.
enum Answer {
    /// Their bytes are in the output.
    Filled,
    /// They can be read from the block files.
    Resident,
    /// Not all of them became resident.
    Absent,
}

#[derive(Default)]
struct Decoding {
    stored: Vec<u8>,
    scratch: Scratch,
}

thread_local! {
    static DECODING: RefCell<Decoding> = RefCell::default();
}

impl Dataset {
    /// Reads every part into `out`.
    pub(crate) fn read_parts(&self, parts: Vec<Part>, out: &mut [u8]) -> Result<(), ClientError> {
        let _reading = Timed::reading();
        let mut missing = self.read_resident(parts, out, Served::Local)?;
        if missing.is_empty() {
            return Ok(());
        }
        let _waiting = Timed::waiting();
        let _at_origin = self.at_origin(&missing);
        let deadline = Instant::now() + self.deadline;
        for _ in 0..STAGE_TRIES {
            match self.stage_parts(&missing, out, deadline)? {
                Answer::Filled => return Ok(()),
                Answer::Resident => {}
                Answer::Absent => break,
            }
            missing = self.read_resident(missing, out, Served::Staged)?;
            if missing.is_empty() {
                return Ok(());
            }
        }
        // No daemon, no room, or evicted faster than read: what is there now, then the origin.
        for part in self.read_resident(missing, out, Served::Staged)? {
            if self.in_store {
                self.read_through(&part, out, deadline)?;
            } else {
                self.read_direct(&part, out)?;
            }
        }
        Ok(())
    }

    /// Reads what is resident; returns the rest.
    fn read_resident(
        &self,
        parts: Vec<Part>,
        out: &mut [u8],
        served: Served,
    ) -> Result<Vec<Part>, ClientError> {
        let mut missing = Vec::new();
        for part in parts {
            let done = self.with_output(&part, out, |bytes| {
                self.read_local(part.shard, part.range, bytes)
            })?;
            if done {
                self.count(part.shard, part.range.len(), served);
            } else {
                missing.push(part);
            }
        }
        Ok(missing)
    }

    /// Reads one range from the block file if it is resident.
    pub(crate) fn read_local(
        &self,
        shard: ShardIndex,
        range: ByteRange,
        out: &mut [u8],
    ) -> Result<bool, ClientError> {
        let Some(open) = self.process().shards.get(&self.index, shard)? else {
            return Ok(false);
        };
        match open.read(range, out) {
            ReadOutcome::Done => Ok(true),
            ReadOutcome::Absent => Ok(false),
            ReadOutcome::Failed(_) => {
                let range = StageRange {
                    shard: shard.0,
                    start: range.start(),
                    len: range.len(),
                };
                link::distrust(&self.target, range, Instant::now() + Duration::from_secs(5))?;
                Ok(false)
            }
        }
    }

    /// Asks the daemon for the parts, which it may hand over.
    fn stage_parts(
        &self,
        parts: &[Part],
        out: &mut [u8],
        deadline: Instant,
    ) -> Result<Answer, ClientError> {
        let places = match are_plain(parts) {
            true => self.absent_places(parts, out)?,
            false => Vec::new(),
        };
        let ranges: Vec<_> = match places.is_empty() {
            true => (parts.iter())
                .map(|part| stage_range(part.shard, part.range))
                .collect(),
            false => places.iter().map(|(range, _)| *range).collect(),
        };
        let mut is_handed = false;
        let mut take = |memory: &TakenMemory, from: &[HandedRange]| {
            fill(&places, memory, from, out)?;
            is_handed = true;
            Ok(())
        };
        let take: Option<&mut link::Take<'_>> = (!places.is_empty()).then_some(&mut take);
        let complete = self.ask_for(&ranges, deadline, take)?;
        // The rest of the parts was read before.
        let is_filled = complete && (is_handed || self.read_places(&places, out)?);
        if is_filled && !places.is_empty() {
            let parts = parts.iter();
            parts.for_each(|part| self.count(part.shard, part.range.len(), Served::Staged));
            return Ok(Answer::Filled);
        }
        // A map that has nothing of what the daemon just staged may have been replaced.
        let stale: BTreeSet<_> = parts
            .iter()
            .filter(|part| complete && !self.is_resident(part.shard, part.range))
            .map(|part| part.shard)
            .collect();
        stale
            .into_iter()
            .for_each(|shard| self.process().shards.forget(shard));
        Ok(if complete {
            Answer::Resident
        } else {
            Answer::Absent
        })
    }

    /// Asks the daemon to make ranges resident; false if it cannot be asked or has no room.
    pub(crate) fn stage_ranges(
        &self,
        ranges: &[StageRange],
        deadline: Instant,
    ) -> Result<bool, ClientError> {
        self.ask_for(ranges, deadline, None)
    }

    /// The same, where the daemon may hand bytes over instead.
    fn ask_for(
        &self,
        ranges: &[StageRange],
        deadline: Instant,
        take: Option<&mut link::Take<'_>>,
    ) -> Result<bool, ClientError> {
        if self.process().daemon.is_resting() && !self.in_store {
            return Ok(false);
        }
        match link::stage(&self.target, ranges, deadline, take) {
            Ok(Ok(complete)) => {
                self.process().daemon.forgive();
                Ok(complete)
            }
            // No other way leads to a store, so that the daemon's word is the last.
            Ok(Err(error)) if self.in_store => Err(error),
            // The file changed, or the time is up: reading it here would not help.
            Ok(Err(error)) if error.kind() == ErrorKind::Stale => Err(error),
            Ok(Err(error)) if error.kind() == ErrorKind::Deadline => Err(self.late(ranges)),
            // The daemon may lack what this process has: a mount, a permission.
            Ok(Err(_)) => Ok(false),
            Err(error) if link::is_timeout(&error) && Instant::now() >= deadline => {
                Err(self.late(ranges))
            }
            Err(error) if link::is_interrupted(&error) => Err(ClientError::Interrupted),
            Err(source) if self.in_store => Err(self.needs_daemon(source)),
            Err(_) => {
                self.process().daemon.rest();
                Ok(false)
            }
        }
    }

    fn late(&self, ranges: &[StageRange]) -> ClientError {
        ClientError::Deadline {
            what: ranges
                .first()
                .map_or_else(String::new, |range| self.shown(range)),
            seconds: self.deadline.as_secs_f64(),
        }
    }

    /// A range by the file that it lies in.
    fn shown(&self, range: &StageRange) -> String {
        let at = ShardIndex(range.shard);
        let segment = self.index.segment_at(at, range.start).ok().flatten();
        let segment = segment.and_then(|segment| self.index.segment(segment).ok());
        let (path, start) = segment.map_or(("?", 0), |segment| (segment.path, segment.shard_start));
        let (first, end) = (range.start - start, range.start - start + range.len);
        format!("bytes [{first}, {end}) of `{path}`")
    }

    /// Reads a part of an object that did not become resident as a whole, for want of room: piece
    /// by piece, each as soon as it is there.
    fn read_through(
        &self,
        part: &Part,
        out: &mut [u8],
        deadline: Instant,
    ) -> Result<(), ClientError> {
        let read = |bytes: &mut [u8]| -> Result<bool, ClientError> {
            let mut start = part.range.start();
            for piece in bytes.chunks_mut(PIECE) {
                // Not empty, and inside of the part.
                let range = ByteRange::new(start, piece.len() as u64).map_err(overflow)?;
                self.read_piece(part.shard, range, piece, deadline)?;
                start = range.end();
            }
            Ok(true)
        };
        self.with_output(part, out, read)?;
        Ok(())
    }

    fn read_piece(
        &self,
        shard: ShardIndex,
        range: ByteRange,
        out: &mut [u8],
        deadline: Instant,
    ) -> Result<(), ClientError> {
        let asked = stage_range(shard, range);
        for _ in 0..STAGE_TRIES {
            let complete = self.stage_ranges(std::slice::from_ref(&asked), deadline)?;
            if self.read_local(shard, range, out)? {
                self.count(shard, range.len(), Served::Staged);
                return Ok(());
            }
            if complete {
                // A map that has nothing of what was just staged may have been replaced.
                self.process().shards.forget(shard);
            }
        }
        Err(ClientError::NoRoom {
            what: self.shown(&asked),
            folder: self.cache_folder().display().to_string(),
        })
    }

    pub(crate) fn is_resident(&self, shard: ShardIndex, range: ByteRange) -> bool {
        let open = self.process().shards.get(&self.index, shard);
        open.ok()
            .flatten()
            .is_some_and(|open| open.is_resident(range))
    }

    /// Reads a part of which blocks are absent: those from the origin, the others locally.
    fn read_direct(&self, part: &Part, out: &mut [u8]) -> Result<(), ClientError> {
        let segment = self.index.segment_ref(part.segment)?;
        let segment_start = self.index.segment(part.segment)?.shard_start;
        let runs = self.runs(part)?;
        let read = |mut bytes: &mut [u8]| -> Result<bool, ClientError> {
            for (run, is_resident) in runs {
                let (into, rest) = bytes.split_at_mut(run.len() as usize);
                bytes = rest;
                // Evicted meanwhile, or the device fails: the origin has it.
                if is_resident && self.read_local(part.shard, run, into)? {
                    self.count(part.shard, run.len(), Served::Local);
                    continue;
                }
                let origin = &self.process().origin;
                origin.read_at(segment, run.start() - segment_start, into)?;
                self.count(part.shard, run.len(), Served::Direct);
            }
            Ok(true)
        };
        self.with_output(part, out, read)?;
        Ok(())
    }

    /// The range of a part as runs of blocks that are resident and runs that are not.
    fn runs(&self, part: &Part) -> Result<Vec<(ByteRange, bool)>, ClientError> {
        let bytes = u64::from(self.index.block_size().bytes());
        let (start, end) = (part.range.start(), part.range.end());
        let mut runs: Vec<(ByteRange, bool)> = Vec::new();
        for block in self.index.block_size().covering(part.range) {
            let piece = byte_range(
                start.max(block * bytes),
                end.min((block + 1).saturating_mul(bytes)),
            )?;
            let is_resident = self.is_resident(part.shard, piece);
            match runs.last_mut() {
                Some((run, of)) if *of == is_resident => {
                    *run = byte_range(run.start(), piece.end())?;
                }
                _ => runs.push((piece, is_resident)),
            }
        }
        Ok(runs)
    }

    /// Gives `read` the place for the part's stored bytes, and decodes them if it says yes.
    fn with_output(
        &self,
        part: &Part,
        out: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> Result<bool, ClientError>,
    ) -> Result<bool, ClientError> {
        match &part.target {
            Target::Output(output) => read(&mut out[output.clone()]),
            Target::Chunk {
                sample,
                field,
                output,
                grid_index,
                filter_mask,
            } => {
                // Taken and not borrowed: a signal handler that runs while `read` waits may
                // decode too.
                let mut decoding = DECODING.take();
                let Decoding { stored, scratch } = &mut decoding;
                stored.resize(part.range.len() as usize, 0);
                let done = read(stored)?;
                let found = self.index.sample(*sample)?.field(*field)?;
                if let Some(rows) = found.rows().filter(|_| done) {
                    let out = &mut out[output.clone()];
                    rows.place(*grid_index, *filter_mask, stored, scratch, out)
                        .map_err(|source| self.name(decode_error(*sample, *field, source)))?;
                }
                DECODING.set(decoding);
                Ok(done)
            }
        }
    }

    /// What is absent of plain parts, and its places in the output; what is resident is read.
    fn absent_places(
        &self,
        parts: &[Part],
        out: &mut [u8],
    ) -> Result<Vec<(StageRange, Range<usize>)>, ClientError> {
        let mut absent = Vec::new();
        for part in parts {
            let Target::Output(output) = &part.target else {
                continue;
            };
            let mut at = output.start;
            for (run, is_resident) in self.runs(part)? {
                let place = at..at + run.len() as usize;
                at = place.end;
                // It may have been evicted meanwhile.
                if !is_resident || !self.read_local(part.shard, run, &mut out[place.clone()])? {
                    absent.push((stage_range(part.shard, run), place));
                }
            }
        }
        Ok(absent)
    }

    /// Reads what became resident into its places; false if not all of it did.
    fn read_places(
        &self,
        places: &[(StageRange, Range<usize>)],
        out: &mut [u8],
    ) -> Result<bool, ClientError> {
        for (range, place) in places {
            let bytes = ByteRange::new(range.start, range.len).map_err(overflow)?;
            if !self.read_local(ShardIndex(range.shard), bytes, &mut out[place.clone()])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts names in place of numbers.
    pub(crate) fn name(&self, error: ClientError) -> ClientError {
        let ClientError::Decode {
            field,
            sample,
            source,
            ..
        } = error
        else {
            return error;
        };
        let number = field.parse::<usize>().ok();
        let named = number
            .and_then(|number| self.index.fields().get(number))
            .map(|spec| spec.name.clone());
        let segment = number.and_then(|number| {
            let found = self.index.sample(sample).ok()?;
            found.field(number).ok()?.segment()
        });
        let path = segment.and_then(|segment| self.index.segment(segment).ok());
        ClientError::Decode {
            field: named.unwrap_or(field),
            sample,
            path: path.map_or_else(String::new, |segment| segment.path.to_owned()),
            source,
        }
    }

    pub(crate) fn count(&self, shard: ShardIndex, len: u64, served: Served) {
        served.count(len);
        // The node's statistics are for shards that are open; those read through before any block
        // was made are not worth a file.
        if let Ok(Some(shard)) = self.process().shards.get(&self.index, shard) {
            shard.count(Counter::AskedBytes, len);
            match served {
                Served::Local => shard.count(Counter::LocalBytes, len),
                Served::Staged => {}
                Served::Direct => shard.count(Counter::DirectBytes, len),
            }
        }
    }
}

/// True if the bytes of the parts are the output's, and few enough to be handed over.
fn are_plain(parts: &[Part]) -> bool {
    let lens = parts.iter().map(|part| part.range.len());
    let total = lens.fold(0, u64::saturating_add);
    let is_plain = |part: &Part| matches!(part.target, Target::Output(_));
    total <= MAX_HANDED.into() && parts.iter().all(is_plain)
}

/// Fills these places of the output from the memory, where their bytes lie one after the other.
fn fill(
    places: &[(StageRange, Range<usize>)],
    memory: &TakenMemory,
    from: &[HandedRange],
    out: &mut [u8],
) -> io::Result<()> {
    let mut from = from.iter().copied();
    let mut here = HandedRange { start: 0, len: 0 };
    for (_, place) in places {
        let mut left = &mut out[place.clone()];
        while !left.is_empty() {
            if here.len == 0 {
                here = from.next().ok_or(io::ErrorKind::InvalidData)?;
            }
            let len = left.len().min(here.len as usize);
            let (into, rest) = left.split_at_mut(len);
            memory.copy(here.start.into(), into)?;
            left = rest;
            (here.start, here.len) = (here.start + len as u32, here.len - len as u32);
        }
    }
    match here.len == 0 && from.next().is_none() {
        true => Ok(()),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn byte_range(start: u64, end: u64) -> Result<ByteRange, ClientError> {
    ByteRange::new(start, end - start)
        .map_err(|_| IndexError::Damaged("a range overflows".into()).into())
}

fn overflow(error: RangeError) -> ClientError {
    IndexError::Damaged(error.to_string()).into()
}

pub(crate) fn stage_range(shard: ShardIndex, range: ByteRange) -> StageRange {
    StageRange {
        shard: shard.0,
        start: range.start(),
        len: range.len(),
    }
}
