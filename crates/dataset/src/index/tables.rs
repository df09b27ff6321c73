//! The small tables that are parsed when an index is opened: fields and layouts.

use super::check::{Grid, MAX_FIELDS, MAX_LAYOUTS, text_fault};
use super::format::damaged;
use super::{ChunkLayout, FieldSpec, Filter};
use crate::{DType, IndexError};

pub(super) fn encode_fields(fields: &[FieldSpec]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        let dtype = field.dtype.to_string();
        out.extend((field.name.len() as u16).to_le_bytes());
        out.extend(field.name.as_bytes());
        out.push(dtype.len() as u8);
        out.extend(dtype.as_bytes());
    }
    out
}

pub(super) fn decode_fields(bytes: &[u8], count: u32) -> Result<Vec<FieldSpec>, IndexError> {
    if count == 0 || count > MAX_FIELDS {
        return Err(damaged(format!("{count} fields: 1 to 65536 are allowed")));
    }
    let mut input = Input { rest: bytes };
    let mut fields = Vec::new();
    for _ in 0..count {
        let name_len = input.u16()?;
        let name = input.text(name_len.into())?.to_owned();
        let dtype_len = input.u8()?;
        let dtype: DType = input
            .text(dtype_len.into())?
            .parse()
            .map_err(|e| damaged(format!("field `{name}`: {e}")))?;
        fields.push(FieldSpec { name, dtype });
    }
    input.end("fields")?;
    match fields_fault(&fields) {
        Some(fault) => Err(damaged(fault)),
        None => Ok(fields),
    }
}

/// What is wrong with the list of fields, if anything.
pub(super) fn fields_fault(fields: &[FieldSpec]) -> Option<String> {
    if fields.is_empty() || fields.len() > MAX_FIELDS as usize {
        return Some(format!("{} fields: 1 to 65536 are allowed", fields.len()));
    }
    let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    for name in &names {
        if let Some(fault) = text_fault(name) {
            return Some(format!("the name of field `{name}`: {fault}"));
        }
    }
    names.sort_unstable();
    names
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| format!("two fields are named `{}`", pair[0]))
}

pub(super) fn encode_layouts(layouts: &[ChunkLayout]) -> Vec<u8> {
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

pub(super) fn decode_layouts(bytes: &[u8], count: u32) -> Result<Vec<ParsedLayout>, IndexError> {
    if count > MAX_LAYOUTS {
        return Err(damaged(format!("{count} layouts, over 65536")));
    }
    let mut input = Input { rest: bytes };
    let mut layouts = Vec::new();
    for n in 0..count {
        let layout = decode_layout(&mut input)?;
        let grid = Grid::of(&layout).map_err(|fault| damaged(format!("layout {n}: {fault}")))?;
        layouts.push(ParsedLayout { layout, grid });
    }
    input.end("layouts")?;
    Ok(layouts)
}

fn decode_layout(input: &mut Input<'_>) -> Result<ChunkLayout, IndexError> {
    let (rank, filter_count, fill_len) = (input.u8()?, input.u8()?, input.u16()?);
    let mut dims = || -> Result<Vec<u64>, IndexError> {
        let bytes = input.take(usize::from(rank) * 8)?;
        let (dims, _) = bytes.as_chunks();
        Ok(dims.iter().map(|le| u64::from_le_bytes(*le)).collect())
    };
    let (array_shape, chunk_shape) = (dims()?, dims()?);
    let filters = (0..filter_count)
        .map(|_| {
            let (id, parameter) = (input.u32()?, input.u32()?);
            Filter::decode(id, parameter).ok_or_else(|| {
                damaged(format!("filter {id} with parameter {parameter} is unknown"))
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(ChunkLayout {
        array_shape,
        chunk_shape,
        filters,
        fill_value: input.take(fill_len.into())?.to_vec(),
    })
}

/// Bytes that are read in order.
struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], IndexError> {
        let (head, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| damaged("a table ends too soon"))?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], IndexError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    fn u8(&mut self) -> Result<u8, IndexError> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, IndexError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, IndexError> {
        self.array().map(u32::from_le_bytes)
    }

    fn text(&mut self, len: usize) -> Result<&'a str, IndexError> {
        std::str::from_utf8(self.take(len)?)
            .map_err(|e| damaged(format!("a name is not UTF-8: {e}")))
    }

    fn end(&self, table: &str) -> Result<(), IndexError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(damaged(format!(
                "section `{table}` has {} bytes too many",
                self.rest.len()
            )))
        }
    }
}
