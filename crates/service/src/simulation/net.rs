//! Links and events: what is under way, and when it arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::{Duration, Instant};

use forebay_transport::{Arrivals, Ended, LinkState, Outcome, Patience};
use forebay_wire::Ask;

use super::event::Event;
use super::random::Random;
use crate::clock::Clock;

/// A member that says nothing for so long is given up.
pub(super) const SILENCE: Duration = Duration::from_millis(1500);
/// How often a link on which somebody waits is looked at.
const LOOK: Duration = Duration::from_millis(375);
/// How long a dial to one who does not answer takes.
const DIAL: Duration = Duration::from_secs(3);

pub(super) struct Waiter {
    pub(super) since: Instant,
    pub(super) arrivals: Option<Arc<dyn Arrivals>>,
    pub(super) done: mpsc::Sender<Ended>,
}

/// One member's link to another.
pub(super) struct Link {
    pub(super) state: LinkState,
    /// Tells the present link from earlier ones.
    number: u64,
    pub(super) ups: u64,
    since: Instant,
    heard: Instant,
    patience: Patience,
    pub(super) waiting: BTreeMap<u64, Waiter>,
    pub(super) looks: bool,
}

/// All links, and what is under way.
pub(super) struct Net {
    clock: Clock,
    pub(super) random: Random,
    queue: BTreeMap<(Instant, u64), Event>,
    next_event: u64,
    pub(super) next_id: u64,
    pub(super) links: BTreeMap<(usize, usize), Link>,
    cut: BTreeSet<(usize, usize)>,
    /// When the last that one sent to another arrives: nothing overtakes it.
    last: BTreeMap<(usize, usize), Instant>,
    /// Frames that wait for a cut to heal, as TCP has them wait.
    stalled: Vec<(usize, usize, Event)>,
    pub(super) given_up: u64,
}

pub(super) type Shared = Arc<Mutex<Net>>;

pub(super) fn lock(net: &Shared) -> MutexGuard<'_, Net> {
    net.lock().unwrap()
}

impl Net {
    pub(super) fn new(clock: Clock, seed: u64) -> Shared {
        Arc::new(Mutex::new(Self {
            clock,
            random: Random::new(seed),
            queue: BTreeMap::new(),
            next_event: 0,
            next_id: 1,
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            last: BTreeMap::new(),
            stalled: Vec::new(),
            given_up: 0,
        }))
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Lets something happen so long from now.
    pub(super) fn after(&mut self, time: Duration, event: Event) {
        self.next_event += 1;
        self.queue
            .insert((self.now() + time, self.next_event), event);
    }

    pub(super) fn next(&mut self) -> Option<(Instant, Event)> {
        let ((at, _), event) = self.queue.pop_first()?;
        Some((at, event))
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Time on the wire.
    fn latency(&mut self) -> Duration {
        Duration::from_micros(self.random.within(50, 2000))
    }

    pub(super) fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cut.contains(&(a.min(b), a.max(b)))
    }

    pub(super) fn cut(&mut self, a: usize, b: usize) {
        self.cut.insert((a.min(b), a.max(b)));
    }

    /// What was sent meanwhile arrives, if its link is still there.
    pub(super) fn heal(&mut self, a: usize, b: usize) {
        self.cut.remove(&(a.min(b), a.max(b)));
        for (from, to, event) in std::mem::take(&mut self.stalled) {
            self.send(from, to, event);
        }
    }

    /// Puts an event on the wire between two nodes.
    pub(super) fn send(&mut self, from: usize, to: usize, event: Event) {
        if self.is_cut(from, to) {
            self.stalled.push((from, to, event));
        } else {
            let (now, latency) = (self.now(), self.latency());
            let last = self.last.entry((from, to)).or_insert(now);
            *last = (now + latency).max(*last);
            let time = *last - now;
            self.after(time, event);
        }
    }

    /// A daemon begins to dial another, which it does not know yet.
    pub(super) fn start(&mut self, from: usize, to: usize) {
        let before = self.links.get(&(from, to));
        let number = before.map_or(0, |link| link.number + 1);
        self.put(from, to, number, LinkState::Connecting);
        self.after(Duration::ZERO, Event::Dial { from, to });
    }

    fn put(&mut self, from: usize, to: usize, number: u64, state: LinkState) {
        let now = self.now();
        let link = Link {
            state,
            number,
            ups: 0,
            since: now,
            heard: now,
            patience: Patience::new(SILENCE),
            waiting: BTreeMap::new(),
            looks: false,
        };
        self.links.insert((from, to), link);
    }

    /// A daemon is gone: nobody waits on its links, and the others notice.
    pub(super) fn vanish(&mut self, node: usize) {
        let links: Vec<(usize, usize, u64)> = (self.links.iter())
            .map(|((from, to), link)| (*from, *to, link.number))
            .collect();
        for (from, to, link) in links {
            if from == node {
                // A later link must not be taken for this one.
                let reason = "dead".to_owned();
                self.put(from, to, link + 1, LinkState::Down { reason });
            } else if to == node {
                self.send(to, from, Event::Gone { from, to, link });
            }
        }
    }

    /// How long a dial takes that comes to nothing or to something.
    pub(super) fn dial(&mut self, from: usize, to: usize, answers: bool) {
        let time = if answers { self.latency() * 3 } else { DIAL };
        self.after(time, Event::Dialled { from, to });
    }

    pub(super) fn dialled(&mut self, from: usize, to: usize, refusal: Option<&str>) {
        match refusal {
            None => {
                let now = self.now();
                let Some(link) = self.links.get_mut(&(from, to)) else {
                    return;
                };
                link.state = LinkState::Up;
                link.number += 1;
                link.ups += 1;
                (link.since, link.heard, link.looks) = (now, now, false);
            }
            Some(reason) => self.lose(from, to, reason),
        }
    }

    /// The number of a link that is up.
    pub(super) fn up(&self, from: usize, to: usize) -> Option<u64> {
        let link = self.links.get(&(from, to))?;
        (link.state == LinkState::Up).then_some(link.number)
    }

    /// Ends a link: what waits on it is lost, and the peer is left alone for a while.
    pub(super) fn lose(&mut self, from: usize, to: usize, reason: &str) {
        let now = self.now();
        let Some(link) = self.links.get_mut(&(from, to)) else {
            return;
        };
        let was_up = link.state == LinkState::Up;
        let lived = if was_up {
            now - link.since
        } else {
            Duration::ZERO
        };
        link.state = LinkState::Down {
            reason: reason.to_owned(),
        };
        link.number += 1;
        let pause = link.patience.failed(lived);
        let waiting = std::mem::take(&mut link.waiting);
        for (id, waiter) in waiting {
            drop(waiter.arrivals);
            let _ = waiter.done.send(Ended {
                id,
                outcome: Outcome::Lost,
            });
        }
        self.after(pause, Event::Dial { from, to });
    }

    /// Looks whether the peer has been silent for too long.
    pub(super) fn look(&mut self, from: usize, to: usize, number: u64) {
        use forebay_transport::Look;
        let now = self.now();
        let Some(link) = self.links.get_mut(&(from, to)) else {
            return;
        };
        if link.number != number || link.state != LinkState::Up {
            return;
        }
        let oldest = link.waiting.values().map(|waiter| waiter.since).min();
        if oldest.is_none() {
            link.looks = false;
            return;
        }
        match link.patience.look(now, link.heard, oldest) {
            Look::Wait => {}
            Look::Ping => {
                let frame = Ask::Ping { id: 0 }.encode();
                self.ask(from, to, number, frame);
            }
            Look::GiveUp(_) => {
                self.given_up += 1;
                self.lose(from, to, "silent");
                return;
            }
        }
        self.look_later(from, to, number);
    }

    pub(super) fn look_later(&mut self, from: usize, to: usize, link: u64) {
        self.after(LOOK, Event::Look { from, to, link });
    }

    /// Sends an ask over a link.
    pub(super) fn ask(&mut self, from: usize, to: usize, link: u64, frame: Vec<u8>) {
        let ask = Event::Ask {
            from,
            to,
            link,
            frame,
        };
        self.send(from, to, ask);
    }

    /// True if this is still the link that `from` has to `to`; notes that it was heard.
    pub(super) fn hears(&mut self, from: usize, to: usize, number: u64) -> bool {
        let now = self.now();
        let Some(link) = self.links.get_mut(&(from, to)) else {
            return false;
        };
        let is_it = link.number == number && link.state == LinkState::Up;
        if is_it {
            link.heard = now;
        }
        is_it
    }

    /// Who takes the blocks of an ask.
    pub(super) fn arrivals(&self, from: usize, to: usize, id: u64) -> Option<Arc<dyn Arrivals>> {
        self.links
            .get(&(from, to))?
            .waiting
            .get(&id)?
            .arrivals
            .clone()
    }

    pub(super) fn end(&mut self, from: usize, to: usize, id: u64, outcome: Outcome) {
        let link = self.links.get_mut(&(from, to));
        if let Some(waiter) = link.and_then(|link| link.waiting.remove(&id)) {
            drop(waiter.arrivals);
            let _ = waiter.done.send(Ended { id, outcome });
        }
    }
}
