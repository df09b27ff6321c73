//! What goes wrong, and when.

use std::time::Duration;

use super::event::Event;
use super::net::Net;
use super::random::Random;

/// One thing that happens to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The daemon dies, as `kill -9` has it.
    Crash(usize),
    /// It leaves in order.
    Leave(usize),
    /// It is back, with the cache that it had; some blocks of which were spoilt meanwhile.
    Restart(usize, bool),
    /// It stands still, as `SIGSTOP` has it.
    Freeze(usize),
    /// It goes on.
    Thaw(usize),
    /// No packet goes between two.
    Cut(usize, usize),
    /// Packets go again.
    Heal(usize, usize),
    /// No packet goes between one and all others.
    Isolate(usize),
    /// Packets go again between them.
    Join(usize),
    /// The origin fails for one node.
    OriginFails(usize),
    /// It is back.
    OriginIsBack(usize),
    /// So much time is gone all at once, as where a machine was suspended.
    Jump(Duration),
}

/// What a seed has in store.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) nodes: usize,
    /// One whose list of members is another one.
    pub(super) stale: Option<usize>,
    /// Whether nodes follow who is there.
    pub(super) follows: bool,
    /// One whose reads of the origin are slow for what others ask of it.
    pub(super) slow: Option<usize>,
    /// Whether daemons know from before how long members take, and so begin late reads once more.
    pub(super) knows_pace: bool,
    pub(super) requests: u64,
    pub(super) faults: u64,
}

impl Plan {
    pub(super) fn draw(random: &mut Random) -> Self {
        let nodes = random.within(2, 5) as usize;
        let one = |random: &mut Random, times| {
            random
                .one_in(times)
                .then(|| random.below(nodes as u64) as usize)
        };
        let stale = one(random, 6);
        Self {
            nodes,
            stale,
            follows: stale.is_none() && random.one_in(3),
            slow: one(random, 4),
            knows_pace: random.one_in(2),
            requests: random.within(6, 40),
            // One seed in five knows no fault.
            faults: random.below(5),
        }
    }

    /// True if nothing at all goes wrong.
    pub(super) fn is_calm(&self) -> bool {
        self.faults == 0 && self.stale.is_none() && self.slow.is_none()
    }
}

/// Lets each fault begin at some time and end at a later one.
pub(super) fn arrange(net: &mut Net, plan: &Plan) {
    for _ in 0..plan.faults {
        let nodes = plan.nodes as u64;
        let node = net.random.below(nodes) as usize;
        let other = (node + 1 + net.random.below(nodes - 1) as usize) % plan.nodes;
        let spoilt = net.random.one_in(2);
        let (begins, ends) = match net.random.below(8) {
            0 | 1 => (Fault::Crash(node), Fault::Restart(node, spoilt)),
            2 => (Fault::Leave(node), Fault::Restart(node, false)),
            3 => (Fault::Freeze(node), Fault::Thaw(node)),
            4 => (Fault::Cut(node, other), Fault::Heal(node, other)),
            5 => (Fault::Isolate(node), Fault::Join(node)),
            6 => (Fault::OriginFails(node), Fault::OriginIsBack(node)),
            _ => {
                let jump = Duration::from_millis(net.random.within(100, 100_000));
                (Fault::Jump(jump), Fault::Heal(node, other))
            }
        };
        let at = Duration::from_millis(net.random.below(3000));
        let lasts = Duration::from_millis(net.random.within(1, 8000));
        net.after(at, Event::Fault(begins));
        net.after(at + lasts, Event::Fault(ends));
    }
}
