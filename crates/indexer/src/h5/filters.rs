//! Filter pipelines: what the decoder undoes, or a refusal by name.

use forebay_dataset::index::{
    Bitshuffle, BitshuffleCodec, Filter, NBit, ScaleOffset, StoredChunk, Szip,
};
use hdf5_reader::io::Cursor;
use hdf5_reader::messages::filter_pipeline;

use super::{H5Result, Remedy, damaged, unsupported};

/// A filter that was left out of every chunk keeps its place, since masks count places.
const NOTHING: Filter = Filter::Shuffle { element_size: 1 };

/// Integers that use a part of their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Narrow {
    /// Bits that are used, the lowest ones.
    pub(super) bits: u8,
    pub(super) signed: bool,
}

/// The filters of a pipeline, in the order of writing, for elements of `element` bytes.
pub(super) fn filters(body: &[u8], element: u16, narrow: Option<Narrow>) -> H5Result<Vec<Filter>> {
    let pipeline = filter_pipeline::parse(&mut Cursor::new(body), 8, 8, body.len())?;
    if pipeline.filters.len() > 32 {
        return damaged(format!("it has {} filters", pipeline.filters.len()));
    }
    let known = pipeline.filters.iter().map(|filter| {
        let settings = Settings(&filter.client_data);
        Ok(match filter.id {
            1 => Filter::Deflate,
            2 => Filter::Shuffle {
                element_size: match settings.0.first() {
                    Some(0) | None => u32::from(element),
                    Some(size) => *size,
                },
            },
            3 => Filter::Fletcher32,
            4 => szip(settings)?,
            5 => n_bit(settings, narrow)?,
            6 => scale_offset(settings)?,
            32000 => Filter::Lzf,
            32001 => Filter::Blosc,
            32004 => Filter::Lz4,
            32008 => bitshuffle(settings)?,
            32015 => Filter::Zstd,
            id => {
                let name = name(id, filter.name.as_deref());
                return unsupported(format!("the filter {name}"), Remedy::Repack);
            }
        })
    });
    known.collect()
}

/// Numbers that a filter was given when the data set was made.
#[derive(Clone, Copy)]
struct Settings<'a>(&'a [u32]);

impl Settings<'_> {
    fn word(self, at: usize) -> H5Result<u32> {
        match self.0.get(at) {
            Some(word) => Ok(*word),
            None => damaged(format!("a filter lacks its setting {at}")),
        }
    }

    /// A setting that has to fit in fewer bits.
    fn small<T: TryFrom<u32>>(self, at: usize) -> H5Result<T> {
        let word = self.word(at)?;
        match T::try_from(word) {
            Ok(value) => Ok(value),
            Err(_) => damaged(format!("setting {at} of a filter is {word}")),
        }
    }

    /// Bytes of an element, of a number.
    fn size(self, at: usize) -> H5Result<u8> {
        match self.word(at)? {
            size @ (1 | 2 | 4 | 8) => Ok(size as u8),
            size => unsupported(
                format!("a filter on numbers of {size} bytes"),
                Remedy::Repack,
            ),
        }
    }
}

fn szip(settings: Settings<'_>) -> H5Result<Filter> {
    const BIG_ENDIAN: u32 = 16;
    const PREDICTED: u32 = 32;
    let options = settings.word(0)?;
    let szip = Szip {
        predicted: options & PREDICTED != 0,
        big_endian: options & BIG_ENDIAN != 0,
        pixel_bits: settings.small(2)?,
        block: settings.small(1)?,
        scanline: settings.small(3)?,
    };
    if !matches!(szip.pixel_bits, 8 | 16 | 32 | 64) {
        let feature = format!("szip of pixels of {} bits", szip.pixel_bits);
        return unsupported(feature, Remedy::Repack);
    }
    Ok(Filter::Szip(szip))
}

fn n_bit(settings: Settings<'_>, narrow: Option<Narrow>) -> H5Result<Filter> {
    const ATOMIC: u32 = 1;
    if settings.word(1)? != 0 {
        return Ok(NOTHING);
    }
    if settings.word(3)? != ATOMIC {
        return unsupported("n-bit of a compound or array type", Remedy::Repack);
    }
    let nbit = NBit {
        element_size: settings.size(4)?,
        big_endian: settings.word(5)? != 0,
        signed: narrow.is_some_and(|narrow| narrow.signed),
        bits: settings.small(6)?,
    };
    if settings.word(7)? != 0 {
        return unsupported(
            "n-bit of numbers that begin at a higher bit",
            Remedy::Repack,
        );
    }
    Ok(Filter::NBit(nbit))
}

fn scale_offset(settings: Settings<'_>) -> H5Result<Filter> {
    const DIGITS: u32 = 0;
    const INTEGERS: u32 = 2;
    const FLOAT_CLASS: u32 = 1;
    let (kind, factor) = (settings.word(0)?, settings.word(1)?);
    let element_size = settings.size(4)?;
    if kind == INTEGERS && factor == u32::from(element_size) * 8 {
        return Ok(NOTHING);
    }
    let digits = match (kind, settings.word(3)? == FLOAT_CLASS) {
        (DIGITS, true) => match i16::try_from(factor.cast_signed()) {
            Ok(digits) => Some(digits),
            Err(_) => return damaged("it is scaled beyond any number"),
        },
        (INTEGERS, false) => None,
        _ => return unsupported("scale-offset with binary exponents", Remedy::Repack),
    };
    Ok(Filter::ScaleOffset(ScaleOffset {
        element_size,
        big_endian: settings.word(6)? != 0,
        fills: settings.word(7)? != 0,
        digits,
    }))
}

fn bitshuffle(settings: Settings<'_>) -> H5Result<Filter> {
    let element_size: u16 = settings.small(2)?;
    if element_size == 0 {
        return damaged("it shuffles the bits of nothing");
    }
    let codec = match settings.0.get(4) {
        None | Some(0) => {
            // Where the writer left the choice to the filter, a block has about 8 KiB.
            let usual = (8192 / element_size / 8 * 8).max(128);
            match settings.0.get(3) {
                None | Some(0) => BitshuffleCodec::None(usual),
                Some(_) => BitshuffleCodec::None(settings.small(3)?),
            }
        }
        Some(2) => BitshuffleCodec::Lz4,
        Some(3) => BitshuffleCodec::Zstd,
        Some(codec) => {
            return unsupported(format!("codec {codec} of bitshuffle"), Remedy::Repack);
        }
    };
    Ok(Filter::Bitshuffle(Bitshuffle {
        element_size,
        codec,
    }))
}

fn name(id: u16, stored: Option<&str>) -> String {
    let known = match id {
        307 => "bzip2",
        305 => "lzo",
        32026 => "blosc2",
        32013 => "zfp",
        32017 => "sz",
        32024 => "sz3",
        32028 => "sperr",
        _ => stored.map_or("of a plug-in", |name| name.trim_end_matches('\0')),
    };
    format!("{known} (number {id})")
}

/// Refuses what the filters, taken together, do not say in full.
pub(super) fn check(
    filters: &[Filter],
    narrow: Option<Narrow>,
    chunks: &[StoredChunk],
) -> H5Result<()> {
    if let Some(fault) = filters.iter().find_map(Filter::fault) {
        return damaged(fault);
    }
    let Some(narrow) = narrow else {
        return Ok(());
    };
    // Only n-bit makes whole numbers of them.
    let first = matches!(filters.first(), Some(Filter::NBit(nbit)) if nbit.bits == narrow.bits);
    if first && chunks.iter().all(|chunk| chunk.filter_mask & 1 == 0) {
        return Ok(());
    }
    unsupported(
        format!("an integer type of {} bits", narrow.bits),
        Remedy::Convert,
    )
}
