//! Several nodes with one data set, and trainers on them.

use std::fs::File;
use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use forebay_dataset::index::{FieldSpec, IndexBuilder};
use forebay_dataset::{BlockSize, ByteRange, Member, Placement, Region, ShardIndex};
use forebay_origin::{IndexFile, fingerprint_of};
use forebay_residency::{MapIdentity, ReadOutcome, ShardPaths, SharedShard, TakenMemory};
use forebay_wire::{Reply, Request, StageRange, read_frame};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde_json::Value;

use super::{Daemon, Link, PATIENCE, eventually, free_address};

pub(crate) const BLOCK: u64 = 1 << 16;
/// Two such files do not fit in one region, so each is a shard of its own.
pub(crate) const FILE: u64 = 200 << 20;
/// Bytes of each file that are not zero, and read here.
pub(crate) const USED: u64 = 4 << 20;
pub(crate) const FILES: u32 = 8;

/// Nodes with a cache each, and the files that they share.
pub(crate) struct Cluster {
    pub(crate) origin: tempfile::TempDir,
    pub(crate) caches: Vec<tempfile::TempDir>,
    pub(crate) names: Vec<String>,
    pub(crate) generation: u128,
    pub(crate) placement: Placement,
}

pub(crate) fn byte(file: u32, at: u64) -> u8 {
    let mixed = (u64::from(file) << 32 ^ at).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as u8 | 1
}

impl Cluster {
    pub(crate) fn new(nodes: usize) -> Self {
        let origin = tempfile::tempdir().unwrap();
        let field = FieldSpec {
            name: "x".to_owned(),
            dtype: "|u1".parse().unwrap(),
        };
        let size = BlockSize::new(BLOCK as u32).unwrap();
        let mut builder = IndexBuilder::new(".", vec![field], size).unwrap();
        for number in 0..FILES {
            let name = format!("{number}.bin");
            let file = std::fs::File::create(origin.path().join(&name)).unwrap();
            let bytes: Vec<u8> = (0..USED).map(|at| byte(number, at)).collect();
            file.write_all_at(&bytes, 0).unwrap();
            file.set_len(FILE).unwrap();
            let fingerprint = fingerprint_of(&file).unwrap();
            builder.add_segment(&name, fingerprint).unwrap();
        }
        let path = origin.path().join("index");
        builder
            .write(&mut std::fs::File::create(&path).unwrap())
            .unwrap();
        let index = IndexFile::open(&path).unwrap();
        assert_eq!(index.shard_count(), FILES);
        let names: Vec<String> = (0..nodes).map(free_address).collect();
        let members: Vec<Member> = names.iter().map(Member::new).collect();
        let lens = [FILE; FILES as usize];
        Self {
            generation: index.generation(),
            placement: Placement::new(index.generation(), lens, &members).unwrap(),
            origin,
            caches: names.iter().map(|_| tempfile::tempdir().unwrap()).collect(),
            names,
        }
    }

    pub(crate) fn cache(&self, node: usize) -> &Path {
        self.caches[node].path()
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.origin.path().join("index")
    }

    pub(crate) fn start(&self, node: usize, more: &[(&str, &str)]) -> Daemon {
        let mut daemon = self.spawn(node, more);
        assert_eq!(daemon.said(), "ready");
        daemon
    }

    /// Starts one and does not wait for it.
    pub(crate) fn spawn(&self, node: usize, more: &[(&str, &str)]) -> Daemon {
        let members = self.names.join(",");
        let mut settings = vec![
            ("FOREBAY_MEMBERS", members.as_str()),
            ("FOREBAY_LISTEN", self.names[node].as_str()),
            ("FOREBAY_SECRET", "a secret of this test"),
            ("FOREBAY_HEDGED_READS", "0"),
        ];
        settings.extend(more);
        Daemon::spawn(self.cache(node), &settings)
    }

    /// All nodes, linked to each other, none of which is given up while it has to wait for a turn.
    pub(crate) fn start_all(&self) -> Vec<Daemon> {
        let patient = [("FOREBAY_PEER_SILENCE_MS", "60000")];
        let daemons = (0..self.names.len()).map(|node| self.start(node, &patient));
        let daemons = daemons.collect();
        (0..self.names.len()).for_each(|node| self.wait_until_linked(node));
        daemons
    }

    pub(crate) fn wait_until_linked(&self, node: usize) {
        eventually("all are linked", || {
            let members = status(self.cache(node))["members"].clone();
            let mut members = members.as_array().unwrap().iter();
            members.all(|member| member["state"] == "up" || member["state"] == "this node")
        });
    }

    pub(crate) fn owner(&self, file: u32) -> usize {
        let shard = ShardIndex(file);
        self.placement.owner(Region { shard, number: 0 }).unwrap()
    }

    /// A file that this node owns.
    pub(crate) fn owned_by(&self, node: usize) -> u32 {
        let mut files = 0..FILES;
        let owned = files.find(|file| self.owner(*file) == node);
        owned.expect("every node owns something, or the test needs more files")
    }

    pub(crate) fn client(&self, node: usize) -> Client<'_> {
        let mut link = Link::connect(self.cache(node));
        let opened = link.ask(&Request::Open {
            index: self.index().display().to_string(),
            root: None,
            generation: self.generation,
        });
        assert!(matches!(opened, Some(Reply::Opened { .. })), "{opened:?}");
        Client {
            cluster: self,
            node,
            link,
            memory: None,
        }
    }
}

/// A trainer on one node.
pub(crate) struct Client<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) node: usize,
    pub(crate) link: Link,
    memory: Option<TakenMemory>,
}

pub(crate) fn stage(ranges: Vec<StageRange>, takes_bytes: bool) -> Request {
    Request::Stage {
        dataset: 0,
        deadline_ms: PATIENCE.as_millis() as u32,
        takes_bytes,
        ranges,
    }
}

pub(crate) fn range(file: u32, start: u64, len: u64) -> StageRange {
    StageRange {
        shard: file,
        start,
        len,
    }
}

impl Client<'_> {
    /// Returns the bytes that other nodes gave.
    pub(crate) fn stage(&mut self, ranges: Vec<StageRange>) -> u64 {
        match self.link.ask(&stage(ranges, false)) {
            Some(Reply::Staged {
                complete: true,
                peer_bytes,
                handed,
            }) if handed.is_empty() => peer_bytes,
            other => panic!("not staged: {other:?}"),
        }
    }

    /// Returns how many bytes the daemon handed over, which are then the origin's.
    pub(crate) fn take(&mut self, ranges: Vec<StageRange>) -> usize {
        self.share_memory();
        let reply = self.link.ask(&stage(ranges.clone(), true));
        self.taken(reply, &ranges)
    }

    pub(crate) fn taken(&mut self, reply: Option<Reply>, ranges: &[StageRange]) -> usize {
        let Some(Reply::Staged {
            complete: true,
            handed,
            ..
        }) = reply
        else {
            panic!("not staged: {reply:?}");
        };
        let mut body = Vec::new();
        for part in handed {
            let mut bytes = vec![0xEE; part.len as usize];
            let memory = self.memory.as_ref().expect("it is shared");
            memory.copy(part.start.into(), &mut bytes).unwrap();
            body.extend(bytes);
        }
        if !body.is_empty() {
            let wanted = ranges.iter().flat_map(|range| {
                (range.start..range.start + range.len).map(|at| byte(range.shard, at))
            });
            assert!(body.iter().copied().eq(wanted), "wrong bytes in {ranges:?}");
        }
        body.len()
    }

    /// Asks for the memory in which bytes are handed over, once.
    pub(crate) fn share_memory(&mut self) {
        if self.memory.is_some() {
            return;
        }
        let asked = Request::Memory.encode();
        self.link.stream.write_all(&asked).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let mut frame = [0; 64];
        let got = {
            let mut out = [IoSliceMut::new(&mut frame)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            recvmsg(&self.link.stream, &mut out, &mut with, flags).unwrap()
        };
        let mut payload = Vec::new();
        let kind = read_frame(&mut &frame[..got.bytes], &mut payload).unwrap();
        let reply = Reply::decode(kind.unwrap(), &payload).unwrap();
        let Reply::Memory { len } = reply else {
            panic!("no memory: {reply:?}");
        };
        let file = with.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        let file = File::from(file.expect("a descriptor comes with it"));
        self.memory = Some(TakenMemory::map(&file, len).unwrap());
    }

    /// True if the bytes were resident; they are then the origin's.
    pub(crate) fn read(&self, asked: &StageRange) -> bool {
        let folder =
            ShardPaths::dataset_folder(self.cluster.cache(self.node), self.cluster.generation);
        let shard = ShardIndex(asked.shard);
        let identity = MapIdentity {
            generation: self.cluster.generation,
            shard,
            block_size: BlockSize::new(BLOCK as u32).unwrap(),
            shard_len: FILE,
        };
        let shared = SharedShard::open(ShardPaths::new(&folder, shard), &identity).unwrap();
        let Some(shared) = shared else { return false };
        let mut out = vec![0xEE; asked.len as usize];
        match shared.read(ByteRange::new(asked.start, asked.len).unwrap(), &mut out) {
            ReadOutcome::Done => {
                let wanted = (asked.start..asked.start + asked.len).map(|at| byte(asked.shard, at));
                assert!(out.into_iter().eq(wanted), "wrong bytes in {asked:?}");
                true
            }
            ReadOutcome::Absent => false,
            ReadOutcome::Failed(error) => panic!("the device failed: {error}"),
        }
    }

    pub(crate) fn stage_and_read(&mut self, asked: StageRange) {
        self.stage(vec![asked]);
        assert!(self.read(&asked), "it was staged");
    }

    pub(crate) fn metric(&mut self, name: &str) -> u64 {
        let status = status(self.cluster.cache(self.node));
        status["metrics"][name].as_u64().unwrap()
    }
}

pub(crate) fn status(cache: &Path) -> Value {
    match Link::connect(cache).ask(&Request::Status) {
        Some(Reply::Status(text)) => serde_json::from_str(&text).unwrap(),
        other => panic!("no status: {other:?}"),
    }
}
