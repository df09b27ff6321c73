//! Memory that a daemon hands bytes over in, to one client.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};

use crate::sys::Mapping;

/// Parts begin where pages do.
const ALIGN: usize = 4096;

/// The daemon's side. The client can read all of it and change nothing.
#[derive(Debug)]
pub struct HandedMemory {
    file: File,
    mapping: Mapping,
    len: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    parts: usize,
    /// Where the next part begins.
    end: usize,
}

impl HandedMemory {
    /// Memory of so many bytes. What is not written takes no room.
    ///
    /// # Errors
    /// The system's.
    pub fn new(len: u64) -> io::Result<Arc<Self>> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("forebay-handed", flags)?);
        file.set_len(len)?;
        let mapping = Mapping::new(&file, len, true)?;
        // A client must not cut off what this process has mapped, nor write to it.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        Ok(Arc::new(Self {
            file,
            mapping,
            len: usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?,
            taken: Mutex::default(),
        }))
    }

    /// What to send the client.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A part that nobody else has, with whatever is in it; `None` if there is no room. Room comes
    /// back when no part is left.
    pub fn take(self: &Arc<Self>, len: usize) -> Option<HandedPart> {
        let mut taken = self.lock();
        let end = taken.end.checked_add(len)?;
        if len == 0 || end > self.len {
            return None;
        }
        let start = taken.end;
        taken.parts += 1;
        taken.end = end.next_multiple_of(ALIGN);
        drop(taken);
        Some(HandedPart {
            memory: self.clone(),
            start,
            len,
        })
    }

    /// Where in it some bytes lie, if they do.
    pub fn position(&self, bytes: &[u8]) -> Option<usize> {
        let start = self.mapping.address(0, self.len as u64)?.as_ptr() as usize;
        let position = (bytes.as_ptr() as usize).checked_sub(start)?;
        (position.checked_add(bytes.len())? <= self.len).then_some(position)
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of the memory.
#[derive(Debug)]
pub struct HandedPart {
    memory: Arc<HandedMemory>,
    start: usize,
    len: usize,
}

impl Deref for HandedPart {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.mapping.part(self.start, self.len)
    }
}

impl DerefMut for HandedPart {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.memory.mapping.part_mut(self.start, self.len)
    }
}

impl Drop for HandedPart {
    fn drop(&mut self) {
        let mut taken = self.memory.lock();
        taken.parts -= 1;
        if taken.parts == 0 {
            taken.end = 0;
        }
    }
}

/// The client's side.
#[derive(Debug)]
pub struct TakenMemory {
    mapping: Mapping,
}

impl TakenMemory {
    /// Maps what a daemon sent, so many bytes of it. The descriptor is needed no longer.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::InvalidData`] if the memory could become shorter.
    pub fn map(file: &File, len: u64) -> io::Result<Self> {
        if !fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mapping = Mapping::new(file, len, false)?;
        Ok(Self { mapping })
    }

    /// Copies from some place on.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if there are not so many bytes.
    pub fn copy(&self, start: u64, out: &mut [u8]) -> io::Result<()> {
        match self.mapping.copy(start, out) {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_is_written_into_a_part_is_read_by_the_client_and_changed_by_nobody() {
        let memory = HandedMemory::new(1 << 16).unwrap();
        let mut first = memory.take(5000).unwrap();
        let mut second = memory.take(3).unwrap();
        first.fill(1);
        second.copy_from_slice(&[7, 8, 9]);
        let at = memory.position(&second).unwrap();
        assert_eq!(memory.position(&first[4999..]), Some(4999));
        assert_eq!(memory.position(&[0; 8]), None);
        let client = TakenMemory::map(memory.file(), 1 << 16).unwrap();
        let mut out = [0; 2];
        client.copy(at as u64 + 1, &mut out).unwrap();
        assert_eq!(out, [8, 9]);
        client.copy(4999, &mut out[..1]).unwrap();
        assert_eq!(out[0], 1);
        for outside in [(1 << 16) - 1, 1 << 16, u64::MAX] {
            assert!(client.copy(outside, &mut out).is_err(), "{outside}");
        }
        assert!(memory.file().write_at(b"x", 0).is_err());
        assert!(memory.file().set_len(0).is_err());
        assert!(Mapping::new(memory.file(), 1 << 16, true).is_err());
    }

    #[test]
    fn parts_do_not_overlap_and_their_room_comes_back_with_the_last() {
        let memory = HandedMemory::new(3 * ALIGN as u64).unwrap();
        assert!(memory.take(0).is_none() && memory.take(3 * ALIGN + 1).is_none());
        let first = memory.take(ALIGN + 1).unwrap();
        let second = memory.take(ALIGN).unwrap();
        assert!(memory.take(1).is_none());
        assert_eq!(memory.position(&second), Some(2 * ALIGN));
        drop(first);
        assert!(memory.take(1).is_none(), "the other is still there");
        drop(second);
        assert_eq!(memory.take(3 * ALIGN).unwrap().len(), 3 * ALIGN);
    }

    #[test]
    fn memory_that_can_become_shorter_is_not_mapped() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert!(TakenMemory::map(&file, 4096).is_err());
        let memory = HandedMemory::new(4096).unwrap();
        assert!(TakenMemory::map(memory.file(), 8192).is_err());
    }
}
