//! One peer, as the side that asks sees it: a link that is kept up, and the asks on it.

mod by_fabric;
mod bytes;
mod pending;
mod plan;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use forebay_wire::{Answer, Ask};

use crate::LinkError;
use crate::handshake::prove;
use crate::link::{LinkReader, LinkWriter, split};
use crate::patience::{Look, Patience};
use crate::socket::connect;

use by_fabric::ByFabric;
use pending::{Pending, Waiter};

pub use by_fabric::FabricState;
pub use bytes::{Bytes, Landing};
pub use plan::{Arrivals, Arrived, CallerPlan, Ended, LinkState, Outcome};

/// Longest time that a dial and its proof may take.
const DIAL: Duration = Duration::from_secs(3);

/// Number of the next ask, of whichever caller: one channel may hear of the asks of several.
static NEXT: AtomicU64 = AtomicU64::new(1);

enum State {
    Connecting,
    Up(Arc<LinkWriter>),
    Down(String),
    Stopped,
}

/// Keeps one link to one peer. Its thread ends when it is dropped.
pub struct Caller {
    shared: Arc<Shared>,
}

struct Shared {
    plan: CallerPlan,
    state: Mutex<State>,
    changed: Condvar,
    pending: Pending,
    by_fabric: ByFabric,
    received_bytes: AtomicU64,
    /// How often the link came up.
    links: AtomicU64,
    stopping: AtomicBool,
}

/// An ask in progress. Who drops it wants no answer any more.
pub struct Call {
    shared: Arc<Shared>,
    id: u64,
}

impl Call {
    /// Its number, unlike all others of this process.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.shared.pending.forget(self.id);
    }
}

impl Caller {
    /// Starts the thread, which dials at once.
    ///
    /// # Errors
    /// The system's, if there can be no thread.
    pub fn start(plan: CallerPlan) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            by_fabric: ByFabric::new(plan.fabric.clone()),
            plan,
            state: Mutex::new(State::Connecting),
            changed: Condvar::new(),
            pending: Pending::default(),
            received_bytes: AtomicU64::new(0),
            links: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        });
        let running = shared.clone();
        let mut thread =
            std::thread::Builder::new().name(format!("peer-{}", running.plan.hello.to));
        // Where a fabric is read its provider runs here, which may need any stack.
        if running.plan.fabric.is_none() {
            thread = thread.stack_size(256 << 10);
        }
        thread.spawn(move || running.run())?;
        Ok(Self { shared })
    }

    /// Sends an ask, which `ask` makes for its number. How it ends is told to `done`. `None` if the
    /// peer cannot be asked now, or has too much to answer.
    pub fn call(
        &self,
        ask: impl FnOnce(u64) -> Ask,
        arrivals: Option<Arc<dyn Arrivals>>,
        done: &mpsc::Sender<Ended>,
    ) -> Option<Call> {
        let shared = &self.shared;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let state = shared.lock();
        let State::Up(writer) = &*state else {
            return None;
        };
        let writer = writer.clone();
        // Under the lock of the state: a link that is lost from here on ends this ask too.
        let waiter = Waiter {
            since: Instant::now(),
            arrivals,
            is_spoiled: false,
            done: done.clone(),
        };
        if !shared.pending.insert(id, waiter) {
            return None;
        }
        drop(state);
        let call = Call {
            shared: shared.clone(),
            id,
        };
        // On an error the link is closed, and its thread says so to all.
        let _ = writer.send(&ask(id).encode());
        Some(call)
    }

    /// How it stands.
    pub fn state(&self) -> LinkState {
        match &*self.shared.lock() {
            State::Connecting => LinkState::Connecting,
            State::Up(_) => LinkState::Up,
            State::Down(reason) => LinkState::Down {
                reason: reason.clone(),
            },
            State::Stopped => LinkState::Down {
                reason: "stopped".to_owned(),
            },
        }
    }

    /// Waits until the peer was reached or found out of reach for the first time. True if asks go
    /// through.
    pub fn wait_for_first(&self, deadline: Instant) -> bool {
        let mut state = self.shared.lock();
        while matches!(*state, State::Connecting) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.shared.wait(state, left);
        }
        matches!(*state, State::Up(_))
    }

    /// Waits until asks go through, up to `deadline`. True if they do.
    pub fn wait_until_up(&self, deadline: Instant) -> bool {
        let mut state = self.shared.lock();
        while !matches!(*state, State::Up(_)) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || matches!(*state, State::Stopped) {
                return false;
            }
            state = self.shared.wait(state, left);
        }
        true
    }

    /// How often the link came up: what a peer was told over an earlier one it may have forgotten.
    pub fn links(&self) -> u64 {
        self.shared.links.load(Ordering::Relaxed)
    }

    /// Bytes of blocks that came so far.
    pub fn received_bytes(&self) -> u64 {
        self.shared.received_bytes.load(Ordering::Relaxed)
    }

    /// True if the peer may lend blocks: they would be read over the fabric.
    pub fn may_lend(&self) -> bool {
        self.shared.by_fabric.may_lend(Instant::now())
    }

    /// How it stands with the peer over the fabric.
    pub fn fabric(&self) -> FabricState {
        self.shared.by_fabric.state(Instant::now())
    }

    /// Asks in progress.
    pub fn in_flight(&self) -> usize {
        self.shared.pending.len()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        let mut state = self.shared.lock();
        if let State::Up(writer) = &*state {
            writer.close();
        }
        *state = State::Stopped;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn run(&self) {
        let mut patience = Patience::new(self.plan.silence);
        while !self.stopping.load(Ordering::Acquire) {
            let began = Instant::now();
            let ended = self.dial().and_then(|reader| self.receive(reader));
            let reason = match ended {
                Ok(()) => "the peer closed the link".to_owned(),
                Err(error) => error.to_string(),
            };
            self.set_down(reason);
            self.pause(jittered(patience.failed(began.elapsed())));
        }
    }

    fn dial(&self) -> Result<LinkReader, LinkError> {
        let plan = &self.plan;
        let deadline = Instant::now() + DIAL.min(plan.silence * 2);
        let stream = connect(&plan.address, deadline)?;
        plan.socket.apply(&stream, plan.silence)?;
        let encrypts = plan.socket.encrypts;
        let proved = prove(stream, &plan.secret, &plan.hello, encrypts, deadline)?;
        let (stream, keys) = proved;
        let (reader, writer) = split(stream, keys, plan.silence)?;
        let mut state = self.lock();
        if matches!(*state, State::Stopped) {
            writer.close();
        } else {
            *state = State::Up(Arc::new(writer));
            self.links.fetch_add(1, Ordering::Relaxed);
        }
        self.changed.notify_all();
        Ok(reader)
    }

    /// Hands out what arrives until the link ends.
    fn receive(&self, mut reader: LinkReader) -> Result<(), LinkError> {
        self.ask_for_fabric()?;
        let mut heard = Instant::now();
        loop {
            let Some((kind, payload)) = reader.next(|| self.is_alive(heard))? else {
                return Ok(());
            };
            let answer = Answer::decode(kind, payload)?;
            heard = Instant::now();
            self.give_back()?;
            match answer {
                Answer::Blocks {
                    id,
                    shard,
                    first,
                    body_len,
                    checksums,
                } => {
                    let len = body_len as usize;
                    let mut bytes = Bytes::of_len(self.pending.landing(id, len), len);
                    reader.body(bytes.as_mut(), || self.is_alive(heard))?;
                    heard = Instant::now();
                    let blocks = Arrived {
                        shard,
                        first,
                        checksums: &checksums,
                        bytes,
                    };
                    self.hand_out(id, blocks)?;
                }
                Answer::Opened { id } => self.end(id, Outcome::Done { complete: true }),
                Answer::Published { id, files } => self.end(id, Outcome::Published(files)),
                Answer::Ended { id, complete } => self.end(id, Outcome::Done { complete }),
                Answer::Failed { id, kind, message } => {
                    if !self.by_fabric.refused(id, &message) {
                        self.end(id, Outcome::Failed { kind, message });
                    }
                }
                Answer::Fabric { id, memory } => self.by_fabric.told(id, memory)?,
                lent @ Answer::Lent { .. } => {
                    self.take_lent(lent)?;
                    heard = Instant::now();
                }
                Answer::Pong { .. } => {}
            }
        }
    }

    /// What nobody waits for any more is nobody's.
    fn hand_out(&self, id: u64, blocks: Arrived<'_>) -> Result<(), LinkError> {
        self.received_bytes
            .fetch_add(blocks.bytes.len() as u64, Ordering::Relaxed);
        match self.pending.arrivals(id) {
            None => Ok(()),
            Some(Some(arrivals)) if arrivals.arrived(blocks) => Ok(()),
            Some(_) => Err(LinkError::Unasked),
        }
    }

    fn end(&self, id: u64, outcome: Outcome) {
        self.pending.end(id, outcome);
    }

    /// Nothing came for a while: whether to wait on. `heard`: when something came last.
    fn is_alive(&self, heard: Instant) -> Result<(), LinkError> {
        if self.stopping.load(Ordering::Acquire) {
            return Err(LinkError::Io(io::ErrorKind::Interrupted.into()));
        }
        self.give_back()?;
        let patience = Patience::new(self.plan.silence);
        match patience.look(Instant::now(), heard, self.pending.oldest()) {
            Look::Wait => Ok(()),
            Look::Ping => Ok(self.ping()?),
            Look::GiveUp(quiet) => Err(LinkError::Silent(quiet)),
        }
    }

    fn ping(&self) -> io::Result<()> {
        match self.writer() {
            // One that is not sent is not needed: something else is under way.
            Some(writer) => writer.try_send(&Ask::Ping { id: 0 }.encode()).map(drop),
            None => Ok(()),
        }
    }

    fn writer(&self) -> Option<Arc<LinkWriter>> {
        match &*self.lock() {
            State::Up(writer) => Some(writer.clone()),
            _ => None,
        }
    }

    fn set_down(&self, reason: String) {
        let mut state = self.lock();
        if let State::Up(writer) = &*state {
            writer.close();
        }
        if !matches!(*state, State::Stopped) {
            *state = State::Down(reason);
        }
        self.changed.notify_all();
        drop(state);
        self.pending.lose_all();
    }

    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.lock();
        while !matches!(*state, State::Stopped) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.wait(state, left);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Up to a quarter more, so that a thousand nodes do not dial one that is back all at once.
fn jittered(time: Duration) -> Duration {
    let draw = RandomState::new().hash_one(Instant::now());
    time + (time / 4).mul_f64(draw as f64 / u64::MAX as f64)
}
