//! An endpoint and all that it needs, of its own: opened, used by one thread at a time, closed.

use std::ffi::{CString, c_int, c_void};
use std::hash::{BuildHasher, RandomState};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::attributes::Info;
use super::memory::Memory;
use super::objects::{Av, AvAttr, Cq, CqAttr, CqEntry, CqErrEntry, Domain, Ep, Fabric, Fid, Mr};
use super::signals::Dispositions;
use super::{Calls, Found, Hints, SOURCE, offer};
use crate::{
    Address, Libfabric, MemoryModes, OpenError, QueryError, ReadError, TrafficClass, Want, Way,
};

pub(super) const READ: u64 = 1 << 8;
pub(super) const REMOTE_READ: u64 = 1 << 12;
pub(super) const RECV: u64 = 1 << 10;
pub(super) const TRANSMIT: u64 = 1 << 11;
pub(super) const AV_TABLE: u32 = 2;
pub(super) const CQ_CONTEXT: u32 = 1;
pub(super) const WAIT_NONE: u32 = 0;
pub(super) const WAIT_UNSPEC: u32 = 1;
pub(super) const ENABLE: c_int = 6;
pub(super) const ERROR_AVAILABLE: isize = 259;
pub(super) const TOO_SMALL: c_int = 257;

/// Linux's numbers of the two errors that are none.
const AGAIN: isize = 11;
const INTERRUPTED: isize = 4;
/// Entries of the queue of completions: far more than the one operation that is ever under way.
const COMPLETIONS: usize = 64;
/// Looks at a queue that cannot wait, between which only the processor is given away; later ones are
/// slept between.
const EAGER_LOOKS: u32 = 200;
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Opening and closing touch what all ends of a process share in some providers.
static CHANGING: Mutex<()> = Mutex::new(());

/// What is done with the memory of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Others read it.
    ReadByOthers,
    /// What is read of others lands in it.
    LandHere,
}

/// What became of a read that was posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    /// It has not ended.
    Waiting,
    /// Its bytes are there.
    Done,
    /// It ended without.
    Failed(ReadError),
}

/// Room for a provider's own words on the one operation that is under way.
pub(super) type Context = [u64; 8];

/// Later versions append to what a failed operation is described by.
#[repr(C)]
struct ErrorRoom {
    entry: CqErrEntry,
    spare: [u64; 16],
}

pub(crate) struct End {
    calls: Calls,
    provider: String,
    /// Its first structure is the offer that was taken.
    found: Found,
    modes: u32,
    waits: bool,
    fabric: *mut Fabric,
    domain: *mut Domain,
    av: *mut Av,
    cq: *mut Cq,
    ep: *mut Ep,
    mr: *mut Mr,
    /// This and the context are freed only once everything is closed that may reach them.
    memory: Option<Arc<Memory>>,
    start: *mut u8,
    context: *mut Context,
}

// SAFETY: the objects were asked for with a domain of their own whose user is one thread at a time
// (`THREAD_DOMAIN`); every call below takes `&mut self`, or reads what does not change.
unsafe impl Send for End {}

impl End {
    /// Opens an end, whose memory may be used as `access` says.
    pub(crate) fn open(
        library: &Libfabric,
        way: &Way,
        memory: Arc<Memory>,
        access: Access,
    ) -> Result<Self, OpenError> {
        let calls = library.calls();
        let found = look(calls, way)?;
        // SAFETY: the answer of a question that was answered is a structure that lives with `found`.
        let info = unsafe { &mut *found.first };
        let offer = offer(info);
        let len = memory.len();
        let mut end = Self {
            calls,
            found,
            modes: offer.memory_modes.0,
            // On shm of 1.17 a wait never ends.
            waits: offer.core() != "shm",
            provider: offer.provider,
            fabric: ptr::null_mut(),
            domain: ptr::null_mut(),
            av: ptr::null_mut(),
            cq: ptr::null_mut(),
            ep: ptr::null_mut(),
            mr: ptr::null_mut(),
            start: memory.start(),
            memory: Some(memory),
            context: Box::into_raw(Box::new([0; 8])),
        };
        // Made after `end`, and so given up before it: closing takes it too.
        let _one_at_a_time = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        // shm takes signals when an endpoint is made.
        let _kept = Dispositions::keep();
        end.set_class(way.class)?;
        end.open_domain()?;
        end.open_queues()?;
        end.open_endpoint()?;
        end.register(len, access)?;
        Ok(end)
    }

    fn info(&self) -> *mut Info {
        self.found.first
    }

    fn step(&self, step: &'static str, code: c_int) -> Result<(), OpenError> {
        if code == 0 {
            return Ok(());
        }
        let code = code.saturating_neg();
        Err(OpenError::Step {
            provider: self.provider.clone(),
            step,
            code,
            words: self.calls.words(code),
        })
    }

    fn lacks(&self, part: &'static str) -> OpenError {
        OpenError::Incomplete {
            provider: self.provider.clone(),
            part,
        }
    }

    /// Hints are answered without the class, so it is written into the answer.
    fn set_class(&mut self, class: Option<TrafficClass>) -> Result<(), OpenError> {
        let Some(class) = class else { return Ok(()) };
        // SAFETY: the structures are the library's answer, as long as ours at least (version checked
        // on loading), live with `found`, and are nobody else's until they are given back.
        let (domain, tx) = unsafe {
            let info = &mut *self.info();
            (info.domain_attr.as_mut(), info.tx_attr.as_mut())
        };
        domain.ok_or_else(|| self.lacks("domain"))?.tclass = class.number();
        tx.ok_or_else(|| self.lacks("sender"))?.tclass = class.number();
        Ok(())
    }

    fn open_domain(&mut self) -> Result<(), OpenError> {
        // SAFETY: the attributes are the library's own answer; the object goes to a pointer of ours.
        let code = unsafe {
            let attributes = (*self.info()).fabric_attr;
            (self.calls.open_fabric)(attributes, &raw mut self.fabric, ptr::null_mut())
        };
        self.step("open the fabric", code)?;
        // SAFETY: the fabric was just opened; its functions are those of its header.
        let code = unsafe {
            let open = (*(*self.fabric).ops).domain;
            open(
                self.fabric,
                self.info(),
                &raw mut self.domain,
                ptr::null_mut(),
            )
        };
        self.step("open its device", code)
    }

    fn open_queues(&mut self) -> Result<(), OpenError> {
        // SAFETY: an answer with a domain, in which `open_domain` has just opened one.
        let kind = unsafe { (*(*self.info()).domain_attr).av_type };
        let mut addresses = AvAttr {
            kind: if kind == 0 { AV_TABLE } else { kind },
            rx_ctx_bits: 0,
            count: 64,
            ep_per_node: 0,
            name: ptr::null(),
            map_addr: ptr::null_mut(),
            flags: 0,
        };
        // SAFETY: the domain is open; the attributes live for the call.
        let code = unsafe {
            let open = (*(*self.domain).ops).av_open;
            open(
                self.domain,
                &raw mut addresses,
                &raw mut self.av,
                ptr::null_mut(),
            )
        };
        self.step("make a table of addresses", code)?;
        if self.waits && self.open_completions(WAIT_UNSPEC) == 0 {
            return Ok(());
        }
        self.waits = false;
        let code = self.open_completions(WAIT_NONE);
        self.step("make a queue of completions", code)
    }

    fn open_completions(&mut self, wait_obj: u32) -> c_int {
        let mut attributes = CqAttr {
            size: COMPLETIONS,
            flags: 0,
            format: CQ_CONTEXT,
            wait_obj,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: ptr::null_mut(),
        };
        // SAFETY: the domain is open; the attributes live for the call.
        unsafe {
            let open = (*(*self.domain).ops).cq_open;
            open(
                self.domain,
                &raw mut attributes,
                &raw mut self.cq,
                ptr::null_mut(),
            )
        }
    }

    fn open_endpoint(&mut self) -> Result<(), OpenError> {
        // SAFETY: the domain is open, and the structure is the one that it was opened with.
        let code = unsafe {
            let open = (*(*self.domain).ops).endpoint;
            open(self.domain, self.info(), &raw mut self.ep, ptr::null_mut())
        };
        self.step("make an endpoint", code)?;
        // SAFETY: endpoint, table and queue are open objects of one domain.
        let code = unsafe {
            let ep = &raw mut (*self.ep).fid;
            let bind = (*(*ep).ops).bind;
            let tied = bind(ep, &raw mut (*self.av).fid, 0);
            if tied == 0 {
                bind(ep, &raw mut (*self.cq).fid, TRANSMIT | RECV)
            } else {
                tied
            }
        };
        self.step("tie an endpoint to its queues", code)?;
        // SAFETY: the endpoint is open and tied; the command takes no argument.
        let code = unsafe {
            let ep = &raw mut (*self.ep).fid;
            ((*(*ep).ops).control)(ep, ENABLE, ptr::null_mut())
        };
        self.step("enable an endpoint", code)
    }

    fn register(&mut self, len: usize, access: Access) -> Result<(), OpenError> {
        let flag = match access {
            Access::ReadByOthers => REMOTE_READ,
            Access::LandHere if self.modes & MemoryModes::LOCAL == 0 => return Ok(()),
            Access::LandHere => READ,
        };
        // SAFETY: an answer with a domain, in which `open_domain` has opened one.
        let key_bytes = unsafe { (*(*self.info()).domain_attr).mr_key_size };
        // Providers that do not draw keys themselves take ours: nobody is to guess it.
        let drawn = RandomState::new().hash_one(self.start as usize);
        let shift = 64 - 8 * key_bytes.clamp(1, 8) as u32;
        // SAFETY: the memory is `len` bytes at `start`, which `memory` holds until all is closed.
        let code = unsafe {
            let register = (*(*self.domain).mr).reg;
            register(
                &raw mut (*self.domain).fid,
                self.start.cast(),
                len,
                flag,
                0,
                drawn >> shift,
                0,
                &raw mut self.mr,
                ptr::null_mut(),
            )
        };
        self.step("register memory", code)?;
        if self.modes & MemoryModes::ENDPOINT == 0 {
            return Ok(());
        }
        // SAFETY: registration and endpoint are open objects of one domain, the latter enabled.
        let code = unsafe {
            let mr = &raw mut (*self.mr).fid;
            let tied = ((*(*mr).ops).bind)(mr, &raw mut (*self.ep).fid, 0);
            if tied == 0 {
                ((*(*mr).ops).control)(mr, ENABLE, ptr::null_mut())
            } else {
                tied
            }
        };
        self.step("tie memory to an endpoint", code)
    }

    /// The provider with the layers over it.
    pub(crate) fn provider(&self) -> &str {
        &self.provider
    }

    /// The class that the provider was asked for.
    pub(crate) fn class(&self) -> Option<TrafficClass> {
        // SAFETY: the answer lives with `found`, and so does its part, or that is null.
        let tx = unsafe { (*self.info()).tx_attr.as_ref() };
        tx.and_then(|tx| TrafficClass::of_number(tx.tclass))
    }

    /// The most bytes of one read.
    pub(crate) fn most_bytes(&self) -> usize {
        // SAFETY: the answer lives with `found`, and so does its part, or that is null.
        let ep = unsafe { (*self.info()).ep_attr.as_ref() };
        ep.map_or(0, |ep| ep.max_msg_size).max(1)
    }

    /// Where others reach this end.
    pub(crate) fn address(&self) -> Result<Address, OpenError> {
        let mut bytes = vec![0u8; Address::MOST];
        let mut len = bytes.len();
        // SAFETY: the endpoint is open and enabled; at most `len` bytes are written.
        let code = unsafe {
            let name = (*(*self.ep).cm).getname;
            name(
                &raw mut (*self.ep).fid,
                bytes.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if code == -TOO_SMALL || len == 0 || len > bytes.len() {
            return Err(self.lacks("address"));
        }
        self.step("tell its address", code)?;
        bytes.truncate(len);
        // SAFETY: the answer lives with `found`.
        let format = unsafe { (*self.info()).addr_format };
        Ok(Address { format, bytes })
    }

    /// Where the memory begins for who reads it, and the key.
    pub(crate) fn place(&self) -> (u64, u64) {
        let base = match self.modes & MemoryModes::VIRT_ADDR {
            0 => 0,
            _ => self.start as u64,
        };
        // SAFETY: null, or the registration that `register` has made.
        let key = unsafe { self.mr.as_ref() }.map_or(0, |mr| mr.key);
        (base, key)
    }

    /// Takes the address of another end. What comes of a provider that cannot be its own is refused
    /// before the provider sees it.
    pub(crate) fn insert(&mut self, address: &Address) -> Result<u64, ReadError> {
        let refused = || ReadError::Address {
            format: address.format,
            len: address.bytes.len(),
        };
        // SAFETY: the answer lives with `found`.
        let format = unsafe { (*self.info()).addr_format };
        if format != address.format || !address.is_sound() {
            return Err(refused());
        }
        // The provider reads as much as its addresses have, whatever was sent.
        let mut room = [0u64; 2 * Address::MOST / 8];
        for (word, bytes) in room.iter_mut().zip(address.bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        let mut peer = u64::MAX;
        // SAFETY: the table is open; the room is longer than any address, ends in zeros, and lives
        // for the call, as does the place of the result.
        let inserted = unsafe {
            let insert = (*(*self.av).ops).insert;
            insert(
                self.av,
                room.as_ptr().cast(),
                1,
                &raw mut peer,
                0,
                ptr::null_mut(),
            )
        };
        if inserted == 1 && peer != u64::MAX {
            Ok(peer)
        } else {
            Err(refused())
        }
    }

    /// Begins to read `len` bytes of another end into the memory of this one at `at`. False if it
    /// cannot be begun now.
    ///
    /// Only one read may be under way, and nobody may look at those bytes until it has ended; the
    /// caller sees to both. The bytes must lie in the memory.
    pub(crate) fn post_read(
        &mut self,
        peer: u64,
        at: usize,
        len: usize,
        (address, key): (u64, u64),
    ) -> Result<bool, ReadError> {
        let memory = self.memory.as_ref().map_or(0, |memory| memory.len());
        assert!(
            at.checked_add(len).is_some_and(|end| end <= memory),
            "a read must land in the memory"
        );
        // SAFETY: the endpoint is enabled and `peer` is of its table; the bytes lie in the memory
        // (asserted), which, as the context, is freed only once the endpoint is closed.
        let code = unsafe {
            let descriptor = self.mr.as_ref().map_or(ptr::null_mut(), |mr| mr.descriptor);
            let read = (*(*self.ep).rma).read;
            let into = self.start.add(at).cast();
            read(
                self.ep,
                into,
                len,
                descriptor,
                peer,
                address,
                key,
                self.context.cast(),
            )
        };
        match -code {
            0 => Ok(true),
            AGAIN => Ok(false),
            code => Err(self.failed(code)),
        }
    }

    fn failed(&self, code: isize) -> ReadError {
        let code = c_int::try_from(code).unwrap_or(c_int::MAX);
        ReadError::Failed {
            code,
            words: self.calls.words(code),
        }
    }

    /// Lets the provider work, up to `limit`, and tells how it stands with the read under way.
    pub(crate) fn progress(&mut self, limit: Duration) -> Result<Posted, ReadError> {
        if self.waits {
            let millis = c_int::try_from(limit.as_millis())
                .unwrap_or(c_int::MAX)
                .max(1);
            return self.look(Some(millis));
        }
        let until = Instant::now() + limit;
        let (mut looks, mut sleep) = (0, SHORTEST_SLEEP);
        loop {
            let seen = self.look(None)?;
            if seen != Posted::Waiting || Instant::now() >= until {
                return Ok(seen);
            }
            looks += 1;
            if looks < EAGER_LOOKS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(sleep);
                sleep = (2 * sleep).min(LONGEST_SLEEP);
            }
        }
    }

    /// Looks at the queue once; with `millis` it waits there.
    fn look(&mut self, millis: Option<c_int>) -> Result<Posted, ReadError> {
        let mut entry = CqEntry {
            op_context: ptr::null_mut(),
        };
        let into: *mut c_void = (&raw mut entry).cast();
        // SAFETY: the queue is open, of the format of `entry`, and one of them is asked for.
        let code = unsafe {
            let ops = &*(*self.cq).ops;
            match millis {
                Some(millis) => (ops.sread)(self.cq, into, 1, ptr::null(), millis),
                None => (ops.read)(self.cq, into, 1),
            }
        };
        match -code {
            ERROR_AVAILABLE => self.look_at_error(),
            AGAIN | INTERRUPTED | 0 => Ok(Posted::Waiting),
            code if code > 0 => Err(self.failed(code)),
            _ if entry.op_context == self.context.cast() => Ok(Posted::Done),
            _ => Ok(Posted::Waiting),
        }
    }

    fn look_at_error(&mut self) -> Result<Posted, ReadError> {
        // SAFETY: numbers and pointers, for all of which zero is a value.
        let mut room: ErrorRoom = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open; the entry has room for what later versions append.
        let code = unsafe {
            let read = (*(*self.cq).ops).readerr;
            read(self.cq, &raw mut room.entry, 0)
        };
        if code == 1 && room.entry.op_context == self.context.cast() {
            return Ok(Posted::Failed(self.failed(room.entry.err as isize)));
        }
        match -code {
            code if code > 0 && code != AGAIN => Err(self.failed(code)),
            _ => Ok(Posted::Waiting),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _one_at_a_time = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let mr = self.mr.cast::<Fid>();
        let ep = self.ep.cast::<Fid>();
        // Memory that is tied to the endpoint goes first; else the endpoint, with what is under way.
        let (first, second) = match self.modes & MemoryModes::ENDPOINT {
            0 => (ep, mr),
            _ => (mr, ep),
        };
        let all = [
            first,
            second,
            self.cq.cast(),
            self.av.cast(),
            self.domain.cast(),
        ];
        let mut is_closed = true;
        for object in all.into_iter().chain([self.fabric.cast()]) {
            if let Some(object) = NonNull::<Fid>::new(object) {
                // SAFETY: an open object, which begins with a `Fid`; each is closed once, after
                // those that were made from it.
                let code = unsafe { ((*(*object.as_ptr()).ops).close)(object.as_ptr()) };
                is_closed &= code == 0;
            }
        }
        if is_closed {
            // SAFETY: made in `open`, freed once; nothing is open any more that may write to it.
            drop(unsafe { Box::from_raw(self.context) });
        } else {
            // The provider may still reach them: never freed.
            std::mem::forget(self.memory.take());
        }
    }
}

/// The first offer that will do, of the address of this side where the provider's are IP's.
fn look(calls: Calls, way: &Way) -> Result<Found, OpenError> {
    let hints = Hints::new(calls, &way.provider, Want::RemoteReads)?;
    let found = calls.ask(&way.provider, None, 0, hints.info)?;
    // SAFETY: null or the first structure of the answer, which lives with `found`.
    let info = unsafe { found.first.as_ref() };
    let format = info.map_or(0, |info| info.addr_format);
    let complete = info.is_some_and(|info| {
        !info.domain_attr.is_null() && !info.fabric_attr.is_null() && !info.ep_attr.is_null()
    });
    if !complete {
        return Err(OpenError::Incomplete {
            provider: way.provider.clone(),
            part: "offer",
        });
    }
    let source = way.source.as_deref().filter(|_| Address::is_ip(format));
    let Some(source) = source else {
        return Ok(found);
    };
    let text = CString::new(source).map_err(|_| QueryError::Name(source.to_owned()))?;
    let found = calls.ask(&way.provider, Some(&text), SOURCE, hints.info);
    found.map_err(|error| OpenError::Source {
        provider: way.provider.clone(),
        source_host: source.to_owned(),
        words: error.to_string(),
    })
}
