//! A tree as bytes, and back from bytes that are not trusted.

use super::{Attributes, FileTree, Inner, MAX_NAME, Node, Text};
use crate::index::format::{crc32c, damaged, u32_at, u64_at};
use crate::{IndexError, SegmentIndex};

const MAGIC: [u8; 8] = *b"FBTREE\0\0";
const VERSION: u32 = 1;
const HEADER: usize = 64;
const RECORD: usize = 72;
/// Longest target of a symbolic link.
const MAX_TARGET: u32 = 4096;

const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const KIND: u32 = 0o170_000;

impl FileTree {
    /// The tree as it is written beside the index of this generation.
    pub fn encode(&self, generation: u128) -> Vec<u8> {
        let mut out = vec![0; HEADER];
        out.reserve(self.nodes.len() * RECORD + self.names.len());
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&generation.to_le_bytes());
        out[32..36].copy_from_slice(&self.len().to_le_bytes());
        out[40..48].copy_from_slice(&(self.names.len() as u64).to_le_bytes());
        for node in &self.nodes {
            out.extend(encode(node));
        }
        out.extend(&self.names);
        let sum = crc32c(&out[16..]);
        out[12..16].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Which index a tree belongs to; `None` for what is no tree.
    pub fn generation_of(bytes: &[u8]) -> Option<u128> {
        let bytes = bytes.get(..HEADER)?;
        let mut le = [0; 16];
        le.copy_from_slice(&bytes[16..32]);
        (bytes[0..8] == MAGIC).then(|| u128::from_le_bytes(le))
    }

    /// Reads what [`Self::encode`] wrote. `segments` is how many the index has.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] for whatever is no tree of that index.
    pub fn decode(bytes: &[u8], generation: u128, segments: u32) -> Result<Self, IndexError> {
        if bytes.len() < HEADER || bytes[0..8] != MAGIC {
            return Err(damaged("it is no tree of files"));
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            let why = format!("version {version} of its tree of files is unknown");
            return Err(damaged(why));
        }
        if u32_at(bytes, 12) != crc32c(&bytes[16..]) {
            return Err(damaged("its tree of files fails its checksum"));
        }
        if bytes[16..32] != generation.to_le_bytes() {
            return Err(damaged("its tree of files belongs to another index"));
        }
        let (count, names) = (u32_at(bytes, 32) as usize, u64_at(bytes, 40));
        let records = count.checked_mul(RECORD);
        let names_at = records.and_then(|len| len.checked_add(HEADER));
        let names_at = names_at
            .filter(|at| *at <= bytes.len() && (bytes.len() - at) as u64 == names)
            .ok_or_else(|| damaged("its tree of files has another length than it says"))?;
        let tree = Self {
            nodes: bytes[HEADER..names_at]
                .chunks_exact(RECORD)
                .map(decode)
                .collect::<Result<_, _>>()?,
            names: bytes[names_at..].to_vec(),
        };
        tree.check(segments)?;
        Ok(tree)
    }

    /// Everything that the methods of a tree rely on.
    fn check(&self, segments: u32) -> Result<(), IndexError> {
        let wrong = |at: usize, why: &str| damaged(format!("place {at} of its tree: {why}"));
        let Some(root) = self.nodes.first() else {
            return Err(damaged("its tree of files is empty"));
        };
        if root.parent != 0 || !matches!(root.inner, Inner::Folder { .. }) {
            return Err(wrong(0, "it is no root"));
        }
        // Children follow one another in the order of their folders, so none has two parents.
        let mut next = 1;
        for (at, node) in self.nodes.iter().enumerate() {
            match node.inner {
                Inner::Folder { first, count } => {
                    let end = next + count as usize;
                    if first as usize != next || end > self.nodes.len() || next <= at {
                        return Err(wrong(at, "its children are not where they must be"));
                    }
                    self.check_children(at, next..end)?;
                    next = end;
                }
                Inner::File(segment) if segment.0 >= segments => {
                    return Err(wrong(at, "the index has no such file"));
                }
                Inner::Link(target) if !self.is_target(target) => {
                    return Err(wrong(at, "it leads nowhere"));
                }
                Inner::File(_) | Inner::Link(_) => {}
            }
        }
        if next == self.nodes.len() {
            Ok(())
        } else {
            Err(wrong(next, "it lies in no folder"))
        }
    }

    fn check_children(&self, at: usize, range: std::ops::Range<usize>) -> Result<(), IndexError> {
        let wrong = |why: &str| damaged(format!("a child of place {at} of its tree: {why}"));
        let mut last: Option<&[u8]> = None;
        for child in &self.nodes[range] {
            let name = self.text(child.name);
            if child.parent as usize != at {
                return Err(wrong("it names another folder"));
            }
            if !is_name(name) || name.len() != child.name.len as usize {
                return Err(wrong("it has no name that a file can have"));
            }
            if last.is_some_and(|last| last >= name) {
                return Err(wrong("names are not sorted"));
            }
            last = Some(name);
        }
        Ok(())
    }

    fn is_target(&self, target: Text) -> bool {
        let text = self.text(target);
        text.len() == target.len as usize
            && (1..=MAX_TARGET).contains(&target.len)
            && !text.contains(&0)
    }
}

fn is_name(name: &[u8]) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && !name.contains(&b'/')
        && !name.contains(&0)
        && name != b"."
        && name != b".."
        && std::str::from_utf8(name).is_ok()
}

fn encode(node: &Node) -> [u8; RECORD] {
    let (kind, first, count) = match node.inner {
        Inner::Folder { first, count } => (FOLDER, first, count),
        Inner::File(segment) => (FILE, segment.0, 0),
        Inner::Link(target) => (LINK, target.start, target.len),
    };
    let attributes = &node.attributes;
    let words = [
        node.name.start,
        node.name.len,
        first,
        count,
        kind | u32::from(attributes.permissions & 0o7777),
        attributes.uid,
        attributes.gid,
        attributes.links,
    ];
    let long = [
        attributes.size,
        attributes.blocks,
        attributes.mtime_ns.cast_unsigned(),
        attributes.ctime_ns.cast_unsigned(),
    ];
    let mut out = [0; RECORD];
    for (place, word) in out[..32].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    for (place, word) in out[32..64].chunks_exact_mut(8).zip(long) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    out[64..68].copy_from_slice(&node.parent.to_le_bytes());
    out
}

fn decode(record: &[u8]) -> Result<Node, IndexError> {
    let mode = u32_at(record, 16);
    let (first, count) = (u32_at(record, 8), u32_at(record, 12));
    let text = |start, len| Text { start, len };
    let inner = match mode & KIND {
        FOLDER => Inner::Folder { first, count },
        FILE if count == 0 => Inner::File(SegmentIndex(first)),
        LINK => Inner::Link(text(first, count)),
        _ => return Err(damaged(format!("mode {mode:o} in its tree is unknown"))),
    };
    if mode & !(KIND | 0o7777) != 0 || u32_at(record, 68) != 0 {
        return Err(damaged("its tree has bits that nobody knows"));
    }
    Ok(Node {
        parent: u32_at(record, 64),
        name: text(u32_at(record, 0), u32_at(record, 4)),
        inner,
        attributes: Attributes {
            permissions: (mode & 0o7777) as u16,
            uid: u32_at(record, 20),
            gid: u32_at(record, 24),
            links: u32_at(record, 28),
            size: u64_at(record, 32),
            blocks: u64_at(record, 40),
            mtime_ns: u64_at(record, 48).cast_signed(),
            ctime_ns: u64_at(record, 56).cast_signed(),
        },
    })
}
