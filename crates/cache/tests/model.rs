//! The cache against a plain model, under anything that can happen to it in one thread.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{BLOCK, Node, World, allocated, plan, range};
use forebay_cache::{CachePlan, FillError, Policy};
use forebay_dataset::{BlockSize, ByteRange};
use forebay_origin::testing::MemoryOrigin;
use forebay_residency::SharedShard;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Stage(u64, u64),
    Read(u64, u64),
    View(u64, u64),
    Distrust(u64, u64),
    Restart {
        clean: bool,
    },
    /// Turns bits of some bytes over and then restarts as after a crash.
    FlipAndCrash(Vec<u64>),
    OriginFails(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let part = || (0u64..1 << 20, 1u64..1 << 16);
    prop_oneof![
        6 => part().prop_map(|(start, len)| Op::Stage(start, len)),
        4 => part().prop_map(|(start, len)| Op::Read(start, len)),
        2 => part().prop_map(|(start, len)| Op::View(start, len)),
        1 => part().prop_map(|(start, len)| Op::Distrust(start, len)),
        1 => any::<bool>().prop_map(|clean| Op::Restart { clean }),
        1 => proptest::collection::vec(any::<u64>(), 1..40).prop_map(Op::FlipAndCrash),
        1 => (0u64..4).prop_map(Op::OriginFails),
    ]
}

/// Small files that share a shard: whole blocks, one byte over, one short of a block, none at all.
const LENS: [u64; 7] = [40 * BLOCK, 0, BLOCK + 1, 100, 30 * BLOCK + 17, 0, 3 * BLOCK];

struct Run<'a> {
    world: &'a World,
    origin: MemoryOrigin,
    plan: CachePlan,
    node: Option<Node>,
    /// A client that outlives every daemon.
    old: Option<SharedShard>,
    /// Blocks that must be resident: under *pin* nothing leaves.
    pinned: BTreeSet<u64>,
    origin_fails: bool,
}

impl Run<'_> {
    fn node(&self) -> &Node {
        self.node.as_ref().unwrap()
    }

    fn folder(&self) -> &Path {
        &self.plan.folder
    }

    fn part(&self, start: u64, len: u64) -> ByteRange {
        let start = start % self.world.len();
        range(start, len.min(self.world.len() - start))
    }

    fn blocks(asked: ByteRange) -> std::ops::Range<u64> {
        BlockSize::new(BLOCK as u32).unwrap().covering(asked)
    }

    fn stage(&mut self, asked: ByteRange) {
        match self.node().stage(&self.origin, asked) {
            Ok(true) => {
                assert!(self.read(asked), "{asked:?} was said to be resident");
                self.pinned.extend(Self::blocks(asked));
            }
            Ok(false) => {}
            Err(FillError::Origin(_)) => {
                assert!(self.origin_fails, "nobody told the origin to fail");
                self.origin_fails = false;
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads through a new client and an old one; both may say absent.
    fn read(&mut self, asked: ByteRange) -> bool {
        if let Some(old) = &self.old {
            let _ = self.world.read(old, asked);
        }
        let client = self.world.client(self.folder());
        let done = client
            .as_ref()
            .is_some_and(|client| self.world.read(client, asked));
        if self.old.is_none() {
            self.old = client;
        }
        let pinned = Self::blocks(asked).all(|block| self.pinned.contains(&block));
        if self.plan.policy == Policy::Pin && pinned {
            assert!(done, "{asked:?} was admitted and has left");
        }
        done
    }

    fn view(&self, asked: ByteRange) {
        let Some(client) = self.world.client(self.folder()) else {
            return;
        };
        if let Some(view) = client.view(asked).unwrap() {
            // What is held stays, whatever else is staged.
            let _ = self.node().stage(&self.origin, self.world.all());
            assert!(
                view.bytes() == &self.world.shard[asked.start() as usize..asked.end() as usize]
            );
        }
    }

    fn restart(&mut self, clean: bool) {
        if clean {
            self.node().cache.close();
        } else {
            // Candidates come back only when they are asked for.
            self.pinned.clear();
        }
        self.node = None;
        self.node = Some(Node::start(self.world, self.plan.clone()));
    }

    fn flip(&self, places: &[u64]) {
        let paths = self.world.paths(self.folder());
        let Ok(file) = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(paths.data)
        else {
            return;
        };
        for place in places {
            let (at, mut byte) = (place % self.world.len(), [0]);
            if self.world.shard[at as usize] == 0 {
                // Between segments: nobody's bytes, and no checksum covers them.
                continue;
            }
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1 << (place % 8)], at)
                .unwrap();
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Stage(start, len) => self.stage(self.part(start, len)),
            Op::Read(start, len) => drop(self.read(self.part(start, len))),
            Op::View(start, len) => self.view(self.part(start, len)),
            Op::Distrust(start, len) => {
                let asked = self.part(start, len);
                let node = self.node();
                node.cache
                    .distrust(&node.dataset, common::SHARD, asked)
                    .unwrap();
            }
            Op::Restart { clean } => self.restart(clean),
            Op::FlipAndCrash(ref places) => {
                self.node = None;
                self.flip(places);
                self.pinned.clear();
                self.node = Some(Node::start(self.world, self.plan.clone()));
            }
            Op::OriginFails(n) => {
                self.origin.fail_in(n);
                self.origin_fails = true;
            }
        }
        let (taken, used) = (allocated(self.folder()), self.node().cache.used_bytes());
        assert!(taken <= used, "{taken} bytes taken and {used} counted");
        assert!(used <= self.plan.capacity_bytes, "{used} bytes used");
    }
}

fn run(policy: Policy, capacity_blocks: u64, ops: &[Op]) {
    let world = World::new(1, &LENS);
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), policy, capacity_blocks * BLOCK);
    let mut run = Run {
        node: Some(Node::start(&world, plan.clone())),
        origin: world.origin(),
        world: &world,
        plan,
        old: None,
        pinned: BTreeSet::new(),
        origin_fails: false,
    };
    for op in ops {
        run.apply(op);
    }
}

fn case() -> impl Strategy<Value = (Policy, u64, Vec<Op>)> {
    (
        prop_oneof![Just(Policy::Pin), Just(Policy::Lru)],
        0u64..120,
        proptest::collection::vec(op(), 1..40),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_read_returns_origin_bytes_or_says_absent((policy, capacity_blocks, ops) in case()) {
        run(policy, capacity_blocks, &ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    #[ignore = "minutes: the same with many more cases"]
    fn soak_a_read_returns_origin_bytes_or_says_absent((policy, capacity_blocks, ops) in case()) {
        run(policy, capacity_blocks, &ops);
    }
}
