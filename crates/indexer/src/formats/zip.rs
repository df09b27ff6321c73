//! The directory of a zip archive, and where the data of its members lies.

use crc_fast::{CrcAlgorithm, Digest};
use flate2::{Decompress, FlushDecompress, Status};

use crate::error::Result;

use super::reader::Reader;

const END: u64 = 22;
const END64: u64 = 56;
const LOCATOR64: u64 = 20;
const CENTRAL: u64 = 46;
const LOCAL: u64 = 30;
/// In a field of four bytes: the number is in the extra field.
const ELSEWHERE: u32 = u32::MAX;

const REWRITE: &str = "write the archive again with `np.savez`";

/// How a member is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Deflated,
}

/// A member of the archive.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    method: u16,
    flags: u16,
    crc32: u32,
    /// Bytes in the archive.
    pub(super) stored: u64,
    /// Bytes of the member.
    pub(super) size: u64,
    header: u64,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Reads the directory.
pub(super) fn entries(reader: &mut Reader<'_>) -> Result<Vec<Entry>> {
    let (start, len, count) = directory(reader)?;
    let bytes = reader.at(start, len, "the directory")?.to_vec();
    let mut entries = Vec::new();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (entry, used) = central(rest).ok_or_else(|| {
            let number = entries.len();
            reader.damaged(format!("entry {number} of its directory makes no sense"))
        })?;
        entries.push(entry);
        rest = &rest[used..];
    }
    if entries.len() as u64 != count {
        let found = entries.len();
        return Err(reader.damaged(format!("its directory has {found} entries, not {count}")));
    }
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(reader.damaged(format!("two of its members are called `{}`", pair[0]))),
        None => Ok(entries),
    }
}

/// First byte and bytes of the directory, and its entries.
fn directory(reader: &mut Reader<'_>) -> Result<(u64, u64, u64)> {
    // A comment of up to 65,535 bytes may follow.
    let searched = reader.len().min(END + 65_535);
    let from = reader.len() - searched;
    let tail = reader.at(from, searched, "the end of the archive")?;
    let is_end = |at: &usize| {
        let comment = tail.len() - at - END as usize;
        tail[*at..].starts_with(b"PK\x05\x06") && usize::from(u16_at(tail, at + 20)) == comment
    };
    let at = tail.len().checked_sub(END as usize);
    let Some(at) = at.and_then(|last| (0..=last).rev().find(is_end)) else {
        return Err(reader.damaged("it is not a zip archive, or it is truncated"));
    };
    let end: Vec<u8> = tail[at..at + END as usize].to_vec();
    let end_at = from + at as u64;
    let whole = (
        u64::from(u32_at(&end, 16)),
        u64::from(u32_at(&end, 12)),
        u64::from(u16_at(&end, 10)),
    );
    let wide = u32_at(&end, 16) == ELSEWHERE
        || u32_at(&end, 12) == ELSEWHERE
        || u16_at(&end, 10) == u16::MAX;
    let wide_at = end_at.checked_sub(LOCATOR64).filter(|_| wide);
    let Some(wide_at) = wide_at else {
        if u16_at(&end, 4) != 0 || u16_at(&end, 8) != u16_at(&end, 10) {
            return Err(reader.unsupported("", "a zip archive in several parts", REWRITE));
        }
        return Ok(whole);
    };
    let locator: [u8; LOCATOR64 as usize] = reader.array(wide_at, "the end of the archive")?;
    if !locator.starts_with(b"PK\x06\x07") {
        return Ok(whole);
    }
    let end: [u8; END64 as usize] = reader.array(u64_at(&locator, 8), "the end of the archive")?;
    if !end.starts_with(b"PK\x06\x06") {
        return Err(reader.damaged("its zip64 directory is not where it should be"));
    }
    Ok((u64_at(&end, 48), u64_at(&end, 40), u64_at(&end, 32)))
}

/// One entry of the directory and its length.
fn central(bytes: &[u8]) -> Option<(Entry, usize)> {
    if bytes.len() < CENTRAL as usize || !bytes.starts_with(b"PK\x01\x02") {
        return None;
    }
    let lens = [28, 30, 32].map(|at| usize::from(u16_at(bytes, at)));
    let name_end = CENTRAL as usize + lens[0];
    let name = std::str::from_utf8(bytes.get(CENTRAL as usize..name_end)?).ok()?;
    let extra = bytes.get(name_end..name_end + lens[1])?;
    let used = name_end + lens[1] + lens[2];
    bytes.get(..used)?;
    let mut wide = zip64(extra);
    let mut number = |at: usize| match u32_at(bytes, at) {
        ELSEWHERE => {
            let (value, rest) = wide.split_at_checked(8)?;
            wide = rest;
            Some(u64_at(value, 0))
        }
        value => Some(value.into()),
    };
    let (size, stored, header) = (number(24)?, number(20)?, number(42)?);
    let entry = Entry {
        name: name.to_owned(),
        flags: u16_at(bytes, 8),
        method: u16_at(bytes, 10),
        crc32: u32_at(bytes, 16),
        stored,
        size,
        header,
    };
    Some((entry, used))
}

/// The numbers of 64 bits among the extra fields.
fn zip64(mut extra: &[u8]) -> &[u8] {
    while extra.len() >= 4 {
        let len = usize::from(u16_at(extra, 2));
        let Some(field) = extra.get(4..4 + len) else {
            break;
        };
        if u16_at(extra, 0) == 1 {
            return field;
        }
        extra = &extra[4 + len..];
    }
    &[]
}

impl Entry {
    /// How the member is stored, or an error that names what is not supported.
    pub(super) fn method(&self, reader: &Reader<'_>) -> Result<Method> {
        if self.flags & 1 != 0 {
            return Err(reader.unsupported(&self.name, "encryption", REWRITE));
        }
        match self.method {
            0 if self.stored != self.size => {
                Err(reader.damaged_in(&self.name, "it is stored in another length than its own"))
            }
            0 => Ok(Method::Stored),
            8 => Ok(Method::Deflated),
            method => {
                let feature = format!("zip compression method {method}");
                Err(reader.unsupported(&self.name, feature, REWRITE))
            }
        }
    }

    /// First byte of the member's data.
    pub(super) fn data(&self, reader: &mut Reader<'_>) -> Result<u64> {
        let local: [u8; LOCAL as usize] = reader.array(self.header, "a member's header")?;
        let name_len = u64::from(u16_at(&local, 26));
        let name = reader.at(self.header + LOCAL, name_len, "a member's header")?;
        if !local.starts_with(b"PK\x03\x04") || name != self.name.as_bytes() {
            return Err(reader.damaged_in(&self.name, "its header is not where the directory says"));
        }
        let data = self.header + LOCAL + name_len + u64::from(u16_at(&local, 28));
        reader.check(data, self.stored, "a member")?;
        Ok(data)
    }

    /// The first `wanted` bytes of a deflated member, or all if it has fewer.
    pub(super) fn inflated(
        &self,
        reader: &mut Reader<'_>,
        data: u64,
        wanted: usize,
    ) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.inflate(reader, data, |piece| {
            out.extend_from_slice(&piece[..piece.len().min(wanted - out.len())]);
            out.len() < wanted
        })?;
        Ok(out)
    }

    /// Reads all of the member and compares it with its checksum.
    pub(super) fn verify(&self, reader: &mut Reader<'_>, data: u64, method: Method) -> Result<()> {
        let mut sum = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
        let mut len = 0;
        let mut add = |piece: &[u8]| {
            sum.update(piece);
            len += piece.len() as u64;
            true
        };
        match method {
            Method::Stored => reader.pieces(data, self.stored, "a member", add)?,
            Method::Deflated => self.inflate(reader, data, &mut add)?,
        }
        if len == self.size && sum.finalize() as u32 == self.crc32 {
            return Ok(());
        }
        Err(reader.damaged_in(
            &self.name,
            "its bytes do not have the checksum that is stored",
        ))
    }

    /// Gives the member's bytes to `take`, until it answers false.
    fn inflate(
        &self,
        reader: &mut Reader<'_>,
        data: u64,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let mut inflate = Decompress::new(false);
        let mut out = [0; 16 << 10];
        // Whether it ended by itself, and whether it makes sense.
        let (mut ended, mut sound, mut wanted) = (false, true, true);
        reader.pieces(data, self.stored, "a member", |piece| {
            let mut input = piece;
            while sound && wanted && !ended {
                let (read, made) = (inflate.total_in(), inflate.total_out());
                let status = inflate.decompress(input, &mut out, FlushDecompress::None);
                input = &input[(inflate.total_in() - read) as usize..];
                let made = (inflate.total_out() - made) as usize;
                sound = status.is_ok() && inflate.total_out() <= self.size;
                ended = matches!(status, Ok(Status::StreamEnd));
                wanted = sound && take(&out[..made]);
                if made == 0 && inflate.total_in() == read {
                    // No progress without more input: it is for the next piece to bring it.
                    sound &= input.is_empty();
                    break;
                }
            }
            sound && wanted && !ended
        })?;
        if sound && (ended || !wanted) {
            return Ok(());
        }
        Err(reader.damaged_in(&self.name, "its compressed bytes make no sense"))
    }
}
