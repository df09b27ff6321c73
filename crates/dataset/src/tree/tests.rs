use proptest::prelude::*;

use super::*;
use crate::index::format::crc32c;
use crate::{IndexError, SegmentIndex};

fn attributes(size: u64) -> Attributes {
    Attributes {
        permissions: 0o640,
        uid: 7,
        gid: 8,
        links: 1,
        size,
        blocks: size.div_ceil(512),
        mtime_ns: -5,
        ctime_ns: 6,
    }
}

fn entry<'a>(path: &'a str, content: Content<'a>) -> TreeEntry<'a> {
    TreeEntry {
        path,
        content,
        attributes: attributes(path.len() as u64),
    }
}

fn files<'a>(paths: &[&'a str]) -> Vec<TreeEntry<'a>> {
    let number = |at| Content::File(SegmentIndex(at as u32));
    paths
        .iter()
        .enumerate()
        .map(|(at, path)| entry(path, number(at)))
        .collect()
}

fn build(entries: Vec<TreeEntry<'_>>) -> Result<FileTree, IndexError> {
    FileTree::build(entries, attributes(0), attributes(1))
}

fn small() -> FileTree {
    let mut entries = files(&["b/x", "a-b", "a/y", "a/z/deep"]);
    entries.push(entry("a", Content::Folder));
    entries.push(entry("empty", Content::Folder));
    entries.push(entry("link", Content::Link(b"a/y")));
    build(entries).unwrap()
}

fn names(tree: &FileTree, folder: &str) -> Vec<String> {
    let folder = tree.find(folder).unwrap();
    let children = tree.children(folder).map(NodeIndex);
    children.map(|child| tree.name(child).to_owned()).collect()
}

#[test]
fn folders_list_their_children_by_name() {
    let tree = small();
    assert_eq!(names(&tree, ""), ["a", "a-b", "b", "empty", "link"]);
    assert_eq!(names(&tree, "a"), ["y", "z"]);
    assert_eq!(names(&tree, "/a//./z/"), ["deep"]);
    assert!(names(&tree, "empty").is_empty());
    let deep = tree.find("a/z/deep").unwrap();
    assert_eq!(tree.kind(deep), NodeKind::File(SegmentIndex(3)));
    assert_eq!(tree.path(deep), "a/z/deep");
    assert_eq!(tree.attributes(deep), attributes(8));
    assert_eq!(tree.attributes(tree.find("a").unwrap()), attributes(1));
    let link = tree.find("link").unwrap();
    assert_eq!(tree.target(link), Some(&b"a/y"[..]));
    for missing in ["c", "a/y/y", "link/y", "..", "a/.."] {
        assert_eq!(tree.find(missing), None, "{missing}");
    }
    assert_eq!(tree.files(), (4, 3 + 3 + 3 + 8));
}

#[test]
fn links_are_followed_inside_the_tree_and_not_for_ever() {
    let links = [
        ("up", "d/../d/f"),
        ("d/back", ".."),
        ("loop", "loop"),
        ("out", "/d/f"),
        ("gone", "nothing"),
    ];
    let mut entries = files(&["d/f"]);
    let listed = links.iter();
    entries.extend(listed.map(|(path, target)| entry(path, Content::Link(target.as_bytes()))));
    let tree = build(entries).unwrap();
    let file = tree.find("d/f");
    for path in ["d/f", "up", "d/back/up", "d/back/d/back/d/f", "d/../up"] {
        assert_eq!(tree.follow(path), file, "{path}");
    }
    for path in ["loop", "out", "gone", "d/f/x"] {
        assert_eq!(tree.follow(path), None, "{path}");
    }
}

#[test]
fn a_prefix_hides_the_object_of_its_name_and_a_repeated_path_is_refused() {
    let tree = build(files(&["a", "a/b"])).unwrap();
    assert_eq!(names(&tree, "a"), ["b"]);
    assert!(matches!(
        build(files(&["a/b", "a/b"])),
        Err(IndexError::Unindexable { .. })
    ));
    let long = "x".repeat(MAX_NAME + 1);
    assert!(build(files(&[&long])).is_err());
}

#[test]
fn a_tree_reads_as_it_was_written_and_for_its_index_alone() {
    let tree = small();
    let bytes = tree.encode(77);
    assert_eq!(FileTree::decode(&bytes, 77, 4).unwrap(), tree);
    assert!(FileTree::decode(&bytes, 78, 4).is_err(), "another index");
    assert!(FileTree::decode(&bytes, 77, 3).is_err(), "too few files");
    for end in 0..bytes.len() {
        assert!(FileTree::decode(&bytes[..end], 77, 4).is_err(), "{end}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(FileTree::decode(&changed, 77, 4).is_err(), "byte {at}");
    }
}

#[test]
fn tree_bytes_are_frozen_at_version_1() {
    let mut entries = files(&["d/f"]);
    entries.push(entry("l", Content::Link(b"t")));
    let bytes = build(entries).unwrap().encode(0x0102);
    assert_eq!(bytes.len(), 64 + 4 * 72 + 4);
    assert_eq!(&bytes[..12], b"FBTREE\0\0\x01\0\0\0");
    assert_eq!(&bytes[bytes.len() - 4..], b"dtlf", "names, as they came");
    assert_eq!(crc32c(&bytes), FROZEN, "a change needs a new version");
}

const FROZEN: u32 = 647_524_843;

/// Walks everything that a mount would: it must end, whatever the bytes say.
fn visit(tree: &FileTree) -> usize {
    let mut waiting = vec![NodeIndex::ROOT];
    let mut seen = 0;
    while let Some(node) = waiting.pop() {
        seen += 1;
        let path = tree.path(node);
        assert_eq!(tree.find(&path), Some(node), "`{path}`");
        waiting.extend(tree.children(node).map(NodeIndex));
    }
    seen
}

proptest! {
    #[test]
    fn every_path_is_found_and_lists_once(
        paths in prop::collection::btree_set("[ab-]{1,2}(/[ab-]{1,2}){0,3}", 1..40)
    ) {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let tree = build(files(&paths)).unwrap();
        prop_assert_eq!(visit(&tree), tree.len() as usize);
        for (at, path) in paths.iter().enumerate() {
            let folder = format!("{path}/");
            let kind = tree.kind(tree.find(path).unwrap());
            let wanted = if paths.iter().any(|other| other.starts_with(&folder)) {
                NodeKind::Folder
            } else {
                NodeKind::File(SegmentIndex(at as u32))
            };
            prop_assert_eq!(kind, wanted);
        }
        prop_assert_eq!(FileTree::decode(&tree.encode(1), 1, paths.len() as u32).unwrap(), tree);
    }

    #[test]
    fn changed_trees_behind_a_right_checksum_are_harmless(
        changes in prop::collection::vec((16..600usize, any::<u8>()), 1..4)
    ) {
        let mut bytes = small().encode(0);
        for (at, value) in changes {
            let at = 16 + (at - 16) % (bytes.len() - 16);
            bytes[at] = value;
        }
        let sum = crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        if let Ok(tree) = FileTree::decode(&bytes, 0, 4) {
            prop_assert_eq!(visit(&tree), tree.len() as usize);
        }
    }
}
