//! Data type messages: what of an element numpy has under the same bytes.

mod message;

use forebay_dataset::DType;

use super::cursor::Fields;
use super::filters::Narrow;
use super::{H5Error, H5Result, Remedy, damaged, unsupported};
use message::parse;

/// A type: what its elements are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Type {
    /// Bytes of an element.
    pub(super) size: u32,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The numpy type whose elements have the same bytes.
    Plain(DType),
    /// Integers that use a part of their bits.
    Narrow(DType, Narrow),
    /// Text that is filled up with spaces where this type has zeros.
    SpacePadded(DType),
    /// Addresses of objects of the same file, as their headers have them.
    Reference,
    /// Elements of one type, along some axes.
    Array {
        dims: Vec<u64>,
        of: Box<Type>,
    },
    Compound(Vec<Member>),
    /// Elements of one type, as many as each element says; text if they are bytes of text.
    Variable {
        of: Box<Type>,
        text: bool,
    },
    /// A type that is not read, in words.
    Refused(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    name: String,
    offset: u32,
    of: Type,
}

/// A part of each element that is a field of its own: all of it, or a member of a compound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    /// What its field is called behind the name of the data set: nothing, or `/member`.
    pub(super) suffix: String,
    /// First byte in the element.
    pub(super) offset: u32,
    /// Axes inside the element.
    pub(super) axes: Vec<u64>,
    /// No array and no compound.
    pub(super) of: Type,
}

impl Leaf {
    /// The same bytes without a meaning.
    pub(super) fn raw(&self) -> H5Result<Self> {
        let dtype = format!("|V{}", self.of.size).parse();
        Ok(Self {
            of: Type {
                size: self.of.size,
                kind: match dtype {
                    Ok(dtype) => Kind::Plain(dtype),
                    Err(_) => refused(format!("elements of {} bytes", self.of.size)),
                },
            },
            ..self.clone()
        })
    }
}

impl Type {
    /// The whole element, as bytes without a meaning.
    pub(super) fn whole(&self) -> H5Result<Leaf> {
        let leaf = Leaf {
            suffix: String::new(),
            offset: 0,
            axes: Vec::new(),
            of: self.clone(),
        };
        leaf.raw()
    }

    /// The type of a message.
    pub(super) fn parse(body: &[u8]) -> H5Result<Self> {
        parse(&mut Fields::new(body, "data type"), 0)
    }

    /// The parts that become fields.
    pub(super) fn leaves(&self) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        self.add_leaves("", 0, &mut leaves);
        leaves
    }

    fn add_leaves(&self, suffix: &str, offset: u32, leaves: &mut Vec<Leaf>) {
        if let Kind::Compound(members) = &self.kind {
            for member in members {
                let suffix = format!("{suffix}/{}", member.name);
                let offset = offset.saturating_add(member.offset);
                member.of.add_leaves(&suffix, offset, leaves);
            }
            return;
        }
        let (mut axes, mut of) = (Vec::new(), self);
        while let Kind::Array { dims, of: inner } = &of.kind {
            axes.extend(dims);
            of = inner;
        }
        let mut of = of.clone();
        match of.kind {
            Kind::Compound(_) => of.kind = refused("an array of compounds"),
            // The decoder makes whole numbers of whole elements only.
            Kind::Narrow(_, narrow) if !(suffix.is_empty() && axes.is_empty()) => {
                of.kind = refused(format!("a member of {} bits", narrow.bits));
            }
            _ => {}
        }
        leaves.push(Leaf {
            suffix: suffix.to_owned(),
            offset,
            axes,
            of,
        });
    }

    /// The bytes of an element that are `leaf`.
    pub(super) fn dtype(&self) -> H5Result<DType> {
        match &self.kind {
            Kind::Plain(dtype) | Kind::Narrow(dtype, _) | Kind::SpacePadded(dtype) => Ok(*dtype),
            Kind::Variable { .. } => unsupported("a variable-length type", Remedy::Flatten),
            Kind::Refused(what) => unsupported(what.clone(), Remedy::Convert),
            Kind::Array { .. } | Kind::Compound(_) | Kind::Reference => unsupported(
                "a variable-length type of compounds, arrays or references",
                Remedy::Convert,
            ),
        }
    }
}

fn refused(what: impl Into<String>) -> Kind {
    Kind::Refused(what.into())
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
