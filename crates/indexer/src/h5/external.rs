//! Data of a data set that lies in files of bare bytes.

use hdf5_reader::io::Cursor;
use hdf5_reader::local_heap::LocalHeap;
use hdf5_reader::messages::external_files;
use hdf5_reader::storage::Storage;

use super::links::heap_text;
use super::part::Stored;
use super::{H5File, H5Result, damaged};

/// A run of bytes of a file of bare bytes.
struct Piece {
    file: u32,
    offset: u64,
    len: u64,
}

impl H5File {
    /// Where `wanted` bytes lie, as the message about external files says.
    pub(super) fn external(&self, body: &[u8], wanted: u64) -> H5Result<Stored> {
        let mut pieces = Vec::new();
        let mut rest = wanted;
        for (name, offset, size) in self.slots(body)? {
            if rest == 0 {
                break;
            }
            let (file, file_len) = self.place.family.raw(&name, &self.place.path)?;
            let len = rest.min(size);
            if offset.checked_add(len).is_none_or(|end| end > file_len) {
                return damaged(format!(
                    "its data ends after the end of `{name}`, which has {file_len} bytes"
                ));
            }
            rest -= len;
            pieces.push(Piece { file, offset, len });
        }
        if rest > 0 {
            return damaged(format!("its external files lack {rest} bytes of it"));
        }
        match &pieces[..] {
            [] => Ok(Stored::Nothing),
            [piece] => Ok(Stored::Run {
                file: piece.file,
                offset: piece.offset,
            }),
            _ => self.joined(&pieces, wanted),
        }
    }

    fn joined(&self, pieces: &[Piece], wanted: u64) -> H5Result<Stored> {
        self.must_decode("data in several external files")?;
        self.place.family.charge_decoded(wanted)?;
        // Bounded by what may be decoded, and by the files, which have so many bytes.
        let mut bytes = vec![0; wanted as usize];
        let mut at = 0;
        for piece in pieces {
            let end = at + piece.len as usize;
            let source = self.place.family.source(piece.file)?;
            source.read_exact_at(&mut bytes[at..end], piece.offset)?;
            at = end;
        }
        Ok(Stored::Decoded { bytes })
    }

    /// Name, first byte and bytes of each file, in order.
    fn slots(&self, body: &[u8]) -> H5Result<Vec<(String, u64, u64)>> {
        let (offset, length) = (self.offset_size, self.length_size);
        let message = external_files::parse(&mut Cursor::new(body), offset, length, body.len())?;
        let heap =
            LocalHeap::parse_at_storage(&self.storage, message.heap_address, offset, length)?;
        let Ok(heap_len) = usize::try_from(heap.data_segment_size) else {
            return damaged("a local heap is too large");
        };
        let names = self
            .storage
            .read_range(heap.data_segment_address, heap_len)?;
        let slots = message.slots.iter().map(|slot| {
            let name = heap_text(&names, slot.name_offset)?;
            Ok((name, slot.offset, slot.size))
        });
        slots.collect()
    }
}
