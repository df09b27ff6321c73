//! The folders and files of a data set: what a listing and a `stat` need, without the origin.
//!
//! A [`FileTree`] is built from the files that an index names, or from what a walk of a folder found.
//! Then it can be written beside the index (`docs/FORMAT.md`).
//!
//! # Invariants
//! - The children of a folder are consecutive and sorted by name, each name once. So a look-up is a
//!   binary search, and a listing can go on anywhere.
//! - A folder comes before its children: following children ends.

mod build;
mod format;

use std::ops::Range;

use crate::SegmentIndex;

pub use build::{Content, TreeEntry};

/// Longest name of a file or folder, in bytes.
pub const MAX_NAME: usize = 1024;

/// Position of a file or folder in its tree. The root is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub u32);

impl NodeIndex {
    /// The root.
    pub const ROOT: Self = Self(0);

    const fn at(self) -> usize {
        self.0 as usize
    }
}

/// What `stat` says, but for the kind and the inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions, the lowest twelve bits.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hard links. 1 for a folder says that its subfolders are not counted.
    pub links: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes on the device, in units of 512.
    pub blocks: u64,
    /// Last modification, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Last change of content or attributes, nanoseconds since 1970.
    pub ctime_ns: i64,
}

/// What lies at a place of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A folder.
    Folder,
    /// A file: a segment of the index.
    File(SegmentIndex),
    /// A symbolic link.
    Link,
}

/// Where text lies among the names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Text {
    start: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inner {
    Folder { first: u32, count: u32 },
    File(SegmentIndex),
    Link(Text),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    parent: u32,
    name: Text,
    inner: Inner,
    attributes: Attributes,
}

/// Folders, files and links by number and by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTree {
    nodes: Vec<Node>,
    /// Names and targets of links, one after the other.
    names: Vec<u8>,
}

impl FileTree {
    /// Folders, files and links, the root included.
    #[expect(clippy::len_without_is_empty, reason = "there always is a root")]
    pub fn len(&self) -> u32 {
        // The builder and the reader refuse more.
        self.nodes.len() as u32
    }

    /// Whether there is such a place.
    pub fn contains(&self, node: NodeIndex) -> bool {
        node.at() < self.nodes.len()
    }

    /// What lies there. A place that is not in the tree is a folder without children.
    pub fn kind(&self, node: NodeIndex) -> NodeKind {
        match self.nodes.get(node.at()).map(|node| node.inner) {
            None | Some(Inner::Folder { .. }) => NodeKind::Folder,
            Some(Inner::File(segment)) => NodeKind::File(segment),
            Some(Inner::Link(_)) => NodeKind::Link,
        }
    }

    /// Its attributes.
    pub fn attributes(&self, node: NodeIndex) -> Attributes {
        let node = self.nodes.get(node.at());
        node.map_or_else(Attributes::default, |node| node.attributes)
    }

    /// Its name; empty for the root.
    pub fn name(&self, node: NodeIndex) -> &str {
        let name = self.nodes.get(node.at()).map(|node| self.text(node.name));
        name.and_then(|name| std::str::from_utf8(name).ok())
            .unwrap_or_default()
    }

    /// Where a symbolic link leads, as written; `None` for anything else.
    pub fn target(&self, node: NodeIndex) -> Option<&[u8]> {
        match self.nodes.get(node.at())?.inner {
            Inner::Link(target) => Some(self.text(target)),
            Inner::Folder { .. } | Inner::File(_) => None,
        }
    }

    /// The folder that it lies in; the root's is the root.
    pub fn parent(&self, node: NodeIndex) -> NodeIndex {
        let parent = self.nodes.get(node.at()).map_or(0, |node| node.parent);
        NodeIndex(parent)
    }

    /// What lies in a folder, by name.
    pub fn children(&self, folder: NodeIndex) -> Range<u32> {
        match self.nodes.get(folder.at()).map(|node| node.inner) {
            Some(Inner::Folder { first, count }) => first..first + count,
            _ => 0..0,
        }
    }

    /// What has this name in a folder.
    pub fn child(&self, folder: NodeIndex, name: &[u8]) -> Option<NodeIndex> {
        let children = self.children(folder);
        let of = |range: Range<u32>| range.start as usize..range.end as usize;
        let found = self.nodes[of(children.clone())]
            .binary_search_by(|node| self.text(node.name).cmp(name))
            .ok()?;
        Some(NodeIndex(children.start + found as u32))
    }

    /// What lies at a path below the root. Empty components and `.` are passed over, as a shell
    /// would; `..` and links are not followed.
    pub fn find(&self, path: &str) -> Option<NodeIndex> {
        path.split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .try_fold(NodeIndex::ROOT, |folder, part| {
                self.child(folder, part.as_bytes())
            })
    }

    /// The same, with `..` and links followed, as far as they lead to something in the tree.
    pub fn follow(&self, path: &str) -> Option<NodeIndex> {
        /// Links on one path, as in Linux.
        const MOST_LINKS: usize = 40;
        let mut links = 0;
        let mut at = NodeIndex::ROOT;
        let mut waiting: Vec<&str> = path.split('/').rev().collect();
        while let Some(part) = waiting.pop() {
            at = match part {
                "" | "." => continue,
                ".." => self.parent(at),
                name => self.child(at, name.as_bytes())?,
            };
            if let Some(target) = self.target(at) {
                let target = std::str::from_utf8(target).ok()?;
                links += 1;
                if links > MOST_LINKS || target.starts_with('/') {
                    return None;
                }
                at = self.parent(at);
                waiting.extend(target.split('/').rev());
            }
        }
        Some(at)
    }

    /// The path of a place below the root; empty for the root.
    pub fn path(&self, node: NodeIndex) -> String {
        let mut parts = Vec::new();
        let mut at = node;
        while at != NodeIndex::ROOT && self.contains(at) {
            parts.push(self.name(at));
            at = self.parent(at);
        }
        parts.reverse();
        parts.join("/")
    }

    /// Files, and the bytes of all of them.
    pub fn files(&self) -> (u64, u64) {
        let files = self.nodes.iter().filter_map(|node| match node.inner {
            Inner::File(_) => Some(node.attributes.size),
            Inner::Folder { .. } | Inner::Link(_) => None,
        });
        files.fold((0, 0), |(count, bytes), size| {
            (count + 1, u64::saturating_add(bytes, size))
        })
    }

    fn text(&self, text: Text) -> &[u8] {
        let end = text.start as usize + text.len as usize;
        self.names.get(text.start as usize..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
