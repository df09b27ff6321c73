//! What a data type message says, class by class.

use super::super::cursor::Fields;
use super::super::filters::Narrow;
use super::super::{H5Result, Remedy, damaged, unsupported};
use super::{Kind, Member, Type, byte_len, refused};

/// Types inside each other; more is a file that refers to itself.
const MAX_DEPTH: usize = 16;

/// Reads a type, which may be `depth` types deep inside another.
pub(super) fn parse(fields: &mut Fields<'_>, depth: usize) -> H5Result<Type> {
    if depth > MAX_DEPTH {
        return damaged("its types lie inside each other without end");
    }
    let first = fields.uint(4)?;
    let size = fields.u32()?;
    let (class, version, flags) = (first as u8 & 15, first as u8 >> 4, (first >> 8) as u32);
    let kind = match class {
        0 => integer(fields, flags, size)?,
        1 => float(fields, flags, size)?,
        2 => {
            fields.skip(2)?;
            refused("a time type")
        }
        3 => text(flags, size),
        4 => bits(fields, flags, size)?,
        5 => opaque(fields, flags, size)?,
        6 => compound(fields, version, flags, size, depth)?,
        7 => reference(flags),
        8 => enumeration(fields, version, flags, size, depth)?,
        9 => Kind::Variable {
            of: Box::new(parse(fields, depth + 1)?),
            text: flags & 15 == 1,
        },
        10 => array(fields, version, depth)?,
        11 => complex(&parse(fields, depth + 1)?, size),
        other => return unsupported(format!("data type class {other}"), Remedy::Convert),
    };
    Ok(Type { size, kind })
}

fn named(order: char, kind: char, size: u32) -> Kind {
    match format!("{order}{kind}{size}").parse() {
        Ok(dtype) => Kind::Plain(dtype),
        Err(_) => refused(format!("elements of {size} bytes")),
    }
}

const fn order(flags: u32, size: u32) -> char {
    match (size, flags & 1) {
        (1, _) => '|',
        (_, 0) => '<',
        _ => '>',
    }
}

fn integer(fields: &mut Fields<'_>, flags: u32, size: u32) -> H5Result<Kind> {
    let (offset, precision) = (fields.u16()?, u32::from(fields.u16()?));
    let signed = flags & 8 != 0;
    let kind = named(order(flags, size), if signed { 'i' } else { 'u' }, size);
    let Kind::Plain(dtype) = kind else {
        return Ok(kind);
    };
    Ok(if offset == 0 && precision == size * 8 {
        kind
    } else if offset == 0 && (1..size * 8).contains(&precision) {
        Kind::Narrow(
            dtype,
            Narrow {
                bits: precision as u8,
                signed,
            },
        )
    } else {
        refused(format!(
            "an integer type of {precision} bits from bit {offset} of {size} bytes"
        ))
    })
}

/// Bit fields have the bytes of unsigned integers.
fn bits(fields: &mut Fields<'_>, flags: u32, size: u32) -> H5Result<Kind> {
    let (offset, precision) = (fields.u16()?, u32::from(fields.u16()?));
    Ok(if offset == 0 && precision == size.saturating_mul(8) {
        named(order(flags, size), 'u', size)
    } else {
        refused(format!("a bit field of {precision} bits in {size} bytes"))
    })
}

fn float(fields: &mut Fields<'_>, flags: u32, size: u32) -> H5Result<Kind> {
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
    let standard = layout == ieee
        && size.checked_mul(8).is_some_and(|bits| sign_at + 1 == bits)
        && implied_leading_one
        && known_order;
    Ok(if standard {
        named(order(flags, size), 'f', size)
    } else {
        refused(format!(
            "a floating-point type of {size} bytes that is not IEEE 754"
        ))
    })
}

fn text(flags: u32, size: u32) -> Kind {
    match flags & 15 {
        0 | 1 => named('|', 'S', size),
        2 => match named('|', 'S', size) {
            Kind::Plain(dtype) => Kind::SpacePadded(dtype),
            other => other,
        },
        other => refused(format!("string padding {other}")),
    }
}

fn reference(flags: u32) -> Kind {
    match flags & 15 {
        0 => Kind::Reference,
        1 => refused("a region reference type"),
        other => refused(format!("reference type {other}")),
    }
}

fn opaque(fields: &mut Fields<'_>, flags: u32, size: u32) -> H5Result<Kind> {
    let tag = fields.bytes((flags & 0xff) as usize)?;
    // A tag gives the bytes a meaning that is not known here (h5py stores numpy's dates so).
    Ok(if tag.iter().all(|byte| *byte == 0) {
        named('|', 'V', size)
    } else {
        refused("an opaque type with a tag")
    })
}

/// Numbers, or the booleans that h5py writes for numpy's.
fn enumeration(
    fields: &mut Fields<'_>,
    version: u8,
    flags: u32,
    size: u32,
    depth: usize,
) -> H5Result<Kind> {
    let members = flags & 0xffff;
    let base = parse(fields, depth + 1)?;
    if base.size != size {
        return damaged(format!(
            "its enumeration has {size} bytes, the numbers of it {}",
            base.size
        ));
    }
    let mut names = Vec::new();
    for _ in 0..members {
        names.push(name(fields, version)?);
    }
    let mut pairs = Vec::new();
    for name in names {
        pairs.push((name, fields.bytes(size as usize)?));
    }
    pairs.sort_unstable();
    let boolean = size == 1 && pairs == [(&b"FALSE"[..], &[0][..]), (b"TRUE", &[1])];
    Ok(if boolean {
        named('|', 'b', 1)
    } else {
        base.kind
    })
}

/// Names of members and of numbers: before version 3 padded, with their zero, to eight bytes.
fn name<'a>(fields: &mut Fields<'a>, version: u8) -> H5Result<&'a [u8]> {
    let name = fields.text()?;
    if version < 3 {
        fields.skip((name.len() + 1).next_multiple_of(8) - (name.len() + 1))?;
    }
    Ok(name)
}

fn compound(
    fields: &mut Fields<'_>,
    version: u8,
    flags: u32,
    size: u32,
    depth: usize,
) -> H5Result<Kind> {
    let mut members = Vec::new();
    for _ in 0..flags & 0xffff {
        let member = member(fields, version, size, depth)?;
        if u64::from(member.offset) + u64::from(member.of.size) > u64::from(size) {
            return damaged(format!("its member `{}` has no room", member.name));
        }
        members.push(member);
    }
    if let [real, imaginary] = &members[..]
        && (real.name.as_str(), imaginary.name.as_str()) == ("r", "i")
        && (real.offset, imaginary.offset) == (0, real.of.size)
        && real.of == imaginary.of
        && let kind @ Kind::Plain(_) = complex(&real.of, size)
    {
        return Ok(kind);
    }
    Ok(Kind::Compound(members))
}

fn member(fields: &mut Fields<'_>, version: u8, size: u32, depth: usize) -> H5Result<Member> {
    let name = match std::str::from_utf8(name(fields, version)?) {
        Ok(name) => name.to_owned(),
        Err(_) => return damaged("a member of its type has a name that is not UTF-8"),
    };
    let offset = if version < 3 {
        fields.u32()?
    } else {
        let width = (4 - size.leading_zeros() / 8).max(1);
        fields.uint(width as u8)? as u32
    };
    if version != 1 {
        let of = parse(fields, depth + 1)?;
        return Ok(Member { name, offset, of });
    }
    // The first version has axes here, and no array type.
    let rank = usize::from(fields.u8()?);
    fields.skip(11)?;
    let dims = [fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?];
    let of = parse(fields, depth + 1)?;
    if rank == 0 {
        return Ok(Member { name, offset, of });
    }
    let Some(dims) = dims.get(..rank) else {
        return damaged(format!("its member `{name}` has {rank} axes"));
    };
    let of = array_of(dims.iter().map(|dim| u64::from(*dim)).collect(), of)?;
    Ok(Member { name, offset, of })
}

fn array(fields: &mut Fields<'_>, version: u8, depth: usize) -> H5Result<Kind> {
    let rank = usize::from(fields.u8()?);
    if version < 3 {
        fields.skip(3)?;
    }
    let mut dims = Vec::with_capacity(rank);
    for _ in 0..rank {
        dims.push(u64::from(fields.u32()?));
    }
    if version < 3 {
        fields.skip(4 * rank)?;
    }
    Ok(array_of(dims, parse(fields, depth + 1)?)?.kind)
}

fn array_of(dims: Vec<u64>, of: Type) -> H5Result<Type> {
    let elements = byte_len(&dims, 1)?;
    match u32::try_from(elements.saturating_mul(of.size.into())) {
        Ok(size) if size > 0 => Ok(Type {
            size,
            kind: Kind::Array {
                dims,
                of: Box::new(of),
            },
        }),
        _ => damaged(format!("its array type has the shape {dims:?}")),
    }
}

fn complex(part: &Type, size: u32) -> Kind {
    match &part.kind {
        Kind::Plain(dtype) if dtype.kind() == 'f' && size == 2 * part.size => {
            let order = dtype.to_string().chars().next().unwrap_or('|');
            named(order, 'c', size)
        }
        _ => refused("a complex type"),
    }
}
