//! Memory that a fabric reads or writes.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

const PAGE: usize = 4096;

/// Whole pages, at one place until it is dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is an allocation of its own that any thread may free; its bytes are reached only
// through a `Slot`, of which each part has one, and by the fabric.
unsafe impl Send for Memory {}
// SAFETY: as above; a shared reference gives a place and a length, and no bytes.
unsafe impl Sync for Memory {}

/// A part of `Memory` that is nobody else's.
#[derive(Debug)]
pub struct Slot {
    memory: Arc<Memory>,
    offset: usize,
    len: usize,
}

impl Memory {
    /// Memory of `count` parts of `len` bytes each, and the parts. The system gives a page when it is
    /// first written.
    ///
    /// # Panics
    /// If there is nothing to be made, or the bytes do not fit in an address space.
    pub(crate) fn split(count: usize, len: usize) -> (Arc<Self>, Vec<Slot>) {
        let bytes = count.checked_mul(len).filter(|bytes| *bytes > 0);
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, PAGE).ok());
        let layout = layout.expect("a size that a caller has fixed");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout);
        };
        let memory = Arc::new(Self { start, layout });
        let slot = |number| Slot {
            memory: memory.clone(),
            offset: number * len,
            len,
        };
        let slots = (0..count).map(slot).collect();
        (memory, slots)
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made in `split` with this layout, freed once. No slot is left (each holds this
        // memory), and an `End` that registered it holds it until it is closed, or for good.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

impl Slot {
    /// Where it begins in the memory, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the part lies inside the memory (`split`), which was zeroed and lives as long as
        // `self`; no other slot overlaps it, so only `bytes_mut`, which borrows `self` alone, writes
        // to it. A fabric writes to the slot of a `Reader` only between the post of a read and its
        // end, during which the reader gives no bytes out.
        unsafe { std::slice::from_raw_parts(self.memory.start().add(self.offset), self.len) }
    }

    /// Its bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `self` is borrowed alone, so nothing of this language reads it
        // meanwhile. A fabric may, for one who was given the part before: a device, another process,
        // or a provider's own code in this one. It writes nothing here and acts on nothing that it
        // reads; whoever is sent such a mixture compares it with checksums.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start().add(self.offset), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_apart_and_outlive_each_other() {
        let (memory, mut slots) = Memory::split(3, 5000);
        assert_eq!(memory.len(), 15_000);
        for (number, slot) in slots.iter_mut().enumerate() {
            assert_eq!(slot.bytes(), [0; 5000], "nothing is left in it");
            slot.bytes_mut().fill(number as u8 + 1);
        }
        drop(memory);
        slots.remove(1);
        assert_eq!(slots[0].bytes(), [1; 5000]);
        assert_eq!(
            (slots[1].offset(), slots[1].bytes()),
            (10_000, &[3; 5000][..])
        );
    }
}
