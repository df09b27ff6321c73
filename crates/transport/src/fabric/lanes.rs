//! Buffers that others' memory is read into, and the endpoints that read.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_libfabric::{Address, Libfabric, OpenError, Peer, ReadError, Reader, Way};
use forebay_wire::MAX_LENT;

/// Reads under way at one time, of all links together. An endpoint of `tcp;ofi_rxm` costs some
/// 17 MB.
const MOST: usize = 4;
/// Peers that one endpoint knows, at most; one that has met more is closed and another opened.
const MOST_PEERS: usize = 1024;
/// How long those in use are waited for at the end.
const CLOSING: Duration = Duration::from_secs(1);

/// Some readers, each used by one link at a time.
#[derive(Debug)]
pub(super) struct Lanes {
    library: Arc<Libfabric>,
    way: Way,
    state: Mutex<State>,
    given_back: Condvar,
}

#[derive(Debug)]
struct State {
    free: Vec<Lane>,
    /// How many there are, free or in use.
    open: usize,
    is_closed: bool,
}

#[derive(Debug)]
struct Lane {
    reader: Reader,
    peers: HashMap<Address, Peer>,
}

impl Lanes {
    /// Opens the first.
    pub(super) fn open(library: Arc<Libfabric>, way: Way) -> Result<Self, OpenError> {
        let lane = Lane::open(&library, &way)?;
        Ok(Self {
            library,
            way,
            state: Mutex::new(State {
                free: vec![lane],
                open: 1,
                is_closed: false,
            }),
            given_back: Condvar::new(),
        })
    }

    /// Reads `len` bytes of another's memory and hands them to `take`.
    pub(super) fn read<T>(
        &self,
        of: &Address,
        place: (u64, u64),
        len: usize,
        deadline: Instant,
        goes_on: &dyn Fn() -> bool,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, ReadError> {
        let mut place_of_lane = Place {
            lanes: self,
            lane: self.take(deadline)?,
        };
        let lane = place_of_lane.lane(self)?;
        let goes_on = || goes_on() && !self.lock().is_closed;
        let read = lane.peer(of).and_then(|peer| {
            let bytes = lane.reader.read(peer, place, len, deadline, &goes_on)?;
            Ok(take(bytes))
        });
        if read.is_err() {
            // Bytes may still land in it, or what it is connected to is of no use: closed for good.
            place_of_lane.lane = None;
        }
        read
    }

    /// A lane, or the place for one that is still to be opened.
    fn take(&self, deadline: Instant) -> Result<Option<Lane>, ReadError> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return Err(ReadError::GivenUp);
            }
            if let Some(lane) = state.free.pop() {
                return Ok(Some(lane));
            }
            if state.open < MOST {
                state.open += 1;
                return Ok(None);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Err(ReadError::Busy);
            }
            let waited = self.given_back.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Closes all of them. Those in use end their reads first, and are waited for a little.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let free = std::mem::take(&mut state.free);
        state.open -= free.len();
        drop(state);
        self.given_back.notify_all();
        drop(free);
        let in_use = |state: &mut State| state.open > 0;
        let waited = (self.given_back).wait_timeout_while(self.lock(), CLOSING, in_use);
        drop(waited);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lane in use, or the room of one; given back on drop.
struct Place<'a> {
    lanes: &'a Lanes,
    lane: Option<Lane>,
}

impl Place<'_> {
    fn lane(&mut self, lanes: &Lanes) -> Result<&mut Lane, ReadError> {
        let is_full = |lane: &Lane| lane.peers.len() >= MOST_PEERS;
        let lane = self.lane.take().filter(|lane| !is_full(lane));
        let lane = match lane {
            Some(lane) => lane,
            None => Lane::open(&lanes.library, &lanes.way).map_err(|error| ReadError::Reopen {
                reason: error.to_string(),
            })?,
        };
        Ok(self.lane.insert(lane))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.lanes.lock();
        match self.lane.take() {
            Some(lane) if !state.is_closed => state.free.push(lane),
            lane => {
                drop(state);
                // Not under the lock: a provider takes its time to close. It counts until it has.
                drop(lane);
                self.lanes.lock().open -= 1;
            }
        }
        // Both who wants one and who closes them all may wait.
        self.lanes.given_back.notify_all();
    }
}

impl Lane {
    fn open(library: &Libfabric, way: &Way) -> Result<Self, OpenError> {
        Ok(Self {
            reader: Reader::open(library, way, MAX_LENT as usize)?,
            peers: HashMap::new(),
        })
    }

    fn peer(&mut self, address: &Address) -> Result<Peer, ReadError> {
        if let Some(peer) = self.peers.get(address) {
            return Ok(*peer);
        }
        let peer = self.reader.add(address)?;
        self.peers.insert(address.clone(), peer);
        Ok(peer)
    }
}
