//! The way of one member to another, over the simulated net.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use forebay_transport::{Arrivals, Ended, LinkState};
use forebay_wire::Ask;

use super::net::{Shared, Waiter, lock};
use crate::peers::{Asking, Way};

/// The way of one member to another.
pub(super) struct SimulatedWay {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) net: Shared,
}

/// Forgets an ask that nobody waits for any more.
struct Forgets(Shared, usize, usize, u64);

impl Drop for Forgets {
    fn drop(&mut self) {
        // Where the net itself drops it, it is forgotten already.
        let Ok(mut net) = self.0.try_lock() else {
            return;
        };
        let link = net.links.get_mut(&(self.1, self.2));
        drop(link.and_then(|link| link.waiting.remove(&self.3)));
    }
}

impl Way for SimulatedWay {
    fn call(
        &self,
        ask: Box<dyn FnOnce(u64) -> Ask + '_>,
        arrivals: Option<Arc<dyn Arrivals>>,
        done: &mpsc::Sender<Ended>,
    ) -> Option<Asking> {
        let (from, to) = (self.from, self.to);
        let mut net = lock(&self.net);
        let number = net.up(from, to)?;
        net.next_id += 1;
        let (id, now) = (net.next_id, net.now());
        let link = net.links.get_mut(&(from, to))?;
        let done = done.clone();
        link.waiting.insert(
            id,
            Waiter {
                since: now,
                arrivals,
                done,
            },
        );
        if !std::mem::replace(&mut link.looks, true) {
            net.look_later(from, to, number);
        }
        let frame = ask(id).encode();
        net.ask(from, to, number, frame);
        drop(net);
        Some(Asking::new(id, Forgets(self.net.clone(), from, to, id)))
    }

    fn state(&self) -> LinkState {
        let net = lock(&self.net);
        let link = net.links.get(&(self.from, self.to));
        // Nobody waits here for a first link: it is simply not up yet.
        match link.map(|link| link.state.clone()) {
            Some(LinkState::Connecting) | None => LinkState::Down {
                reason: "not yet".to_owned(),
            },
            Some(state) => state,
        }
    }

    fn wait_for_first(&self, _: Instant) -> bool {
        self.state() == LinkState::Up
    }

    fn wait_until_up(&self, _: Instant) -> bool {
        self.state() == LinkState::Up
    }

    fn links(&self) -> u64 {
        let net = lock(&self.net);
        net.links
            .get(&(self.from, self.to))
            .map_or(0, |link| link.ups)
    }

    fn received_bytes(&self) -> u64 {
        0
    }

    fn in_flight(&self) -> usize {
        let net = lock(&self.net);
        net.links
            .get(&(self.from, self.to))
            .map_or(0, |link| link.waiting.len())
    }
}
