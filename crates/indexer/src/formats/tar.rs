//! Tar archives as WebDataset has them: the members of one stem, which lie side by side, are a
//! sample; the rest of their names are its fields.

use std::collections::{BTreeMap, HashMap, HashSet};

use forebay_dataset::index::FieldSpec;

use crate::IndexerError;
use crate::error::Result;
use crate::groups::GroupSamples;
use crate::h5::Array;
use crate::scan::FieldFilter;

use super::reader::Reader;
use super::tar_header::{BLOCK, Header, pax_records};
use super::{add_sample, byte_field, bytes_at};

/// Longest name or extended header that is read: far more than a path can have.
const MAX_EXTENDED: u64 = 1 << 20;

const REPACK: &str = "make the archive again with plain files, for instance `tar --dereference \
                      --format=posix`, or extract it and index the files";

/// A member that holds data.
struct Member {
    name: String,
    offset: u64,
    size: u64,
}

/// What extended headers say about the member that follows.
#[derive(Default)]
struct Extended {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

/// Finds the samples of an archive.
pub(super) fn scan(reader: &mut Reader<'_>, filter: &FieldFilter) -> Result<GroupSamples> {
    refuse_compression(reader)?;
    let mut archive = Archive {
        at: 0,
        extended: Extended::default(),
        linkable: HashMap::new(),
    };
    let mut samples = Samples {
        filter,
        found: GroupSamples::default(),
        seen: HashSet::new(),
        key: None,
        fields: BTreeMap::new(),
    };
    while let Some(member) = archive.next(reader)? {
        samples.member(reader, &member)?;
    }
    samples.finish(reader)?;
    Ok(samples.found)
}

fn refuse_compression(reader: &mut Reader<'_>) -> Result<()> {
    let len = reader.len().min(6);
    let head = reader.at(0, len, "its first bytes")?;
    let magics: [(&[u8], &str); 4] = [
        (b"\x1f\x8b", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
    ];
    match magics.iter().find(|(magic, _)| head.starts_with(magic)) {
        None => Ok(()),
        Some((_, name)) => Err(reader.unsupported(
            "",
            format!("an archive that is compressed as a whole ({name})"),
            "decompress it (`gunzip`, `unzstd`, `unxz`, `bunzip2`): images and the like lose \
             little by it",
        )),
    }
}

struct Archive {
    /// Where the next header begins.
    at: u64,
    extended: Extended,
    /// Members so far, for hard links.
    linkable: HashMap<String, (u64, u64)>,
}

impl Archive {
    /// The next member that holds data.
    fn next(&mut self, reader: &mut Reader<'_>) -> Result<Option<Member>> {
        loop {
            let block = match reader.len() - self.at {
                0 => return Err(reader.damaged("it is truncated: it has no end-of-archive mark")),
                _ => reader.array(self.at, "a header")?,
            };
            if block == [0; BLOCK as usize] {
                self.end(reader)?;
                return Ok(None);
            }
            let header = Header::parse(&block)
                .map_err(|fault| reader.damaged(format!("{fault}, at byte {}", self.at)))?;
            let data = self.at + BLOCK;
            if let Some(member) = self.entry(reader, header, data)? {
                return Ok(Some(member));
            }
        }
    }

    /// Everything behind the first block of zeros has to be zeros.
    fn end(&self, reader: &mut Reader<'_>) -> Result<()> {
        let mut zeros = true;
        let rest = reader.len() - self.at;
        reader.pieces(self.at, rest, "the end of the archive", |piece| {
            zeros = piece.iter().all(|byte| *byte == 0);
            zeros
        })?;
        if zeros {
            return Ok(());
        }
        Err(reader.unsupported(
            "",
            "data behind the end of the archive (archives put together)",
            "index the archives separately, or pack them into one with `tar --concatenate`",
        ))
    }

    /// Takes in one entry whose data would begin at `data`.
    fn entry(
        &mut self,
        reader: &mut Reader<'_>,
        header: Header,
        data: u64,
    ) -> Result<Option<Member>> {
        let own_size = header.size;
        match header.kind {
            b'x' | b'g' | b'L' | b'K' => {
                self.skip(reader, data, own_size)?;
                self.extend(reader, header.kind, data, own_size)?;
                return Ok(None);
            }
            _ => {}
        }
        let extended = std::mem::take(&mut self.extended);
        let name = utf8(reader, extended.name.unwrap_or(header.name))?;
        let size = extended.size.unwrap_or(own_size);
        match header.kind {
            b'0' | 0 | b'7' if !name.ends_with('/') => {
                self.skip(reader, data, size)?;
                let member = Member {
                    name,
                    offset: data,
                    size,
                };
                self.linkable.insert(member.name.clone(), (data, size));
                Ok(Some(member))
            }
            // A link has no data of its own, whatever its size says.
            b'1' => {
                self.at = data;
                let target = utf8(reader, extended.link.unwrap_or(header.link))?;
                self.hard_link(reader, name, &target).map(Some)
            }
            // Folders and volume labels.
            b'5' | 0 | b'0' | b'7' => {
                self.skip(reader, data, if header.kind == b'5' { 0 } else { size })?;
                Ok(None)
            }
            b'V' => {
                self.skip(reader, data, size)?;
                Ok(None)
            }
            kind => Err(reader.unsupported(&name, kind_name(kind), REPACK)),
        }
    }

    fn skip(&mut self, reader: &Reader<'_>, data: u64, size: u64) -> Result<()> {
        let padded = size.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
        self.at = reader.check(data, padded, "a member")?;
        Ok(())
    }

    fn hard_link(&mut self, reader: &Reader<'_>, name: String, target: &str) -> Result<Member> {
        match self.linkable.get(target) {
            Some(&(offset, size)) => {
                self.linkable.insert(name.clone(), (offset, size));
                Ok(Member { name, offset, size })
            }
            None => Err(reader.damaged_in(
                &name,
                format!("it is a link to `{target}`, which is not in the archive before it"),
            )),
        }
    }

    fn extend(&mut self, reader: &mut Reader<'_>, kind: u8, data: u64, size: u64) -> Result<()> {
        if size > MAX_EXTENDED {
            return Err(reader.damaged(format!("an extended header has {size} bytes")));
        }
        let bytes = reader.at(data, size, "an extended header")?.to_vec();
        let name = |bytes: &[u8]| {
            let end = bytes.iter().position(|byte| *byte == 0);
            bytes[..end.unwrap_or(bytes.len())].to_vec()
        };
        match kind {
            b'L' => self.extended.name = Some(name(&bytes)),
            b'K' => self.extended.link = Some(name(&bytes)),
            _ => self.extend_by_pax(reader, kind == b'g', &bytes)?,
        }
        Ok(())
    }

    fn extend_by_pax(&mut self, reader: &Reader<'_>, global: bool, bytes: &[u8]) -> Result<()> {
        let records = pax_records(bytes).map_err(|fault| reader.damaged(fault))?;
        if records.keys().any(|key| key.starts_with("GNU.sparse.")) {
            return Err(reader.unsupported("", "a sparse file (pax)", REPACK));
        }
        let counts = ["path", "linkpath", "size"];
        if global && records.keys().any(|key| counts.contains(&key.as_str())) {
            let feature = "a global pax header that names all members alike";
            return Err(reader.unsupported("", feature, REPACK));
        }
        for (key, value) in records {
            match key.as_str() {
                "path" => self.extended.name = Some(value),
                "linkpath" => self.extended.link = Some(value),
                "size" => {
                    let size = std::str::from_utf8(&value).ok();
                    let size = size.and_then(|digits| digits.parse().ok());
                    self.extended.size = size;
                    if size.is_none() {
                        return Err(reader.damaged("a pax header says a size that is no number"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn utf8(reader: &Reader<'_>, name: Vec<u8>) -> Result<String> {
    String::from_utf8(name).map_err(|error| {
        let name = String::from_utf8_lossy(error.as_bytes()).into_owned();
        reader.unsupported(&name, "a name that is not UTF-8", REPACK)
    })
}

fn kind_name(kind: u8) -> String {
    match kind {
        b'2' => "a symbolic link".to_owned(),
        b'3' | b'4' => "a device".to_owned(),
        b'6' => "a named pipe".to_owned(),
        b'S' => "a sparse file (GNU)".to_owned(),
        b'M' => "part of a file that begins in another archive".to_owned(),
        b'D' => "a GNU incremental backup".to_owned(),
        kind => format!("a member of type `{}`", kind.escape_ascii()),
    }
}

/// Stem and fields' name of a member; `None` for what WebDataset leaves out too: names without an
/// extension, hidden ones, and its own metadata in folders called `__name__`.
fn split(name: &str) -> Option<(&str, &str)> {
    let file_at = name.rfind('/').map_or(0, |slash| slash + 1);
    let file = &name[file_at..];
    let dot = file.find('.').filter(|dot| *dot > 0)?;
    let first = name.split('/').next().unwrap_or(name);
    let metadata = first.len() >= 4 && first.starts_with("__") && first.ends_with("__");
    (!metadata).then(|| (&name[..file_at + dot], &file[dot + 1..]))
}

/// Puts members together to samples.
struct Samples<'a> {
    filter: &'a FieldFilter,
    found: GroupSamples,
    /// Keys of the samples that are complete.
    seen: HashSet<String>,
    /// The sample whose members come.
    key: Option<String>,
    fields: BTreeMap<String, Array>,
}

impl Samples<'_> {
    fn member(&mut self, reader: &Reader<'_>, member: &Member) -> Result<()> {
        let Some((key, extension)) = split(&member.name) else {
            return Ok(());
        };
        if self.key.as_deref() != Some(key) {
            self.finish(reader)?;
            if self.seen.contains(key) {
                return Err(IndexerError::Uneven(format!(
                    "the members of sample `{key}` of `{}` do not lie side by side: pack it again \
                     with `tar --sort=name`",
                    reader.path().display()
                )));
            }
            self.key = Some(key.to_owned());
        }
        let extension = extension.to_lowercase();
        if extension.is_empty() {
            return Err(reader.unsupported(&member.name, "a name that ends in a dot", REPACK));
        }
        if !self.filter.keeps(&extension) {
            return Ok(());
        }
        let bytes = bytes_at(member.offset, member.size);
        if self.fields.insert(extension, bytes).is_some() {
            return Err(IndexerError::Uneven(format!(
                "`{}` comes twice in `{}`: pack it again without the older one",
                member.name,
                reader.path().display()
            )));
        }
        Ok(())
    }

    /// Adds the sample whose members came.
    fn finish(&mut self, reader: &Reader<'_>) -> Result<()> {
        let Some(key) = self.key.take() else {
            return Ok(());
        };
        let (names, arrays): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.fields).into_iter().unzip();
        let fields: Vec<FieldSpec> = names.iter().map(|name| byte_field(name)).collect();
        add_sample(&mut self.found, reader, &key, &fields, arrays)?;
        self.seen.insert(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stem_ends_at_the_first_dot_of_the_last_name() {
        assert_eq!(split("a/b.c/x.seg.png"), Some(("a/b.c/x", "seg.png")));
        assert_eq!(split("x.jpg"), Some(("x", "jpg")));
        for left_out in ["README", "a.b/c", ".hidden.jpg", "a/.x.jpg", "__a__/x.y"] {
            assert_eq!(split(left_out), None, "{left_out}");
        }
    }
}
