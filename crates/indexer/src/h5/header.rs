//! Object headers, versions 1 and 2, as raw messages with their place in the file.

use hdf5_reader::checksum::jenkins_lookup3;
use hdf5_reader::storage::{Storage, StorageBuffer};

use super::cursor::Fields;
use super::{H5File, H5Result, ObjectKind, Remedy, damaged, unsupported};

/// Types of messages that are read.
pub(super) mod kind {
    pub(crate) const DATASPACE: u16 = 0x01;
    pub(crate) const LINK_INFO: u16 = 0x02;
    pub(crate) const DATATYPE: u16 = 0x03;
    pub(crate) const FILL_VALUE_OLD: u16 = 0x04;
    pub(crate) const FILL_VALUE: u16 = 0x05;
    pub(crate) const LINK: u16 = 0x06;
    pub(crate) const EXTERNAL_FILES: u16 = 0x07;
    pub(crate) const LAYOUT: u16 = 0x08;
    pub(crate) const GROUP_INFO: u16 = 0x0a;
    pub(crate) const FILTERS: u16 = 0x0b;
    pub(crate) const CONTINUATION: u16 = 0x10;
    pub(crate) const SYMBOL_TABLE: u16 = 0x11;
}

/// A header has a handful of chunks; a thousand is a file that refers to itself.
const MAX_CHUNKS: usize = 1024;

/// One message of a header.
pub(super) struct Message {
    pub(super) kind: u16,
    flags: u8,
    chunk: usize,
    start: usize,
    end: usize,
}

/// All messages of one object.
pub(super) struct Header {
    /// Runs of bytes that hold messages, each with its address.
    chunks: Vec<(u64, StorageBuffer)>,
    pub(super) messages: Vec<Message>,
    version: u8,
    /// Version 2: a message has its creation order in front of it.
    ordered: bool,
}

impl Header {
    pub(super) fn read(file: &H5File, address: u64) -> H5Result<Self> {
        let prefix = file.storage.read_range(address, 8)?;
        let mut header = if prefix[..4] == *b"OHDR" {
            Self::first_chunk_v2(file, address)?
        } else if prefix[0] == 1 {
            Self::first_chunk_v1(file, address)?
        } else {
            return damaged(format!("there is no object header at byte {address}"));
        };
        let mut next = 0;
        while next < header.messages.len() {
            if header.messages[next].kind == kind::CONTINUATION {
                header.follow(file, next)?;
            }
            next += 1;
        }
        Ok(header)
    }

    fn first_chunk_v1(file: &H5File, address: u64) -> H5Result<Self> {
        let prefix = file.storage.read_range(address, 16)?;
        let mut fields = Fields::new(&prefix, "object header");
        fields.skip(8)?;
        let len = fields.u32()? as usize;
        let mut header = Self {
            chunks: Vec::with_capacity(1),
            messages: Vec::with_capacity(8),
            version: 1,
            ordered: false,
        };
        let start = address.saturating_add(16);
        let bytes = file.storage.read_range(start, len)?;
        header.add_chunk(start, bytes, 0, len)?;
        Ok(header)
    }

    fn first_chunk_v2(file: &H5File, address: u64) -> H5Result<Self> {
        let prefix = file.storage.read_range(address, 6)?;
        let (version, flags) = (prefix[4], prefix[5]);
        if version != 2 {
            return unsupported(
                format!("version {version} of object headers"),
                Remedy::Repack,
            );
        }
        let times = if flags & 0x20 != 0 { 16 } else { 0 };
        let phases = if flags & 0x10 != 0 { 4 } else { 0 };
        let width = 1_u8 << (flags & 3);
        let body = 6 + times + phases + usize::from(width);
        let prefix = file.storage.read_range(address, body)?;
        let len = Fields::new(&prefix[body - usize::from(width)..], "object header").uint(width)?;
        let Some(total) = usize::try_from(len)
            .ok()
            .and_then(|len| len.checked_add(body + 4))
        else {
            return damaged(format!("the object header at byte {address} has no end"));
        };
        let bytes = checked(file, address, total)?;
        let mut header = Self {
            chunks: Vec::with_capacity(1),
            messages: Vec::with_capacity(8),
            version: 2,
            ordered: flags & 0x04 != 0,
        };
        header.add_chunk(address, bytes, body, total - 4)?;
        Ok(header)
    }

    fn follow(&mut self, file: &H5File, message: usize) -> H5Result<()> {
        let mut fields = Fields::new(self.body(&self.messages[message]), "header continuation");
        let address = fields.uint(file.offset_size)?;
        let len = fields.uint(file.length_size)?;
        let seen = self.chunks.iter().any(|(held, _)| *held == address);
        if seen || self.chunks.len() >= MAX_CHUNKS {
            return damaged(format!(
                "the object header at byte {address} refers to itself"
            ));
        }
        let Ok(len) = usize::try_from(len) else {
            return damaged("an object header has no end");
        };
        if self.version == 1 {
            let bytes = file.storage.read_range(address, len)?;
            return self.add_chunk(address, bytes, 0, len);
        }
        if len < 8 {
            return damaged("an object header continuation is too short");
        }
        let bytes = checked(file, address, len)?;
        if bytes[..4] != *b"OCHK" {
            return damaged(format!("there is no header continuation at byte {address}"));
        }
        self.add_chunk(address, bytes, 4, len - 4)
    }

    fn add_chunk(
        &mut self,
        address: u64,
        bytes: StorageBuffer,
        mut at: usize,
        end: usize,
    ) -> H5Result<()> {
        let prefix = match (self.version, self.ordered) {
            (1, _) => 8,
            (_, true) => 6,
            (_, false) => 4,
        };
        while end - at >= prefix {
            let mut fields = Fields::new(&bytes[at..end], "object header");
            let (kind, len, flags);
            if self.version == 1 {
                kind = fields.u16()?;
                len = usize::from(fields.u16()?);
                flags = fields.u8()?;
            } else {
                kind = u16::from(fields.u8()?);
                len = usize::from(fields.u16()?);
                flags = fields.u8()?;
            }
            let start = at + prefix;
            if end - start < len {
                return damaged(format!(
                    "a message of the object header at byte {address} has no end"
                ));
            }
            self.messages.push(Message {
                kind,
                flags,
                chunk: self.chunks.len(),
                start,
                end: start + len,
            });
            at = start + len;
        }
        self.chunks.push((address, bytes));
        Ok(())
    }

    /// What the object is.
    pub(super) fn kind(&self) -> ObjectKind {
        let has = |wanted: u16| self.messages.iter().any(|found| found.kind == wanted);
        if has(kind::LAYOUT) {
            ObjectKind::Dataset
        } else if [
            kind::SYMBOL_TABLE,
            kind::LINK_INFO,
            kind::LINK,
            kind::GROUP_INFO,
        ]
        .into_iter()
        .any(has)
        {
            ObjectKind::Group
        } else {
            ObjectKind::Other
        }
    }

    /// The bytes of a message as they stand in the header.
    pub(super) fn body(&self, message: &Message) -> &[u8] {
        &self.chunks[message.chunk].1[message.start..message.end]
    }

    /// Address of the first byte of a message.
    pub(super) fn body_address(&self, message: &Message) -> u64 {
        self.chunks[message.chunk].0 + message.start as u64
    }

    pub(super) fn find(&self, wanted: u16) -> Option<&Message> {
        self.messages.iter().find(|found| found.kind == wanted)
    }

    /// The bytes of the first message of a type. A message that is shared is looked up where it
    /// lies: a committed data type in the header of its own object.
    pub(super) fn resolved(&self, file: &H5File, wanted: u16) -> H5Result<Option<Vec<u8>>> {
        const SHARED: u8 = 0x02;
        let Some(message) = self.find(wanted) else {
            return Ok(None);
        };
        let body = self.body(message);
        if message.flags & SHARED == 0 {
            return Ok(Some(body.to_vec()));
        }
        let mut fields = Fields::new(body, "shared message");
        let version = fields.u8()?;
        let place = fields.u8()?;
        match (version, place) {
            (1, _) => fields.skip(6)?,
            (2, 0 | 2) | (3, 2) => {}
            (3, 1) => return unsupported("shared object header messages", Remedy::Repack),
            _ => {
                return unsupported(
                    format!("version {version} of shared messages, type {place}"),
                    Remedy::Repack,
                );
            }
        }
        let target = Self::read(file, fields.uint(file.offset_size)?)?;
        match target.find(wanted) {
            Some(found) if found.flags & SHARED == 0 => Ok(Some(target.body(found).to_vec())),
            _ => damaged("a shared message leads nowhere"),
        }
    }
}

/// Bytes whose last four are the checksum of those before.
fn checked(file: &H5File, address: u64, len: usize) -> H5Result<StorageBuffer> {
    let bytes = file.storage.read_range(address, len)?;
    let (content, stored) = bytes.split_at(len - 4);
    if jenkins_lookup3(content).to_le_bytes() != *stored {
        return damaged(format!(
            "the object header at byte {address} fails its checksum"
        ));
    }
    Ok(bytes)
}
