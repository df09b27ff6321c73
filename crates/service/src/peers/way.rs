//! The way to a member: a link of the transport, or a simulated one.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use forebay_transport::{Arrivals, Call, Caller, Ended, FabricState, LinkState};
use forebay_wire::Ask;

/// How a member is asked.
pub(crate) trait Way: Send + Sync {
    /// Sends an ask, which `ask` makes for its number. How it ends is told to `done`. `None` if the
    /// member cannot be asked now.
    fn call(
        &self,
        ask: Box<dyn FnOnce(u64) -> Ask + '_>,
        arrivals: Option<Arc<dyn Arrivals>>,
        done: &mpsc::Sender<Ended>,
    ) -> Option<Asking>;

    /// How it stands with the member.
    fn state(&self) -> LinkState;

    /// Waits until the member was reached or found out of reach for the first time. True if it can
    /// be asked.
    fn wait_for_first(&self, deadline: Instant) -> bool;

    /// Waits until the member can be asked. False if it cannot by `deadline`.
    fn wait_until_up(&self, deadline: Instant) -> bool;

    /// How often the link came up.
    fn links(&self) -> u64;

    /// Bytes of blocks that came so far.
    fn received_bytes(&self) -> u64;

    /// Asks in progress.
    fn in_flight(&self) -> usize;

    /// True if the member may lend blocks.
    fn may_lend(&self) -> bool {
        false
    }

    /// How it stands with the member over the fabric.
    fn fabric(&self) -> FabricState {
        FabricState::default()
    }
}

/// An ask in progress. Who drops it wants no answer any more.
pub(crate) struct Asking {
    id: u64,
    _until_dropped: Box<dyn Send>,
}

impl Asking {
    pub(crate) fn new(id: u64, until_dropped: impl Send + 'static) -> Self {
        let _until_dropped = Box::new(until_dropped);
        Self { id, _until_dropped }
    }

    /// Its number.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl From<Call> for Asking {
    fn from(call: Call) -> Self {
        Self::new(call.id(), call)
    }
}

impl Way for Caller {
    fn call(
        &self,
        ask: Box<dyn FnOnce(u64) -> Ask + '_>,
        arrivals: Option<Arc<dyn Arrivals>>,
        done: &mpsc::Sender<Ended>,
    ) -> Option<Asking> {
        Self::call(self, ask, arrivals, done).map(Asking::from)
    }

    fn state(&self) -> LinkState {
        Self::state(self)
    }

    fn wait_for_first(&self, deadline: Instant) -> bool {
        Self::wait_for_first(self, deadline)
    }

    fn wait_until_up(&self, deadline: Instant) -> bool {
        Self::wait_until_up(self, deadline)
    }

    fn links(&self) -> u64 {
        Self::links(self)
    }

    fn received_bytes(&self) -> u64 {
        Self::received_bytes(self)
    }

    fn in_flight(&self) -> usize {
        Self::in_flight(self)
    }

    fn may_lend(&self) -> bool {
        Self::may_lend(self)
    }

    fn fabric(&self) -> FabricState {
        Self::fabric(self)
    }
}
