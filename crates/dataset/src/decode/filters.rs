//! Undoes a chunk's filters, last applied first.

use super::fletcher;
use super::stages::{Stages, name, room, stored_len};
use crate::DecodeError;
use crate::index::{ChunkLayout, Filter};

/// Memory that decoding reuses from chunk to chunk: at most three decoded chunks.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Output of the last stage.
    current: Vec<u8>,
    next: Vec<u8>,
    /// Blocks inside a stage.
    extra: Vec<u8>,
    stages: Stages,
}

impl Scratch {
    /// Bytes it holds on to.
    pub fn capacity(&self) -> usize {
        self.current.capacity() + self.next.capacity() + self.extra.capacity()
    }
}

/// Where a decoded chunk is.
pub(super) enum Decoded<'a> {
    InTarget,
    At(&'a [u8]),
}

/// Bytes that undoing a filter must give.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    Exactly(u64),
    /// What lies under a second compression has a length that only its data tells.
    AtMost(u64),
}

impl Wanted {
    pub(super) const fn most(self) -> u64 {
        match self {
            Self::Exactly(len) | Self::AtMost(len) => len,
        }
    }

    fn allows(self, len: u64) -> bool {
        match self {
            Self::Exactly(wanted) => len == wanted,
            Self::AtMost(most) => len <= most,
        }
    }
}

/// What the filters of a chunk have to know about it.
pub(super) struct Chunk<'a> {
    /// Bytes of the decoded chunk.
    pub(super) bytes: u32,
    /// The fill value, empty for zeros.
    pub(super) fill_value: &'a [u8],
    shape: &'a [u64],
    pub(super) element_size: u16,
}

impl Chunk<'_> {
    /// Bytes of the last `axes` axes.
    pub(super) fn bytes_inside(&self, axes: u8) -> usize {
        let outer = self.shape.len().saturating_sub(axes.into());
        let inner = self.shape[outer..].iter();
        // No more than the chunk, which is below 4 GiB.
        inner.fold(usize::from(self.element_size), |len, dim| {
            len.saturating_mul(*dim as usize)
        })
    }
}

/// The filters that were applied to one chunk.
pub(super) struct Pipeline<'a> {
    filters: &'a [Filter],
    mask: u32,
    chunk: Chunk<'a>,
}

impl<'a> Pipeline<'a> {
    /// `bytes` is the length of a decoded chunk of `layout`.
    pub(super) fn new(
        layout: &'a ChunkLayout,
        element_size: u16,
        mask: u32,
        bytes: u32,
    ) -> Result<Self, DecodeError> {
        let filters = &layout.filters;
        // Bits beyond the last filter mean nothing to anyone: they are damage.
        if mask.checked_shr(filters.len() as u32).unwrap_or(0) != 0 {
            return Err(DecodeError::Layout(format!(
                "filter mask {mask:#x} names more than {} filters",
                filters.len()
            )));
        }
        Ok(Self {
            filters,
            mask,
            chunk: Chunk {
                bytes,
                fill_value: &layout.fill_value,
                shape: &layout.chunk_shape,
                element_size,
            },
        })
    }

    fn applied(&self) -> impl DoubleEndedIterator<Item = (usize, Filter)> {
        self.filters
            .iter()
            .copied()
            .enumerate()
            .filter(|(nth, _)| self.mask >> nth & 1 == 0)
    }

    /// Length of the data before each filter was applied.
    fn wanted(&self) -> [Wanted; 32] {
        let mut len = Wanted::Exactly(self.chunk.bytes.into());
        let mut out = [len; 32];
        for (nth, filter) in self.applied() {
            out[nth] = len;
            len = stored_len(filter, len, &self.chunk);
        }
        out
    }

    /// Decodes `stored` to exactly one chunk: into `target` if there is one and a filter moves
    /// bytes, else wherever it comes to lie.
    pub(super) fn undo<'s>(
        &self,
        stored: &'s [u8],
        mut target: Option<&mut [u8]>,
        scratch: &'s mut Scratch,
    ) -> Result<Decoded<'s>, DecodeError> {
        let wanted = self.wanted();
        // If the stage that runs last moves bytes, its output is the chunk. If it is a checksum, what
        // lies in front of it is too long to go to the target.
        let last = self.applied().next().map(|(nth, _)| nth);
        let (mut moved, mut len) = (false, stored.len());
        for (nth, filter) in self.applied().rev() {
            let Scratch {
                current,
                next,
                extra,
                stages,
            } = &mut *scratch;
            let input = if moved {
                &current[..len]
            } else {
                &stored[..len]
            };
            if filter == Filter::Fletcher32 {
                len = fletcher::check(input)?.len();
                continue;
            }
            let into_target = target.take_if(|_| last == Some(nth));
            let direct = into_target.is_some();
            let out = match into_target {
                Some(target) => target,
                None => grown(next, room(filter, input, wanted[nth])?),
            };
            let made = stages.run(filter, &self.chunk, input, out, extra)?;
            check_len(filter, made, wanted[nth])?;
            if direct {
                return Ok(Decoded::InTarget);
            }
            std::mem::swap(current, next);
            (moved, len) = (true, made);
        }
        let chunk = if moved {
            &scratch.current[..len]
        } else {
            &stored[..len]
        };
        if len as u64 == u64::from(self.chunk.bytes) {
            Ok(Decoded::At(chunk))
        } else {
            Err(DecodeError::Damaged {
                filter: "chunk",
                why: format!("{len} bytes where {} belong", self.chunk.bytes),
            })
        }
    }
}

/// The first `len` bytes of a buffer that only ever grows. Their content is whatever it was.
fn grown(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

fn check_len(filter: Filter, made: usize, wanted: Wanted) -> Result<(), DecodeError> {
    if wanted.allows(made as u64) {
        return Ok(());
    }
    Err(DecodeError::Damaged {
        filter: name(filter),
        why: format!("it holds {made} bytes where {} belong", wanted.most()),
    })
}
