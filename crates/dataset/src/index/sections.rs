//! Writes an index section by section, with lengths that are known and content that is not yet.

use std::io::{self, Seek, SeekFrom, Write};

use crc_fast::{CrcAlgorithm, Digest};
use xxhash_rust::xxh3::Xxh3;

use super::build::unindexable;
use super::format::{ALIGN, Header, Section};
use crate::IndexError;

pub(super) fn invalid(error: IndexError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

/// Writes sections one after another, with their checksums; the header last.
pub(super) struct Sections<'a, W> {
    out: &'a mut W,
    header: Header,
    /// Bytes written.
    at: u64,
    current: Option<Section>,
    crc: Digest,
    generation: Xxh3,
}

impl<'a, W: Write + Seek> Sections<'a, W> {
    pub(super) fn begin(out: &'a mut W, header: &Header) -> io::Result<Self> {
        let mut generation = Xxh3::new();
        generation.update(header.counts().as_slice());
        // Not an index until the header is there.
        out.write_all(&vec![0; header.len()])?;
        Ok(Self {
            out,
            header: *header,
            at: header.len() as u64,
            current: None,
            crc: Digest::new(CrcAlgorithm::Crc32Iscsi),
            generation,
        })
    }

    pub(super) fn whole(&mut self, section: Section, bytes: &[u8]) -> io::Result<()> {
        self.begin_section(section)?;
        self.bytes(bytes)
    }

    pub(super) fn begin_section(&mut self, section: Section) -> io::Result<()> {
        self.end_section()?;
        let place = self.header.places[section as usize];
        let padding = [0; ALIGN as usize];
        let gap = place.offset - self.at;
        self.out.write_all(&padding[..gap as usize])?;
        self.at = place.offset;
        self.generation.update(&place.len.to_le_bytes());
        self.current = Some(section);
        Ok(())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        self.generation.update(bytes);
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Fails if a section is not as long as was said before it was written.
    fn end_section(&mut self) -> io::Result<()> {
        let Some(section) = self.current.take() else {
            return Ok(());
        };
        let place = &mut self.header.places[section as usize];
        if self.at != place.offset + place.len {
            let what = format!("section `{}`", section.name());
            return Err(invalid(unindexable(what, "its length is not as announced")));
        }
        place.crc32c = self.crc.finalize() as u32;
        self.crc.reset();
        Ok(())
    }

    pub(super) fn end(mut self, header: &mut Header) -> io::Result<()> {
        self.end_section()?;
        *header = self.header;
        header.generation = self.generation.digest128();
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header.encode())?;
        self.out.seek(SeekFrom::End(0))?;
        Ok(())
    }
}
