//! Links and events: what is under way, and when it arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::{Duration, Instant};

use forebay_cache::Job;
use forebay_transport::{Arrivals, Ended, LinkState, Outcome, Patience};
use forebay_wire::Ask;

use super::random::Random;
use crate::clock::Clock;
use crate::peers::{Asking, Wanted, Way};

/// A member that says nothing for so long is given up.
pub(super) const SILENCE: Duration = Duration::from_millis(1500);
/// How often a link on which somebody waits is looked at.
const LOOK: Duration = Duration::from_millis(375);
/// How long a dial to one who does not answer takes.
const DIAL: Duration = Duration::from_secs(3);

/// What happens next.
pub(super) enum Event {
    /// `from` dials `to`.
    Dial { from: usize, to: usize },
    /// The dial came to an end.
    Dialled { from: usize, to: usize },
    /// An ask arrives at `to`.
    Ask {
        from: usize,
        to: usize,
        link: u64,
        frame: Vec<u8>,
    },
    /// An answer of `from` arrives at `to`, which had asked.
    Answer {
        from: usize,
        to: usize,
        link: u64,
        frame: Vec<u8>,
        body: Vec<u8>,
    },
    /// A sign of life of `from` arrives at `to`.
    Pong { from: usize, to: usize, link: u64 },
    /// `from` looks at its link to `to`.
    Look { from: usize, to: usize, link: u64 },
    /// The other end of the link is gone.
    Gone { from: usize, to: usize, link: u64 },
    /// The origin has given what a member asked `node` for.
    Fill {
        node: usize,
        run: u64,
        to: usize,
        link: u64,
        id: u64,
        wanted: Box<Wanted>,
        until: Instant,
    },
    /// A read that was begun once more has ended.
    Hedge {
        node: usize,
        run: u64,
        jobs: Vec<Job>,
        ask: u64,
        done: mpsc::Sender<Ended>,
    },
    /// A client of the node asks for something.
    Begin { node: usize },
    /// A client's request is looked at.
    Wake { node: usize },
    /// The origin has given what a client's request lacked.
    Stage { node: usize, run: u64, op: u64 },
    /// Something fails, or comes back.
    Fault(super::faults::Fault),
}

struct Waiter {
    since: Instant,
    arrivals: Option<Arc<dyn Arrivals>>,
    done: mpsc::Sender<Ended>,
}

/// One member's link to another.
struct Link {
    state: LinkState,
    /// Tells the present link from earlier ones.
    number: u64,
    ups: u64,
    since: Instant,
    heard: Instant,
    patience: Patience,
    waiting: BTreeMap<u64, Waiter>,
    looks: bool,
}

/// All links, and what is under way.
pub(super) struct Net {
    clock: Clock,
    pub(super) random: Random,
    queue: BTreeMap<(Instant, u64), Event>,
    next_event: u64,
    next_id: u64,
    links: BTreeMap<(usize, usize), Link>,
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

    /// A daemon has started: it knows nobody yet.
    pub(super) fn start(&mut self, from: usize, to: usize) {
        let now = self.now();
        let number = self
            .links
            .get(&(from, to))
            .map_or(0, |link| link.number + 1);
        let link = Link {
            state: LinkState::Connecting,
            number,
            ups: 0,
            since: now,
            heard: now,
            patience: Patience::new(SILENCE),
            waiting: BTreeMap::new(),
            looks: false,
        };
        self.links.insert((from, to), link);
        self.after(Duration::ZERO, Event::Dial { from, to });
    }

    /// A daemon is gone: nobody waits on its links, and the others notice.
    pub(super) fn vanish(&mut self, node: usize) {
        let links: Vec<(usize, usize, u64)> = (self.links.iter())
            .map(|((from, to), link)| (*from, *to, link.number))
            .collect();
        for (from, to, link) in links {
            if from == node {
                self.links.remove(&(from, to));
                // A later link must not be taken for this one.
                self.start_number(from, to, link + 1);
            } else if to == node {
                self.send(to, from, Event::Gone { from, to, link });
            }
        }
    }

    fn start_number(&mut self, from: usize, to: usize, number: u64) {
        let now = self.now();
        let link = Link {
            state: LinkState::Down {
                reason: "dead".to_owned(),
            },
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
                self.send(
                    from,
                    to,
                    Event::Ask {
                        from,
                        to,
                        link: number,
                        frame,
                    },
                );
            }
            Look::GiveUp(_) => {
                self.given_up += 1;
                self.lose(from, to, "silent");
                return;
            }
        }
        self.after(
            LOOK,
            Event::Look {
                from,
                to,
                link: number,
            },
        );
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
            net.after(
                LOOK,
                Event::Look {
                    from,
                    to,
                    link: number,
                },
            );
        }
        let frame = ask(id).encode();
        net.send(
            from,
            to,
            Event::Ask {
                from,
                to,
                link: number,
                frame,
            },
        );
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
