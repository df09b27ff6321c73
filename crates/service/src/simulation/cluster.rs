//! The nodes of one seed, and what becomes of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_cache::jobs;
use forebay_dataset::{BlockSize, ByteRange, ShardIndex};

use super::event::Event;
use super::faults::{Fault, Plan, arrange};
use super::net::{SILENCE, Shared, lock};
use super::node::{BLOCK, BLOCKS, Daemon, FILES, members, spoil_block};
use super::outcome::Outcome;
use super::random::Random;
use super::requests::Op;
use crate::clock::Clock;

/// No request outlives its deadline by more, while its node runs.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// More than any seed needs.
const MOST_EVENTS: u64 = 200_000;

pub(super) struct Node {
    pub(super) folder: tempfile::TempDir,
    pub(super) members: Vec<usize>,
    pub(super) knows_data: bool,
    pub(super) daemon: Option<Daemon>,
    /// Tells this run of the daemon from earlier ones.
    pub(super) run: u64,
    pub(super) crashed: bool,
    pub(super) frozen: bool,
    /// What happens once it goes on.
    pub(super) held_up: Vec<Event>,
    pub(super) ops: BTreeMap<u64, Op>,
}

pub(super) struct Cluster {
    pub(super) plan: Plan,
    pub(super) clock: Clock,
    pub(super) start: Instant,
    pub(super) net: Shared,
    pub(super) nodes: Vec<Node>,
    pub(super) next_op: u64,
    /// Requests and faults that are still to come.
    pub(super) to_come: u64,
    pub(super) corrupts: bool,
    pub(super) outcome: Outcome,
    pub(super) shows: bool,
}

impl Cluster {
    /// With what the seed has in store.
    pub(super) fn new(seed: u64, shows: bool) -> Self {
        Self::with(seed, shows, Plan::draw)
    }

    pub(super) fn with(seed: u64, shows: bool, plan: impl Fn(&mut Random) -> Plan) -> Self {
        let start = Instant::now();
        let clock = Clock::simulated(start);
        let net = super::net::Net::new(clock.clone(), seed);
        let mut locked = lock(&net);
        let plan = plan(&mut locked.random);
        let node = |node: usize| {
            let mut members: Vec<usize> = (0..plan.nodes).collect();
            if plan.stale == Some(node) {
                // One that is no member any more, or one too few.
                if plan.nodes > 2 {
                    members.remove((node + 1) % plan.nodes);
                } else {
                    members.push(plan.nodes);
                }
            }
            Node {
                folder: folder_in_memory(),
                members,
                knows_data: locked.random.one_in(2),
                daemon: None,
                run: 0,
                crashed: false,
                frozen: false,
                held_up: Vec::new(),
                ops: BTreeMap::new(),
            }
        };
        let nodes = (0..plan.nodes).map(node).collect();
        for _ in 0..plan.requests {
            let node = locked.random.below(plan.nodes as u64) as usize;
            let at = Duration::from_millis(locked.random.within(200, 6000));
            locked.after(at, Event::Begin { node });
        }
        arrange(&mut locked, &plan);
        drop(locked);
        if shows {
            println!("{plan:?}");
        }
        Self {
            to_come: plan.requests + 2 * plan.faults,
            corrupts: !plan.is_calm(),
            plan,
            clock,
            start,
            net,
            nodes,
            next_op: 0,
            outcome: Outcome::default(),
            shows,
        }
    }

    pub(super) fn play(mut self) -> Outcome {
        (0..self.nodes.len()).for_each(|node| self.start(node));
        while self.to_come > 0 || self.nodes.iter().any(|node| !node.ops.is_empty()) {
            self.step();
        }
        self.end()
    }

    fn step(&mut self) {
        let next = lock(&self.net).next();
        let (at, event) = next.expect("somebody waits, and nothing is to come");
        self.clock.set(at.max(self.clock.now()));
        self.outcome.events += 1;
        assert!(self.outcome.events < MOST_EVENTS, "it goes on for ever");
        self.happen(event);
        (0..self.nodes.len()).for_each(|node| self.drive(node));
    }

    /// Cuts a node off from all others while their links are up and have nothing to do, and has its
    /// clients read.
    pub(super) fn cut_off(mut self) -> Outcome {
        (0..self.nodes.len()).for_each(|node| self.start(node));
        let linked = self.clock.now() + Duration::from_secs(1);
        while self.clock.now() < linked && lock(&self.net).is_busy() {
            self.step();
        }
        self.fault(Fault::Isolate(0));
        // More and more want the same blocks: some ask for them just when others give up.
        let from = self.clock.now();
        for number in 0..100 {
            lock(&self.net).after(SILENCE * number / 50, Event::Begin { node: 0 });
        }
        self.to_come += 100;
        while self.clock.now() < from + SILENCE * 2 {
            self.step();
        }
        while !self.nodes[0].ops.is_empty() {
            self.step();
        }
        assert!(lock(&self.net).given_up > 0, "somebody was asked");
        self.outcome
    }

    pub(super) fn note(&mut self, what: &str) {
        let at = self.clock.now() - self.start;
        for byte in what.bytes().chain(at.as_nanos().to_le_bytes()) {
            self.outcome.trace =
                (self.outcome.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        if self.shows {
            println!("{:>12.6} {what}", at.as_secs_f64());
        }
    }

    fn happen(&mut self, event: Event) {
        if let Event::Fault(fault) = event {
            self.to_come -= 1;
            self.note(&format!("{fault:?}"));
            return self.fault(fault);
        }
        let at = event.subject();
        let node = &mut self.nodes[at];
        if node.frozen {
            node.held_up.push(event);
            return;
        }
        self.to_come -= event.begins();
        // What an earlier run of the daemon had begun is nobody's.
        let is_of_this_run = event.run().is_none_or(|run| run == node.run);
        if node.daemon.is_some() && is_of_this_run {
            self.go_on(event);
        }
    }

    fn go_on(&mut self, event: Event) {
        match event {
            Event::Dial { from, to } => self.dial(from, to),
            Event::Dialled { from, to } => self.dialled(from, to),
            Event::Ask {
                from,
                to,
                link,
                frame,
            } => self.asked(from, to, link, &frame),
            Event::Answer {
                from,
                to,
                link,
                frame,
                body,
            } => {
                self.answered(from, to, link, &frame, body);
            }
            Event::Pong { from, to, link } => drop(lock(&self.net).hears(to, from, link)),
            Event::Look { from, to, link } => lock(&self.net).look(from, to, link),
            Event::Gone { from, to, link } => self.gone(from, to, link),
            Event::Fill {
                node,
                to,
                link,
                id,
                wanted,
                until,
                ..
            } => {
                self.fill(node, to, link, id, wanted, until);
            }
            Event::Hedge {
                node,
                jobs,
                ask,
                done,
                ..
            } => self.hedge(node, &jobs, ask, &done),
            Event::Begin { node } => self.begin(node),
            Event::Roll { node } => self.looks(node),
            Event::Stage { node, op, .. } => self.stage(node, op),
            // It is enough that time has passed.
            Event::Wake { .. } | Event::Fault(_) => {}
        }
    }

    fn gone(&self, from: usize, to: usize, link: u64) {
        let mut net = lock(&self.net);
        if net.up(from, to) == Some(link) {
            net.lose(from, to, "gone");
        }
    }

    pub(super) fn daemon(&self, node: usize) -> &Daemon {
        self.nodes[node].daemon.as_ref().expect("it runs")
    }

    fn start(&mut self, node: usize) {
        let each = &mut self.nodes[node];
        each.run += 1;
        let daemon = Daemon::start(
            each.folder.path(),
            node,
            &each.members,
            self.plan.follows,
            &self.clock,
            &self.net,
            each.knows_data,
        );
        if self.plan.knows_pace {
            daemon.roster.now().know_pace(Duration::from_millis(3));
        }
        each.daemon = Some(daemon);
    }

    /// Others are there now: where nodes follow that, each finds it out in its own time.
    fn tell_of_others(&self) {
        if self.plan.follows {
            let mut net = lock(&self.net);
            for node in 0..self.plan.nodes {
                let time = Duration::from_millis(net.random.below(4000));
                net.after(time, Event::Roll { node });
            }
        }
    }

    fn others(&self, node: usize) -> impl Iterator<Item = usize> {
        (0..self.plan.nodes).filter(move |other| *other != node)
    }

    fn there(&self) -> Vec<usize> {
        let there = |each: &usize| self.nodes[*each].daemon.is_some();
        (0..self.plan.nodes).filter(there).collect()
    }

    /// A node looks who is there.
    fn looks(&mut self, node: usize) {
        let there = self.there();
        let changed = self
            .daemon(node)
            .roster
            .change(members(there.iter().copied()));
        if changed.expect("ways can be had") {
            self.outcome.changes += 1;
            self.note(&format!("{node} knows of {there:?}"));
        }
    }

    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(node) => self.stop(node, true),
            Fault::Leave(node) => self.stop(node, false),
            Fault::Restart(node, spoilt) => self.restart(node, spoilt),
            Fault::Freeze(node) => self.nodes[node].frozen = true,
            Fault::Thaw(node) => self.thaw(node),
            Fault::Cut(a, b) => lock(&self.net).cut(a, b),
            Fault::Heal(a, b) => lock(&self.net).heal(a, b),
            Fault::Isolate(node) => {
                let mut net = lock(&self.net);
                self.others(node).for_each(|other| net.cut(node, other));
            }
            Fault::Join(node) => {
                let mut net = lock(&self.net);
                self.others(node).for_each(|other| net.heal(node, other));
            }
            Fault::OriginFails(node) => self.origin_fails(node, true),
            Fault::OriginIsBack(node) => self.origin_fails(node, false),
            Fault::Jump(time) => {
                self.clock.set(self.clock.now() + time);
                (0..self.nodes.len()).for_each(|node| self.bear(node));
            }
        }
    }

    fn origin_fails(&self, node: usize, fails: bool) {
        if let Some(daemon) = &self.nodes[node].daemon {
            daemon.origin.fail(fails);
        }
    }

    fn stop(&mut self, node: usize, crashes: bool) {
        let Some(daemon) = self.nodes[node].daemon.take() else {
            return;
        };
        let each = &mut self.nodes[node];
        (each.frozen, each.crashed) = (false, crashes);
        let held_up = std::mem::take(&mut each.held_up);
        self.to_come -= held_up.iter().map(Event::begins).sum::<u64>();
        let each = &mut self.nodes[node];
        // Its clients read the origin themselves.
        drop(std::mem::take(&mut each.ops));
        if !crashes {
            daemon.cache.close();
        }
        self.outcome.crashes += u64::from(crashes);
        self.account(&daemon);
        drop(daemon);
        lock(&self.net).vanish(node);
        self.tell_of_others();
    }

    fn restart(&mut self, node: usize, spoilt: bool) {
        if self.nodes[node].daemon.is_some() {
            return;
        }
        if spoilt && self.nodes[node].crashed {
            let generation = self.generation();
            let folder: &Path = self.nodes[node].folder.path();
            for file in 0..FILES {
                spoil_block(folder, generation, file, u64::from(file));
            }
        }
        if self.plan.follows {
            let mut members = self.there();
            members.push(node);
            self.nodes[node].members = members;
        }
        self.start(node);
        self.tell_of_others();
    }

    fn generation(&self) -> u128 {
        let daemon = self.nodes.iter().find_map(|node| node.daemon.as_ref());
        daemon.map_or(0, |daemon| daemon.open.dataset.index().generation())
    }

    fn thaw(&mut self, node: usize) {
        let each = &mut self.nodes[node];
        each.frozen = false;
        for event in std::mem::take(&mut each.held_up) {
            lock(&self.net).after(Duration::ZERO, event);
        }
        self.bear(node);
    }

    /// Time was gone in which the requests of a node could not end.
    fn bear(&mut self, node: usize) {
        let bound = self.clock.now() + GRACE;
        let ops = self.nodes[node].ops.values_mut();
        ops.for_each(|op| op.bound = op.bound.max(bound));
    }

    /// Each block is read from the origin once by one run of a daemon, and once more for each hedge.
    fn account(&mut self, daemon: &Daemon) {
        let metrics = daemon.cache.metrics();
        let hedges = metrics.hedged_reads.get();
        for (block, reads) in daemon.origin.reads() {
            assert!(reads <= 1 + hedges, "block {block:?} is read {reads} times");
            self.outcome.from_origin += reads;
        }
        self.outcome.hedges += hedges;
        self.outcome.recovered += metrics.recovered_blocks.get();
        self.outcome.corrupt += metrics.corrupt_blocks.get() + metrics.peer_corrupt_blocks.get();
    }

    /// All is well again: every node has every block, and nothing is led by nobody.
    fn end(mut self) -> Outcome {
        if self.plan.is_calm() {
            self.check_calm();
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].frozen = false;
            self.restart(node, false);
            self.origin_fails(node, false);
        }
        let whole = ByteRange::new(0, BLOCKS * BLOCK).unwrap();
        let ranges: Vec<_> = (0..FILES).map(|file| (ShardIndex(file), whole)).collect();
        let all = jobs(&ranges, BlockSize::new(BLOCK as u32).unwrap());
        for node in 0..self.nodes.len() {
            let daemon = self.daemon(node);
            let staged =
                daemon
                    .readers
                    .stage_from_origin(&daemon.open, all.clone(), self.start, false);
            assert!(staged.expect("nobody leads a block any more"));
            self.check(node, &all);
        }
        for node in 0..self.nodes.len() {
            let daemon = self.nodes[node].daemon.take().expect("it runs");
            self.account(&daemon);
        }
        self.outcome.given_up = lock(&self.net).given_up;
        self.outcome
    }

    /// Over all nodes too.
    fn check_calm(&self) {
        let mut sum: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        let mut hedges = 0;
        for daemon in self.nodes.iter().filter_map(|node| node.daemon.as_ref()) {
            hedges += daemon.cache.metrics().hedged_reads.get();
            for (block, reads) in daemon.origin.reads() {
                *sum.entry(block).or_default() += reads;
            }
        }
        for (block, reads) in sum {
            assert!(
                reads <= 1 + hedges,
                "nothing fails, and {block:?} is read {reads} times"
            );
        }
    }
}

/// A folder on no disk, where there is such a place: thousands of caches are made.
fn folder_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}
