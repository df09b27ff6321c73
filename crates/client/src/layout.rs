//! Where the fields of a sample lie in the caller's buffer. Pure.

use forebay_dataset::IndexError;
use forebay_dataset::index::Sample;

/// Fields begin on multiples of this, which suits every element type and vector unit.
pub const FIELD_ALIGN: u64 = 64;

/// Where one field lies in the buffer of its sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPlace {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Moves `end` up to where the next field may begin.
pub(crate) fn align(end: u64) -> Result<u64, IndexError> {
    end.checked_next_multiple_of(FIELD_ALIGN)
        .ok_or_else(|| IndexError::Damaged("the length of a sample overflows".into()))
}

/// Places of the fields, one after another, aligned.
pub(crate) fn places<'a>(
    sample: &'a Sample<'a>,
    fields: usize,
) -> impl Iterator<Item = Result<FieldPlace, IndexError>> + 'a {
    let mut end = 0;
    (0..fields).map(move |field| {
        let len = sample.field(field)?.decoded_len();
        let offset = align(end)?;
        end = offset
            .checked_add(len)
            .ok_or_else(|| IndexError::Damaged("the length of a sample overflows".into()))?;
        Ok(FieldPlace { offset, len })
    })
}
