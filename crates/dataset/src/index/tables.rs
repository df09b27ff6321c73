//! The table of fields, which is parsed when an index is opened, and what reads tables.

use super::FieldSpec;
use super::check::{MAX_FIELDS, text_fault};
use super::format::damaged;
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

/// Bytes that are read in order.
pub(super) struct Input<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], IndexError> {
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

    pub(super) fn u8(&mut self) -> Result<u8, IndexError> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, IndexError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, IndexError> {
        self.array().map(u32::from_le_bytes)
    }

    fn text(&mut self, len: usize) -> Result<&'a str, IndexError> {
        std::str::from_utf8(self.take(len)?)
            .map_err(|e| damaged(format!("a name is not UTF-8: {e}")))
    }

    pub(super) fn end(&self, table: &str) -> Result<(), IndexError> {
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
