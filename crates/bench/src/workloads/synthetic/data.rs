//! What files hold.

use crate::{BenchError, Params, Result, content};

/// Bytes of content that are made at once.
pub(super) const CHUNK: u64 = 16 << 20;

/// The content of files.
#[derive(Debug)]
pub(super) enum Data {
    Random,
    Deterministic,
    Seeded,
    Zero,
    Pattern(Vec<u8>),
}

impl Data {
    /// By `data` and `pattern_hex`.
    pub(super) fn new(params: &Params) -> Result<Self> {
        Ok(match params.text("data")? {
            "random" => Self::Random,
            "deterministic" => Self::Deterministic,
            "zero" => Self::Zero,
            "pattern" => Self::Pattern(unhex(params.text("pattern_hex")?)?),
            _ => Self::Seeded,
        })
    }

    /// Content of file `index` from `offset`. Chunks begin at multiples of [`CHUNK`].
    pub(super) fn fill(&self, seed: u64, index: u64, offset: u64, out: &mut [u8]) -> Result<()> {
        match self {
            Self::Random => content::random(out)?,
            Self::Deterministic => content::deterministic(seed, index, offset, out),
            Self::Seeded => {
                let of_file = seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                content::seeded(of_file ^ (offset / CHUNK).rotate_left(32), out);
            }
            Self::Zero => out.fill(0),
            Self::Pattern(pattern) => {
                for (at, byte) in out.iter_mut().enumerate() {
                    *byte = pattern[((offset + at as u64) % pattern.len() as u64) as usize];
                }
            }
        }
        Ok(())
    }

    /// Whether the same content can be made again.
    pub(super) fn is_repeatable(&self) -> bool {
        !matches!(self, Self::Random)
    }
}

/// Bytes in hexadecimal digits.
fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits = text.as_bytes();
    let bytes = digits.chunks(2).map(|two| {
        let two = std::str::from_utf8(two).ok().filter(|two| two.len() == 2)?;
        u8::from_str_radix(two, 16).ok()
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    let bytes = bytes.filter(|bytes| (1..=4096).contains(&bytes.len()) && text.is_ascii());
    bytes.ok_or_else(|| {
        BenchError::Usage(format!(
            "`pattern_hex` must be 1 to 4096 bytes in hexadecimal: `{text}`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_repeats_over_chunks() {
        let data = Data::Pattern(unhex("010203").unwrap());
        let mut bytes = [0; 5];
        data.fill(0, 0, CHUNK, &mut bytes).unwrap();
        let first = (CHUNK % 3) as u8;
        assert_eq!(bytes[0], first + 1);
        for wrong in ["", "0", "zz", "é0", "012"] {
            assert!(unhex(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn content_can_be_made_again_and_differs_by_file() {
        for data in [Data::Deterministic, Data::Seeded] {
            let mut fill = [[0u8; 32]; 3];
            data.fill(1, 5, 0, &mut fill[0]).unwrap();
            data.fill(1, 5, 0, &mut fill[1]).unwrap();
            data.fill(1, 6, 0, &mut fill[2]).unwrap();
            assert_eq!(fill[0], fill[1]);
            assert_ne!(fill[0], fill[2]);
        }
    }
}
