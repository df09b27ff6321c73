//! The cache folder: the same calls on it that the cache makes, in a folder that is removed again.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_bench::facts::file_system;
use forebay_dataset::{BlockSize, ShardIndex};
use forebay_residency::{BlockFile, MapIdentity, NodePaths, ResidencyMap, SummedBlocks};
use rustix::process::geteuid;
use serde_json::Value;

use crate::doctor::item::Item;
use crate::doctor::within;
use crate::serve;
use crate::status::NO_FOLDER;

/// How long a file system may take before it counts as one that hangs.
const LIMIT: Duration = Duration::from_secs(20);
/// Types of file systems that other nodes have too, or that lie behind a network.
const SHARED: &[&str] = &[
    "nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "9p", "afs", "orangefs",
];
const OTHER_FOLDER: &str = "name a folder on a local disk with --cache or FOREBAY_CACHE";

pub(super) fn items(named: Option<&Path>) -> Vec<Item> {
    let default = || NodePaths::default_folder(|name| std::env::var_os(name));
    let Some(folder) = named.map(Path::to_path_buf).or_else(default) else {
        return vec![Item::missing("folder", NO_FOLDER).needed()];
    };
    let mut items = vec![settings(&folder)];
    let probed = folder.clone();
    match within(LIMIT, move || on_disk(&probed)) {
        Some(found) => items.extend(found),
        None => items.push(
            Item::refused("folder", format!("`{}` does not answer", folder.display()))
                .way_out(OTHER_FOLDER)
                .needed(),
        ),
    }
    items.push(daemon(&folder));
    items
}

/// The settings that a daemon would start with.
fn settings(folder: &Path) -> Item {
    match serve::plan_in(folder) {
        Ok(plan) => {
            let capacity = crate::index::bytes(plan.cache.capacity_bytes);
            let policy = plan.cache.policy.name();
            Item::ok("settings", format!("capacity {capacity}, policy {policy}")).needed()
        }
        Err(failure) => Item::refused("settings", failure.message())
            .way_out("mend the `FOREBAY_` variables named")
            .needed(),
    }
}

fn on_disk(folder: &Path) -> Vec<Item> {
    let there = folder.ancestors().find(|folder| folder.exists());
    let there = there.unwrap_or(Path::new("/")).to_path_buf();
    let mut items = vec![place(folder, &there)];
    if items.iter().any(Item::is_broken) {
        return items;
    }
    items.push(kind(&there));
    match Probe::make(&there) {
        Ok(probe) => items.extend([sparse(&probe.0), map(&probe.0)]),
        Err(error) => items.push(
            Item::refused(
                "writing",
                format!("nothing can be made in `{}`: {error}", there.display()),
            )
            .way_out(OTHER_FOLDER)
            .needed(),
        ),
    }
    items
}

fn place(folder: &Path, there: &Path) -> Item {
    let shown = folder.display();
    let refused = |why: String| {
        let item = Item::refused("folder", format!("`{shown}`: {why}"));
        item.way_out(OTHER_FOLDER).needed()
    };
    if folder != there {
        let above = there.display();
        return Item::ok("folder", format!("`{shown}` would be made in `{above}`")).needed();
    }
    match fs::metadata(folder) {
        Err(error) => refused(error.to_string()),
        Ok(found) if !found.is_dir() => refused("it is no folder".to_owned()),
        Ok(found) if found.uid() != geteuid().as_raw() => {
            let (owner, user) = (found.uid(), geteuid().as_raw());
            refused(format!("it belongs to user {owner}, this is user {user}"))
        }
        Ok(_) => Item::ok("folder", format!("`{shown}`")).needed(),
    }
}

fn kind(there: &Path) -> Item {
    let found = file_system(there);
    let free = found.statfs.get("free_bytes").copied().unwrap_or(0);
    let free = crate::index::bytes(free);
    let words = format!("{} on `{}`, {free} free", found.fstype, found.mount);
    let item = if SHARED.contains(&found.fstype.as_str()) {
        let why = format!("{words}: a cache there is as slow as what it should spare");
        Item::refused("file system", why).way_out(OTHER_FOLDER)
    } else if found.fstype == "tmpfs" {
        Item::ok(
            "file system",
            format!("{words}; it takes memory of the node"),
        )
    } else {
        Item::ok("file system", words)
    };
    item.details(found)
}

/// A folder that is there while this is.
struct Probe(PathBuf);

impl Probe {
    fn make(there: &Path) -> io::Result<Self> {
        let path = there.join(format!(".forebay-doctor-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The shard that is tried: 64 blocks, of which one is written.
const SHARD_BYTES: u64 = 64 * BLOCK_BYTES;
const BLOCK_BYTES: u64 = 64 << 10;
const BLOCK: u64 = 5;

fn block_size() -> BlockSize {
    BlockSize::new(BLOCK_BYTES as u32).unwrap_or(BlockSize::DEFAULT)
}

/// Files with holes, and holes made in them, by which eviction gives room back.
fn sparse(folder: &Path) -> Item {
    let name = "holes in files";
    let tried = || -> io::Result<(u64, u64, bool)> {
        let file = BlockFile::create(&folder.join("blocks"), SHARD_BYTES, block_size())?;
        let blocks = SummedBlocks::new(BLOCK, &[7; BLOCK_BYTES as usize][..], block_size());
        let _landed = file.write(&blocks, &blocks.range())?;
        // Some file systems count a block once it is on the device.
        file.sync()?;
        let written = file.allocated_bytes()?;
        file.punch(&(BLOCK..BLOCK + 1))?;
        file.sync()?;
        let mut bytes = [1; 16];
        file.read_at(BLOCK * BLOCK_BYTES, &mut bytes)?;
        Ok((written, file.allocated_bytes()?, bytes == [0; 16]))
    };
    let refused = |why: String| {
        let item = Item::refused(name, why).needed();
        item.way_out("use a file system with holes, such as ext4, XFS, Btrfs or tmpfs")
    };
    match tried() {
        Ok((written, _, _)) if written >= SHARD_BYTES => {
            refused("a file takes room for bytes that were never written".to_owned())
        }
        Ok((written, after, true)) if after < written => {
            Item::ok(name, "written in parts, and room given back").needed()
        }
        Ok(_) => refused("room that is given back is still taken".to_owned()),
        Err(error) => refused(format!("cannot be made: {error}")),
    }
}

/// The map that all processes of a node share, and the locks that keep what is read.
fn map(folder: &Path) -> Item {
    let name = "shared map";
    let identity = MapIdentity {
        generation: 0,
        shard: ShardIndex(0),
        block_size: block_size(),
        shard_len: SHARD_BYTES,
    };
    let refused = |why: String| Item::refused(name, why).way_out(OTHER_FOLDER).needed();
    let path = folder.join("map");
    let made = BlockFile::create(&folder.join("mapped"), SHARD_BYTES, block_size())
        .map_err(|error| error.to_string())
        .and_then(|file| {
            let blocks = SummedBlocks::new(BLOCK, &[7; BLOCK_BYTES as usize][..], block_size());
            let landed = file.write(&blocks, &blocks.range());
            let landed = landed.map_err(|error| error.to_string())?;
            let map = ResidencyMap::create(&path, &identity, file.file());
            let map = map.map_err(|error| error.to_string())?;
            landed.into_iter().for_each(|landed| map.publish(landed));
            let seen = ResidencyMap::open(&path, &identity, false);
            seen.map(|seen| seen.is_resident(BLOCK))
                .map_err(|error| error.to_string())
        });
    match made {
        Ok(true) => Item::ok(name, "what one mapping publishes, another sees").needed(),
        Ok(false) => refused("what one mapping publishes, another does not see".to_owned()),
        Err(error) => refused(format!("cannot be made: {error}")),
    }
}

fn daemon(folder: &Path) -> Item {
    let limit = Duration::from_secs(5);
    if NodePaths::new(folder.to_path_buf()).connect().is_err() {
        return Item::missing("daemon", "none runs: the first client starts one");
    }
    match forebay_client::status(folder, limit) {
        Ok(status) => {
            let status: Value = serde_json::from_str(&status).unwrap_or_default();
            Item::ok(
                "daemon",
                format!("process {} serves the folder", status["pid"]),
            )
        }
        Err(error) => Item::refused("daemon", error.to_string())
            .way_out("`forebay stop` ends it, and the next client starts another")
            .needed(),
    }
}
