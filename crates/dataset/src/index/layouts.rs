//! The table of chunk layouts. An index may have millions, of which a process uses few: opening
//! looks at their lengths, and a page of them is parsed when one of it is first used.

use std::sync::OnceLock;

use super::check::{Grid, MAX_LAYOUTS};
use super::format::damaged;
use super::tables::Input;
use super::{ChunkLayout, Filter};
use crate::IndexError;

/// Layouts that are parsed at a time.
const PAGE: u32 = 256;

pub(super) fn encode(layouts: &[ChunkLayout]) -> Vec<u8> {
    let mut out = Vec::new();
    for layout in layouts {
        out.push(layout.array_shape.len() as u8);
        out.push(layout.filters.len() as u8);
        out.extend((layout.fill_value.len() as u16).to_le_bytes());
        for dim in layout.array_shape.iter().chain(&layout.chunk_shape) {
            out.extend(dim.to_le_bytes());
        }
        for filter in &layout.filters {
            let (id, parameter) = filter.encode();
            out.extend(id.to_le_bytes());
            out.extend(parameter.to_le_bytes());
        }
        out.extend(&layout.fill_value);
    }
    out
}

/// A layout with what follows from it, computed once.
#[derive(Clone, Debug)]
pub(super) struct ParsedLayout {
    pub(super) layout: ChunkLayout,
    pub(super) grid: Grid,
}

/// The layouts of an open index.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    count: u32,
    pages: Vec<Page>,
}

#[derive(Debug)]
struct Page {
    /// Where its first layout begins in the section.
    start: usize,
    parsed: OnceLock<Result<Box<[ParsedLayout]>, IndexError>>,
}

impl Layouts {
    /// Looks where each layout of the section `bytes` begins.
    pub(super) fn open(bytes: &[u8], count: u32) -> Result<Self, IndexError> {
        if count > MAX_LAYOUTS {
            return Err(damaged(format!("{count} layouts, over {MAX_LAYOUTS}")));
        }
        let mut input = Input { rest: bytes };
        let mut pages = Vec::new();
        for number in 0..count {
            if number % PAGE == 0 {
                pages.push(Page {
                    start: bytes.len() - input.rest.len(),
                    parsed: OnceLock::new(),
                });
            }
            let (rank, filters, fill) = (input.u8()?, input.u8()?, input.u16()?);
            input.take(16 * usize::from(rank))?;
            // What a later version wrote is refused as a whole, not sample by sample.
            for _ in 0..filters {
                filter(&mut input)?;
            }
            input.take(fill.into())?;
        }
        input.end("layouts")?;
        Ok(Self { count, pages })
    }

    /// Layout number `number` of the section `bytes`.
    pub(super) fn get(&self, bytes: &[u8], number: u32) -> Result<&ParsedLayout, IndexError> {
        let page = self.pages.get((number / PAGE) as usize);
        let Some(page) = page.filter(|_| number < self.count) else {
            return Err(damaged(format!("there is no layout {number}")));
        };
        let first = number / PAGE * PAGE;
        let count = PAGE.min(self.count - first);
        let parsed = page
            .parsed
            .get_or_init(|| parse(bytes, page.start, first, count));
        match parsed {
            Ok(layouts) => Ok(&layouts[(number - first) as usize]),
            Err(error) => Err(error.clone()),
        }
    }
}

fn parse(
    bytes: &[u8],
    start: usize,
    first: u32,
    count: u32,
) -> Result<Box<[ParsedLayout]>, IndexError> {
    let mut input = Input {
        rest: bytes.get(start..).unwrap_or_default(),
    };
    let layouts = (first..first + count).map(|number| {
        let layout = decode(&mut input)?;
        let grid = Grid::of(&layout);
        let grid = grid.map_err(|fault| damaged(format!("layout {number}: {fault}")))?;
        Ok(ParsedLayout { layout, grid })
    });
    layouts.collect()
}

fn decode(input: &mut Input<'_>) -> Result<ChunkLayout, IndexError> {
    let (rank, filter_count, fill_len) = (input.u8()?, input.u8()?, input.u16()?);
    let mut dims = || -> Result<Vec<u64>, IndexError> {
        let bytes = input.take(usize::from(rank) * 8)?;
        let (dims, _) = bytes.as_chunks();
        Ok(dims.iter().map(|le| u64::from_le_bytes(*le)).collect())
    };
    let (array_shape, chunk_shape) = (dims()?, dims()?);
    let filters = (0..filter_count)
        .map(|_| filter(input))
        .collect::<Result<_, _>>()?;
    Ok(ChunkLayout {
        array_shape,
        chunk_shape,
        filters,
        fill_value: input.take(fill_len.into())?.to_vec(),
    })
}

fn filter(input: &mut Input<'_>) -> Result<Filter, IndexError> {
    let (id, parameter) = (input.u32()?, input.u32()?);
    Filter::decode(id, parameter)
        .ok_or_else(|| damaged(format!("filter {id} with parameter {parameter} is unknown")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(rows: u64) -> ChunkLayout {
        ChunkLayout {
            array_shape: vec![rows, 3],
            chunk_shape: vec![1 + rows % 5, 3],
            filters: vec![Filter::Lzf; (rows % 3) as usize],
            fill_value: vec![7; (rows % 4) as usize],
        }
    }

    #[test]
    fn each_of_many_layouts_is_found() {
        let written: Vec<ChunkLayout> = (0..1000).map(layout).collect();
        let bytes = encode(&written);
        let layouts = Layouts::open(&bytes, 1000).unwrap();
        for number in [999, 0, 255, 256, 257, 511, 998] {
            let found = layouts.get(&bytes, number).unwrap();
            assert_eq!(found.layout, written[number as usize]);
        }
        let parsed = |page: &&Page| page.parsed.get().is_some();
        assert_eq!(
            layouts.pages.iter().filter(parsed).count(),
            3,
            "only what was used"
        );
        assert!(layouts.get(&bytes, 1000).is_err());
        assert!(Layouts::open(&bytes, 999).is_err());
        assert!(Layouts::open(&bytes[..bytes.len() - 1], 1000).is_err());
        assert!(Layouts::open(&[], MAX_LAYOUTS + 1).is_err());
    }

    #[test]
    fn an_unknown_filter_is_refused_at_opening_and_a_bad_shape_where_it_is_used() {
        let mut bytes = encode(&[layout(1), layout(2)]);
        let chunk_shape_of_the_first = 4 + 16;
        bytes[chunk_shape_of_the_first] = 0;
        let layouts = Layouts::open(&bytes, 2).unwrap();
        assert!(layouts.get(&bytes, 0).is_err());
        let filter_of_the_first = 4 + 32;
        bytes[filter_of_the_first] = 0xee;
        let error = Layouts::open(&bytes, 2).unwrap_err();
        assert!(error.to_string().contains("is unknown"), "{error}");
    }
}
