//! A folder is indexed as it is: hidden files, links, empty folders, attributes.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use forebay_dataset::BlockSize;
use forebay_dataset::tree::{FileTree, NodeKind};
use forebay_indexer::{TreeRequest, index_tree};
use forebay_origin::{IndexFile, open_tree, tree_path};

fn request(root: &Path, output: &Path) -> TreeRequest {
    TreeRequest {
        root: root.to_path_buf(),
        output: output.to_path_buf(),
        exclude: vec![root.join("cache")],
        block_size: BlockSize::DEFAULT,
        own_shard_bytes: 1000,
    }
}

fn made() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("origin");
    for below in ["sub/deep", "empty", ".hidden", "cache"] {
        fs::create_dir_all(root.join(below)).unwrap();
    }
    for (path, len) in [("a", 10), ("b", 1000), ("sub/deep/c", 20), (".hidden/d", 0)] {
        fs::write(root.join(path), vec![7; len]).unwrap();
    }
    fs::write(root.join("cache/block"), "not shown").unwrap();
    fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o751)).unwrap();
    symlink("../a", root.join("sub/link")).unwrap();
    symlink("/nowhere", root.join("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    (folder, root)
}

fn shown(tree: &FileTree, path: &str) -> NodeKind {
    tree.kind(tree.find(path).unwrap())
}

#[test]
fn a_folder_is_indexed_as_it_is() {
    let (folder, root) = made();
    let output = folder.path().join("x.forebay");
    let summary = index_tree(&request(&root, &output), &()).unwrap();
    let counts = (
        summary.files,
        summary.folders,
        summary.links,
        summary.left_out,
    );
    assert_eq!((counts, summary.bytes), ((4, 5, 2, 1), 1030));
    let index = IndexFile::open(&output).unwrap();
    index.verify().unwrap();
    let tree = open_tree(&index).unwrap();
    for path in ["a", "b", "sub/deep/c", ".hidden/d"] {
        let NodeKind::File(segment) = shown(&tree, path) else {
            panic!("`{path}` is no file");
        };
        assert_eq!(index.segment(segment).unwrap().path, path);
        assert!(index.find(path).unwrap().is_some(), "it is a sample too");
        let (found, metadata) = (
            tree.find(path).unwrap(),
            fs::metadata(root.join(path)).unwrap(),
        );
        let attributes = tree.attributes(found);
        assert_eq!(u32::from(attributes.permissions), metadata.mode() & 0o7777);
        assert_eq!(
            (attributes.size, attributes.uid),
            (metadata.size(), metadata.uid())
        );
    }
    assert_eq!(shown(&tree, "empty"), NodeKind::Folder);
    let link = tree.find("sub/link").unwrap();
    assert_eq!(tree.target(link), Some(&b"../a"[..]));
    assert_eq!(tree.follow("sub/link"), tree.find("a"));
    assert!(tree.find("cache").is_none() && tree.find("socket").is_none());
    assert_eq!(index.shard_count(), 2, "`b` has a shard of its own");
    let again = index_tree(&request(&root, &output), &()).unwrap();
    assert_eq!(again.generation, summary.generation, "nothing changed");
}

#[test]
fn a_tree_of_another_index_is_left_alone_and_a_damaged_one_is_refused() {
    let (folder, root) = made();
    let output = folder.path().join("x.forebay");
    index_tree(&request(&root, &output), &()).unwrap();
    let tree = fs::read(tree_path(&output)).unwrap();
    fs::write(root.join("new"), "n").unwrap();
    index_tree(&request(&root, &output), &()).unwrap();
    fs::write(tree_path(&output), &tree).unwrap();
    let of_index = open_tree(&IndexFile::open(&output).unwrap()).unwrap();
    assert!(of_index.find("new").is_some() && of_index.find("empty").is_none());
    fs::remove_file(root.join("new")).unwrap();
    index_tree(&request(&root, &output), &()).unwrap();
    fs::write(tree_path(&output), &tree[..tree.len() - 1]).unwrap();
    assert!(open_tree(&IndexFile::open(&output).unwrap()).is_err());
}
