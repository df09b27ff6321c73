//! Decodes the adaptive entropy code of CCSDS 121.0, as HDF5's szip filter stores it.
//!
//! Samples come in blocks, blocks in intervals, and an interval begins with a sample as it is. A
//! block's id says how its samples are coded: as they are, all zeros, in pairs, or split into a
//! number in unary and low bits. The filter puts the length of the chunk in front (4 bytes, lowest
//! first), codes pixels of 32 and 64 bits byte by byte, all first bytes before all second ones,
//! and makes each scanline a whole number of blocks.

use super::bits::{Bits, put};
use super::shuffle;
use crate::index::Szip;

/// The most bytes that one stored byte can stand for: a run of 64 blocks of 32 samples from 5 bits,
/// of two bytes each.
pub(super) const EXPANSION: u64 = 64 * 32 * 2 * 2;
const CUT: &str = "it ends too soon";

/// Decodes `input` to all of `out`. `planes` is memory for bytes that are not together yet.
pub(super) fn decode(
    settings: Szip,
    input: &[u8],
    out: &mut [u8],
    planes: &mut Vec<u8>,
) -> Result<usize, String> {
    let (len, input) = input.split_first_chunk::<4>().ok_or(CUT)?;
    let len = u32::from_le_bytes(*len) as usize;
    let pixel = usize::from(settings.pixel_bits / 8);
    let out = out.get_mut(..len).filter(|_| len.is_multiple_of(pixel));
    let out = out.ok_or_else(|| format!("it holds {len} bytes, which is no chunk"))?;
    let mut coded = Coded::new(settings, input);
    if settings.pixel_bits <= 16 {
        coded.all(out)?;
    } else {
        if planes.len() < len {
            planes.resize(len, 0);
        }
        coded.all(&mut planes[..len])?;
        shuffle::undo(&planes[..len], pixel as u32, out);
    }
    Ok(len)
}

struct Coded<'a> {
    bits: Bits<'a>,
    settings: Szip,
    /// 8 or 16.
    sample_bits: u32,
    /// Samples of one interval.
    samples: Vec<u32>,
    len: usize,
}

impl<'a> Coded<'a> {
    fn new(settings: Szip, input: &'a [u8]) -> Self {
        let block = usize::from(settings.block);
        let blocks = usize::from(settings.scanline).div_ceil(block);
        Self {
            bits: Bits::new(input),
            settings,
            sample_bits: if settings.pixel_bits == 16 { 16 } else { 8 },
            samples: vec![0; blocks * block],
            len: 0,
        }
    }

    fn all(&mut self, out: &mut [u8]) -> Result<(), &'static str> {
        let bytes = self.sample_bits as usize / 8;
        let line_bytes = usize::from(self.settings.scanline) * bytes;
        let big_endian = self.settings.big_endian;
        for line in out.chunks_mut(line_bytes) {
            self.interval(line.len() / bytes)?;
            for (element, sample) in line.chunks_exact_mut(bytes).zip(&self.samples) {
                put(u64::from(*sample), big_endian, element);
            }
        }
        Ok(())
    }

    /// Decodes an interval, of which at least `wanted` samples are stored.
    fn interval(&mut self, wanted: usize) -> Result<(), &'static str> {
        self.len = 0;
        let partly = wanted < usize::from(self.settings.scanline);
        let wanted = if partly { wanted } else { self.samples.len() };
        while self.len < wanted {
            self.block()?;
        }
        if self.settings.predicted {
            unpredict(&mut self.samples[..self.len], self.sample_bits);
        }
        Ok(())
    }

    fn block(&mut self) -> Result<(), &'static str> {
        let id_bits = if self.sample_bits > 8 { 4 } else { 3 };
        let id = self.take(id_bits)?;
        let whole = (1 << id_bits) - 1;
        let end = self.len + usize::from(self.settings.block);
        if id == whole {
            return self.plain(end, self.sample_bits);
        }
        if id > 0 {
            self.reference()?;
            return self.split(end, id - 1);
        }
        let pairs = self.take(1)? == 1;
        let start = self.len;
        self.reference()?;
        if pairs {
            self.pairs(end)
        } else {
            self.zeros(start)
        }
    }

    fn take(&mut self, bits: u32) -> Result<u32, &'static str> {
        self.bits.take(bits).map(|value| value as u32).ok_or(CUT)
    }

    fn push(&mut self, sample: u32) -> Result<(), &'static str> {
        let place = self.samples.get_mut(self.len);
        *place.ok_or("a block is longer than its interval")? = sample;
        self.len += 1;
        Ok(())
    }

    /// The first sample of an interval, which the others are predicted from.
    fn reference(&mut self) -> Result<(), &'static str> {
        if self.settings.predicted && self.len == 0 {
            let sample = self.take(self.sample_bits)?;
            self.push(sample)?;
        }
        Ok(())
    }

    fn plain(&mut self, end: usize, bits: u32) -> Result<(), &'static str> {
        while self.len < end {
            let sample = self.take(bits)?;
            self.push(sample)?;
        }
        Ok(())
    }

    fn split(&mut self, end: usize, low_bits: u32) -> Result<(), &'static str> {
        let start = self.len;
        while self.len < end {
            let high = self.bits.unary().ok_or(CUT)?;
            self.push(high.wrapping_shl(low_bits))?;
        }
        for at in start..end {
            let low = self.take(low_bits)?;
            self.samples[at] |= low;
        }
        Ok(())
    }

    /// Two samples from one number: which pair it is, counted by their sum.
    fn pairs(&mut self, end: usize) -> Result<(), &'static str> {
        while self.len < end {
            let code = self.bits.unary().ok_or(CUT)?;
            // Sums of two samples have at most 13 values; 90 codes come before the 14th.
            let sum = (0..13).find(|sum| code < (sum + 1) * (sum + 2) / 2);
            let sum = sum.ok_or("a pair of samples is unknown")?;
            let second = code - sum * (sum + 1) / 2;
            if self.len.is_multiple_of(2) {
                self.push(sum - second)?;
            }
            self.push(second)?;
        }
        Ok(())
    }

    /// Blocks of zeros, from the one that began at `start` on.
    fn zeros(&mut self, start: usize) -> Result<(), &'static str> {
        /// This code stands for all blocks up to the end of the interval or of 64 blocks.
        const REST: usize = 5;
        let block = usize::from(self.settings.block);
        let code = self.bits.unary().ok_or(CUT)? as usize + 1;
        let before = start / block;
        let blocks = match code {
            REST => (self.samples.len() / block - before).min(64 - before % 64),
            code if code > REST => code - 1,
            code => code,
        };
        let end = start.saturating_add(blocks.saturating_mul(block));
        if end > self.samples.len() {
            return Err("zeros reach beyond an interval");
        }
        self.samples[self.len..end].fill(0);
        self.len = end;
        Ok(())
    }
}

/// Turns mapped differences from the sample before into samples.
fn unpredict(samples: &mut [u32], bits: u32) {
    let most = (1_u32 << bits) - 1;
    let Some((first, rest)) = samples.split_first_mut() else {
        return;
    };
    let mut last = *first;
    for sample in rest {
        let code = *sample;
        let upper = last > most / 2;
        // Differences of both signs take turns, up to the nearer end of the range.
        let nearer = if upper { most - last } else { last };
        last = if code.div_ceil(2) <= nearer {
            let half = code / 2;
            if code % 2 == 0 {
                last.wrapping_add(half)
            } else {
                last.wrapping_sub(half + 1)
            }
        } else if upper {
            most.wrapping_sub(code)
        } else {
            code
        } & most;
        *sample = last;
    }
}
