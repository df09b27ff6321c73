//! Files of the data sets: valid files of their formats, whose bytes follow from their number.
//!
//! Each sample has a payload of a given size. Its first eight bytes name seed, file and sample, its
//! last eight are a checksum of the rest, so a reader can tell that it got the right bytes.

mod hdf5;
mod npz;
#[cfg(test)]
mod tests;
mod tfrecord;

use std::ops::Range;

use forebay_analysis::random::Random;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The smallest payload of a sample, in bytes.
pub const MIN_SAMPLE_BYTES: u64 = 16;
/// The largest file, in bytes: whole files are held in memory.
pub const MAX_FILE_BYTES: u64 = 1 << 31;

/// A file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Payloads one after the other.
    Raw,
    /// A record with an `Example` for each sample.
    #[default]
    Tfrecord,
    /// `x`: all payloads as bytes, by sample; `y`: a label for each.
    Npz,
    /// One contiguous data set of bytes, by sample, named `records`.
    Hdf5,
}

/// What every file of a data set looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The format.
    pub format: Format,
    /// Samples of a file.
    pub samples: u32,
    /// Bytes of a sample's payload.
    pub sample_bytes: u64,
}

impl Format {
    /// The ending of its files' names.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Raw => "bin",
            Self::Tfrecord => "tfrecord",
            Self::Npz => "npz",
            Self::Hdf5 => "h5",
        }
    }
}

impl Shape {
    /// Bytes of all payloads of a file.
    fn payload_bytes(&self) -> usize {
        self.samples as usize * self.sample_bytes as usize
    }

    /// The bytes of a file.
    #[must_use]
    pub fn encode(&self, file: u32, seed: u64) -> Vec<u8> {
        match self.format {
            Format::Raw => self.payloads(file, seed).concat(),
            Format::Tfrecord => tfrecord::encode(&self.payloads(file, seed)),
            Format::Npz => npz::encode(self, &self.payloads(file, seed)),
            Format::Hdf5 => hdf5::encode(self, &self.payloads(file, seed)),
        }
    }

    /// Bytes of each file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        match self.format {
            Format::Raw => self.payload_bytes() as u64,
            Format::Tfrecord => u64::from(self.samples) * tfrecord::record_bytes(self.sample_bytes),
            Format::Npz => npz::file_bytes(self),
            Format::Hdf5 => hdf5::HEAD_BYTES + self.payload_bytes() as u64,
        }
    }

    /// Where the payload of a sample lies in its file.
    fn payload(&self, sample: u32) -> Range<usize> {
        let (first, stride) = match self.format {
            Format::Raw => (0, self.sample_bytes),
            Format::Tfrecord => tfrecord::first_and_stride(self.sample_bytes),
            Format::Npz => (npz::payload_start(self), self.sample_bytes),
            Format::Hdf5 => (hdf5::HEAD_BYTES, self.sample_bytes),
        };
        let start = (first + u64::from(sample) * stride) as usize;
        start..start + self.sample_bytes as usize
    }

    fn payloads(&self, file: u32, seed: u64) -> Vec<Vec<u8>> {
        (0..self.samples)
            .map(|sample| payload(self.sample_bytes, name(seed, file, sample)))
            .collect()
    }

    /// Checks that `bytes` are those of a file.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self, file: u32, seed: u64, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() as u64 != self.file_bytes() {
            return Err(format!(
                "it has {} bytes, {} were made",
                bytes.len(),
                self.file_bytes()
            ));
        }
        for sample in 0..self.samples {
            let payload = &bytes[self.payload(sample)];
            let (body, sum) = payload.split_at(payload.len() - 8);
            if body[..8] != name(seed, file, sample).to_le_bytes() {
                return Err(format!("sample {sample} is that of another file or seed"));
            }
            if sum != xxh3_64(body).to_le_bytes() {
                return Err(format!("sample {sample} fails its checksum"));
            }
        }
        Ok(())
    }
}

/// A number for each sample of each seed.
fn name(seed: u64, file: u32, sample: u32) -> u64 {
    let place = (u64::from(file) << 32) | u64::from(sample);
    Random::new(seed.rotate_left(17) ^ place).next()
}

fn payload(bytes: u64, name: u64) -> Vec<u8> {
    let mut payload = Vec::with_capacity(bytes as usize);
    payload.extend(name.to_le_bytes());
    let body = bytes as usize - 8;
    let mut random = Random::new(name);
    while payload.len() < body {
        payload.extend(random.next().to_le_bytes());
    }
    payload.truncate(body);
    payload.extend(xxh3_64(&payload).to_le_bytes());
    payload
}
