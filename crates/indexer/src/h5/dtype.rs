//! Data type messages: exactly the types that numpy has under the same bytes.

use forebay_dataset::DType;

use super::cursor::Fields;
use super::{H5Error, H5Result, Remedy, damaged, unsupported};

/// The numpy type whose elements have the same bytes, or a refusal by name.
pub(super) fn parse(body: &[u8]) -> H5Result<DType> {
    let mut fields = Fields::new(body, "data type");
    let first = fields.uint(4)?;
    let size = fields.u32()?;
    let (class, version, flags) = (first as u8 & 15, first as u8 >> 4, (first >> 8) as u32);
    match class {
        0 => integer(&mut fields, flags, size),
        1 => float(&mut fields, flags, size),
        3 => text(flags, size),
        5 => opaque(flags, size),
        8 => boolean(&mut fields, version, flags, size),
        other => refuse(match other {
            2 => "a time type",
            4 => "a bit field type",
            6 => "a compound type",
            7 => "a reference type",
            9 => "a variable-length type",
            10 => "an array type",
            11 => "a complex type",
            _ => return unsupported(format!("data type class {other}"), Remedy::Convert),
        }),
    }
}

fn refuse(what: &str) -> H5Result<DType> {
    unsupported(what, Remedy::Convert)
}

fn named(order: char, kind: char, size: u32) -> H5Result<DType> {
    format!("{order}{kind}{size}")
        .parse()
        .or_else(|_| unsupported(format!("elements of {size} bytes"), Remedy::Convert))
}

const fn order(flags: u32, size: u32) -> char {
    match (size, flags & 1) {
        (1, _) => '|',
        (_, 0) => '<',
        _ => '>',
    }
}

fn integer(fields: &mut Fields<'_>, flags: u32, size: u32) -> H5Result<DType> {
    let (offset, precision) = (fields.u16()?, fields.u16()?);
    if !matches!(size, 1 | 2 | 4 | 8) || offset != 0 || u32::from(precision) != size * 8 {
        return unsupported(
            format!("an integer type of {precision} bits in {size} bytes"),
            Remedy::Convert,
        );
    }
    let kind = if flags & 8 == 0 { 'u' } else { 'i' };
    named(order(flags, size), kind, size)
}

fn float(fields: &mut Fields<'_>, flags: u32, size: u32) -> H5Result<DType> {
    let mut layout = [0_u32; 7];
    layout[0] = u32::from(fields.u16()?);
    layout[1] = u32::from(fields.u16()?);
    for value in &mut layout[2..6] {
        *value = u32::from(fields.u8()?);
    }
    layout[6] = fields.u32()?;
    // Bit offset, bits, exponent at, exponent bits, mantissa at, mantissa bits, exponent bias.
    let ieee: [u32; 7] = match size {
        2 => [0, 16, 10, 5, 0, 10, 15],
        4 => [0, 32, 23, 8, 0, 23, 127],
        8 => [0, 64, 52, 11, 0, 52, 1023],
        _ => [0; 7],
    };
    let sign_at = (flags >> 8) & 0xff;
    let implied_leading_one = (flags >> 4) & 3 == 2;
    let known_order = flags & 0x40 == 0;
    if layout != ieee || sign_at != size * 8 - 1 || !implied_leading_one || !known_order {
        return unsupported(
            format!("a floating-point type of {size} bytes that is not IEEE 754"),
            Remedy::Convert,
        );
    }
    named(order(flags, size), 'f', size)
}

fn text(flags: u32, size: u32) -> H5Result<DType> {
    match flags & 15 {
        0 | 1 => named('|', 'S', size),
        2 => refuse("a string type padded with spaces"),
        other => unsupported(format!("string padding {other}"), Remedy::Convert),
    }
}

fn opaque(flags: u32, size: u32) -> H5Result<DType> {
    // A tag gives the bytes a meaning that is not known here (h5py stores numpy's dates so).
    if flags & 0xff == 0 {
        named('|', 'V', size)
    } else {
        refuse("an opaque type with a tag")
    }
}

/// The enumeration that h5py writes for numpy's booleans; any other is refused.
fn boolean(fields: &mut Fields<'_>, version: u8, flags: u32, size: u32) -> H5Result<DType> {
    let members = flags & 0xffff;
    let mut base = Fields::new(fields.bytes(12)?, "enumeration");
    let base_class = base.uint(4)? as u8 & 15;
    let base_size = base.u32()?;
    if members != 2 || base_class != 0 || base_size != 1 || size != 1 {
        return refuse("an enumeration");
    }
    let mut names = Vec::new();
    for _ in 0..members {
        let name = fields.text()?;
        if version < 3 {
            // Older versions pad a name with its zero to a multiple of eight bytes.
            fields.skip((name.len() + 1).next_multiple_of(8) - (name.len() + 1))?;
        }
        names.push(name);
    }
    let values = fields.bytes(2)?;
    let mut pairs: Vec<_> = names.into_iter().zip(values.iter().copied()).collect();
    pairs.sort_unstable();
    if pairs == [(b"FALSE".as_slice(), 0), (b"TRUE".as_slice(), 1)] {
        named('|', 'b', 1)
    } else {
        refuse("an enumeration")
    }
}

/// Checked product of a shape and an element size, in bytes.
pub(super) fn byte_len(shape: &[u64], element: u16) -> H5Result<u64> {
    let len = if shape.contains(&0) {
        Some(0)
    } else {
        shape
            .iter()
            .try_fold(u64::from(element), |len, dim| len.checked_mul(*dim))
    };
    match len {
        Some(len) => Ok(len),
        None => damaged(format!(
            "its shape {shape:?} has more bytes than a file can"
        )),
    }
}

impl H5Error {
    /// Puts the name of the part in front of what is damaged.
    pub(super) fn within(self, part: &str) -> Self {
        match self {
            Self::Damaged(what) => Self::Damaged(format!("{part}: {what}")),
            other => other,
        }
    }
}
