//! Makes a tree of a list of paths.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;

use super::{Attributes, FileTree, Inner, MAX_NAME, Node, Text};
use crate::index::Index;
use crate::{IndexError, SegmentIndex, is_store_url};

/// One file, folder or link, as given to [`FileTree::build`].
#[derive(Clone, Copy, Debug)]
pub struct TreeEntry<'a> {
    /// Below the root, without empty components, `.` and `..`.
    pub path: &'a str,
    /// What lies there.
    pub content: Content<'a>,
    /// What `stat` says of it.
    pub attributes: Attributes,
}

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A folder; one that holds others need not be listed.
    Folder,
    /// A segment of the index.
    File(SegmentIndex),
    /// A symbolic link, and where it leads.
    Link(&'a [u8]),
}

impl FileTree {
    /// The tree of some paths, in any order. A folder that is only part of a path gets the
    /// attributes `implied`. In a store of objects one name can be that of an object and of a
    /// prefix; the prefix is shown then.
    ///
    /// # Errors
    /// [`IndexError::Unindexable`] for a path that is listed twice, a name that is too long, and
    /// more than 32 bits can count.
    pub fn build(
        mut entries: Vec<TreeEntry<'_>>,
        root: Attributes,
        implied: Attributes,
    ) -> Result<Self, IndexError> {
        entries.sort_unstable_by(|a, b| by_components(a.path, b.path));
        let mut builder = Builder {
            entries: &entries,
            implied,
            tree: Self {
                nodes: Vec::new(),
                names: Vec::new(),
            },
            waiting: VecDeque::new(),
        };
        let all = 0..entries.len();
        builder.add(0, "", Inner::Folder { first: 0, count: 0 }, root)?;
        builder.waiting.push_back((0, all, 0));
        while let Some((folder, entries, prefix)) = builder.waiting.pop_front() {
            builder.fill(folder, entries, prefix)?;
        }
        Ok(builder.tree)
    }

    /// The files of an index. Sizes and modification times are those of the index; owner,
    /// permissions and, in a store, the time are those of `file`. Folders are as `folder` says.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if a segment is not sound; as [`Self::build`].
    pub fn of_index<B: AsRef<[u8]>>(
        index: &Index<B>,
        file: Attributes,
        folder: Attributes,
    ) -> Result<Self, IndexError> {
        let in_store = is_store_url(index.root());
        let entries = (0..index.segment_count()).map(|number| {
            let number = SegmentIndex(number);
            let segment = index.segment(number)?;
            let found = segment.fingerprint;
            let time = if in_store {
                file.mtime_ns
            } else {
                found.mtime_ns
            };
            Ok(TreeEntry {
                path: segment.path,
                content: Content::File(number),
                attributes: Attributes {
                    size: found.size,
                    blocks: found.size.div_ceil(512),
                    mtime_ns: time,
                    ctime_ns: time,
                    ..file
                },
            })
        });
        Self::build(entries.collect::<Result<_, IndexError>>()?, folder, folder)
    }
}

/// Orders paths so that what lies in a folder follows it at once: `a`, `a/b`, `a-b`.
fn by_components(a: &str, b: &str) -> Ordering {
    // No path has a zero byte.
    let rank = |byte: u8| if byte == b'/' { 0 } else { byte };
    a.bytes().map(rank).cmp(b.bytes().map(rank))
}

struct Builder<'a> {
    entries: &'a [TreeEntry<'a>],
    implied: Attributes,
    tree: FileTree,
    /// Folders whose children are still to come: the node, its entries, bytes of its path and the
    /// slash behind it.
    waiting: VecDeque<(u32, Range<usize>, usize)>,
}

impl<'a> Builder<'a> {
    /// Adds the children of a folder.
    fn fill(&mut self, folder: u32, range: Range<usize>, prefix: usize) -> Result<(), IndexError> {
        let first = self.tree.nodes.len() as u32;
        let mut at = range.start;
        while at < range.end {
            let rest = &self.entries[at].path[prefix..];
            let name = rest.split('/').next().unwrap_or_default();
            let is_here = |entry: &TreeEntry<'_>| {
                let rest = entry.path[prefix..].strip_prefix(name);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let end = at + self.entries[at..range.end].partition_point(is_here);
            let is_named = |entry: &&TreeEntry<'_>| entry.path.len() == prefix + name.len();
            let own = self.entries[at..end].iter().filter(is_named).count();
            if own > 1 {
                return Err(unfit(self.entries[at].path, "it is listed twice"));
            }
            self.child(folder, name, own == 1, at..end, prefix)?;
            at = end;
        }
        let count = self.tree.nodes.len() as u32 - first;
        self.tree.nodes[folder as usize].inner = Inner::Folder { first, count };
        Ok(())
    }

    /// Adds one child, whose own entry, if it has one, is the first of `range`.
    fn child(
        &mut self,
        folder: u32,
        name: &'a str,
        has_own: bool,
        range: Range<usize>,
        prefix: usize,
    ) -> Result<(), IndexError> {
        let own = has_own.then(|| self.entries[range.start]);
        let below = range.start + usize::from(has_own)..range.end;
        let listed = own.filter(|own| own.content == Content::Folder || below.is_empty());
        let attributes = listed.map_or(self.implied, |own| own.attributes);
        let inner = match listed.map(|own| own.content) {
            None | Some(Content::Folder) => Inner::Folder { first: 0, count: 0 },
            Some(Content::File(segment)) => Inner::File(segment),
            Some(Content::Link(target)) => Inner::Link(self.text(target)?),
        };
        let node = self.add(folder, name, inner, attributes)?;
        if matches!(inner, Inner::Folder { .. }) {
            let prefix = prefix + name.len() + 1;
            self.waiting.push_back((node, below, prefix));
        }
        Ok(())
    }

    fn add(
        &mut self,
        parent: u32,
        name: &str,
        inner: Inner,
        attributes: Attributes,
    ) -> Result<u32, IndexError> {
        if name.len() > MAX_NAME {
            return Err(unfit(name, "a name has at most 1024 bytes"));
        }
        let number = u32::try_from(self.tree.nodes.len())
            .ok()
            .filter(|number| *number < u32::MAX)
            .ok_or_else(|| unfit(name, "a tree holds at most 4294967295 files"))?;
        let name = self.text(name.as_bytes())?;
        self.tree.nodes.push(Node {
            parent,
            name,
            inner,
            attributes,
        });
        Ok(number)
    }

    fn text(&mut self, text: &[u8]) -> Result<Text, IndexError> {
        let start = u32::try_from(self.tree.names.len() + text.len())
            .map(|end| end - text.len() as u32)
            .map_err(|_| unfit("", "all names together have over 4 GiB"))?;
        self.tree.names.extend_from_slice(text);
        Ok(Text {
            start,
            len: text.len() as u32,
        })
    }
}

fn unfit(path: &str, why: &str) -> IndexError {
    IndexError::Unindexable {
        what: format!("file `{path}`"),
        why: why.to_owned(),
    }
}
