//! Files of safetensors: a header in JSON, then the tensors without gaps.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::error::Result;
use crate::h5::{Array, ArrayStorage};
use crate::scan::FieldFilter;

use super::arrays::Arrays;
use super::reader::Reader;

/// Longest header that is read, the bound of the format itself.
const MAX_HEADER: u64 = 100_000_000;

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The entries of an object, in order and with those that are repeated.
struct Entries(Vec<(String, Tensor)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(input: D) -> std::result::Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<serde::de::IgnoredAny>()?;
                    } else {
                        entries.push((name, map.next_value()?));
                    }
                }
                Ok(Entries(entries))
            }
        }
        input.deserialize_map(Each)
    }
}

/// The tensors that are wanted, by name.
pub(super) fn arrays(reader: &mut Reader<'_>, filter: &FieldFilter) -> Result<Arrays> {
    let len = u64::from_le_bytes(reader.array(0, "the length of the header")?);
    if len > MAX_HEADER {
        return Err(reader.damaged(format!("its header would have {len} bytes")));
    }
    let header = reader.at(8, len, "the header")?;
    let parsed = serde_json::from_slice::<Entries>(header);
    let mut tensors = parsed
        .map_err(|error| reader.damaged(format!("its header makes no sense: {error}")))?
        .0;
    check_places(reader, &mut tensors, 8 + len)?;
    tensors.sort_by(|one, other| one.0.cmp(&other.0));
    if let Some(pair) = tensors.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(reader.damaged(format!("two of its tensors are called `{}`", pair[0].0)));
    }
    let mut arrays = Arrays::new();
    for (name, tensor) in tensors {
        if filter.keeps(&name) {
            let array = array(reader, &name, tensor, 8 + len)?;
            arrays.push((name, array));
        }
    }
    Ok(arrays)
}

/// The format wants tensors one after another, to the end of the file.
fn check_places(reader: &Reader<'_>, tensors: &mut [(String, Tensor)], start: u64) -> Result<()> {
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut next = 0;
    for (name, tensor) in tensors {
        let (begin, end) = tensor.data_offsets;
        if begin != next || end < begin {
            return Err(reader.damaged_in(
                name,
                format!("it lies at [{begin}, {end}), where byte {next} is the next"),
            ));
        }
        next = end;
    }
    reader.check(start, next, "the tensors")?;
    if start + next == reader.len() {
        return Ok(());
    }
    Err(reader.damaged(format!(
        "it has {} bytes behind its tensors",
        reader.len() - start - next
    )))
}

fn array(reader: &Reader<'_>, name: &str, tensor: Tensor, start: u64) -> Result<Array> {
    // What numpy has no type for is given as bytes without a meaning, never as other numbers.
    let dtype = match tensor.dtype.as_str() {
        "BOOL" => "|b1",
        "U8" => "|u1",
        "I8" => "|i1",
        "U16" => "<u2",
        "I16" => "<i2",
        "F16" => "<f2",
        "U32" => "<u4",
        "I32" => "<i4",
        "F32" => "<f4",
        "U64" => "<u8",
        "I64" => "<i8",
        "F64" => "<f8",
        "C64" => "<c8",
        "BF16" => "|V2",
        "F8_E4M3" | "F8_E5M2" | "F8_E8M0" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ" => "|V1",
        other => {
            return Err(reader.unsupported(
                name,
                format!("the type `{other}`"),
                "convert the tensor, or leave it out with `--fields`",
            ));
        }
    };
    let dtype: forebay_dataset::DType = dtype
        .parse()
        .map_err(|error: forebay_dataset::DTypeError| reader.damaged_in(name, error.to_string()))?;
    let (begin, end) = tensor.data_offsets;
    if tensor.shape.len() > 32 {
        return Err(reader.damaged_in(name, format!("it has {} axes", tensor.shape.len())));
    }
    let bytes = match tensor.shape.contains(&0) {
        true => Some(0),
        false => tensor
            .shape
            .iter()
            .try_fold(u64::from(dtype.size()), |len, dim| len.checked_mul(*dim)),
    };
    if bytes != Some(end - begin) {
        let shape = &tensor.shape;
        return Err(reader.damaged_in(
            name,
            format!(
                "shape {shape:?} of {dtype} does not fit its {} bytes",
                end - begin
            ),
        ));
    }
    Ok(Array {
        file: 0,
        dtype,
        dims: tensor.shape,
        storage: ArrayStorage::Contiguous {
            offset: start + begin,
        },
    })
}
