//! The emulated tier without its face: tree, delay engine, faults, counters, and the commands
//! that adjust them while it runs.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::control::{Command, Status};
use crate::delay::{Engine, Job, OpClass, Outcome, Request, Timing};
use crate::error::{Error, Result};
use crate::fault::{Action, Bump, FaultClass, Faults};
use crate::profile::ProfileSettings;
use crate::stats::{ClassStats, ClassSummary};
use crate::trace::{Trace, TraceLine};
use crate::tree::Tree;

/// Everything that requests and commands share.
pub(crate) struct Server {
    pub(crate) tree: Tree,
    engine: Engine,
    live: Mutex<Live>,
    read: ClassStats,
    metadata: ClassStats,
    trace: Option<Trace>,
    started: Instant,
    /// Short reads would be filled up with zeros by the page cache.
    page_cache: bool,
}

struct Live {
    settings: ProfileSettings,
    faults: Faults,
}

/// One request on its way: its class, what it is called in the trace, and how it goes wrong.
pub(crate) struct Call {
    pub(crate) class: OpClass,
    pub(crate) op: &'static str,
    pub(crate) bytes: u32,
    pub(crate) action: Action,
    /// The path, where a trace wants it.
    pub(crate) path: Option<Arc<Path>>,
}

impl Server {
    pub(crate) fn start(
        tree: Tree,
        settings: ProfileSettings,
        workers: usize,
        trace: Option<Trace>,
        page_cache: bool,
    ) -> Result<Self> {
        let profile = settings.resolve()?;
        refuse_short(&settings, page_cache)?;
        let faults = Faults::new(profile.seed, profile.faults.clone());
        Ok(Self {
            tree,
            engine: Engine::start(Arc::new(profile), workers).map_err(Error::Start)?,
            live: Mutex::new(Live { settings, faults }),
            read: ClassStats::default(),
            metadata: ClassStats::default(),
            trace,
            started: Instant::now(),
            page_cache,
        })
    }

    /// Prepare a request. `path` is only asked where a fault or the trace needs it.
    pub(crate) fn call(
        &self,
        class: OpClass,
        op: &'static str,
        bytes: u32,
        path: impl FnOnce() -> io::Result<Arc<Path>>,
    ) -> Call {
        let mut live = self.live();
        let mut call = Call {
            class,
            op,
            bytes,
            action: Action::None,
            path: None,
        };
        if live.faults.is_empty() && self.trace.is_none() {
            return call;
        }
        // A node that is gone has no path; the request itself will say so.
        call.path = path().ok();
        if let Some(path) = &call.path {
            let class = match class {
                OpClass::Read => FaultClass::Read,
                OpClass::Metadata => FaultClass::Metadata,
            };
            call.action = live.faults.decide(class, path);
        }
        call
    }

    /// Hand `job` to the emulated server.
    pub(crate) fn submit(&self, call: &Call, job: Job) {
        let hold = match call.action {
            Action::Hang(time) => Some(time),
            Action::None | Action::Eio | Action::Short(_) => None,
        };
        let request = Request {
            class: call.class,
            bytes: u64::from(call.bytes),
            hold,
        };
        self.engine.submit(request, job);
    }

    /// The timing of a call that is to be answered, or the error to answer with.
    pub(crate) fn admit(&self, call: &Call, outcome: Outcome) -> (Timing, io::Result<()>) {
        let eio = || Err(io::Error::from_raw_os_error(libc::EIO));
        match outcome {
            Outcome::Cancel => (Timing::default(), eio()),
            Outcome::Serve(timing) if call.action == Action::Eio => (timing, eio()),
            Outcome::Serve(timing) => (timing, Ok(())),
        }
    }

    /// Count an answered call, before its answer leaves. `read` is a read's offset and its
    /// returned bytes.
    pub(crate) fn answered(
        &self,
        call: &Call,
        timing: Timing,
        errno: i32,
        read: Option<(u64, usize)>,
    ) {
        let stats = match call.class {
            OpClass::Read => &self.read,
            OpClass::Metadata => &self.metadata,
        };
        // Counters only: nothing else is read by their order.
        let counter = if errno == 0 { &stats.ok } else { &stats.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        stats.delay.record(timing.delay);
        stats.queued.record(timing.queued);
        if let Some((_, returned)) = read {
            stats.bytes.fetch_add(returned as u64, Ordering::Relaxed);
        }
        if let (Some(trace), Some(path)) = (&self.trace, &call.path) {
            let mut line = TraceLine::new(call.op, path, timing);
            line.errno = errno;
            if let Some((offset, returned)) = read {
                line.offset = Some(offset);
                line.len = Some(call.bytes);
                line.returned = Some(returned);
            }
            trace.add(&line);
        }
    }

    /// How the attributes of `path` are changed.
    pub(crate) fn bump(&self, path: impl FnOnce() -> io::Result<Arc<Path>>) -> Bump {
        let live = self.live();
        if live.faults.is_empty() {
            return Bump::default();
        }
        path()
            .map(|path| live.faults.bump(&path))
            .unwrap_or_default()
    }

    /// Carry out a command. Nothing changes if it is refused.
    pub(crate) fn apply(&self, command: Command) -> Result<Status> {
        match command {
            Command::Status {} => {}
            Command::Release {} => self.engine.release(),
            Command::Set { assignments } => {
                self.change(|settings| settings.assign(&assignments))?;
            }
            Command::Fault { rule } => {
                self.change(|settings| {
                    let mut next = settings.clone();
                    next.faults.push(rule);
                    Ok(next)
                })?;
            }
            Command::Clear {} => {
                self.change(|settings| {
                    Ok(ProfileSettings {
                        faults: Vec::new(),
                        ..settings.clone()
                    })
                })?;
                self.engine.release();
            }
        }
        if let Some(trace) = &self.trace {
            trace.flush();
        }
        Ok(self.status())
    }

    fn change(&self, next: impl FnOnce(&ProfileSettings) -> Result<ProfileSettings>) -> Result<()> {
        let mut live = self.live();
        let settings = next(&live.settings)?;
        let profile = settings.resolve()?;
        refuse_short(&settings, self.page_cache)?;
        live.faults.replace(profile.seed, profile.faults.clone());
        live.settings = settings;
        self.engine.retune(Arc::new(profile));
        Ok(())
    }

    /// Counts and settings as they are now.
    pub(crate) fn status(&self) -> Status {
        let (depth, most_in_flight) = self.engine.depth();
        Status {
            uptime_s: self.started.elapsed().as_secs_f64(),
            read: self.read.summary(),
            metadata: ClassSummary {
                bytes: 0,
                ..self.metadata.summary()
            },
            held: depth.held,
            waiting: depth.waiting,
            in_service: depth.in_service,
            most_in_flight,
            nodes: self.tree.nodes(),
            profile: self.live().settings.clone(),
        }
    }

    /// Answer everything with `EIO` from now on.
    pub(crate) fn stop(&self) {
        self.engine.stop();
        if let Some(trace) = &self.trace {
            trace.flush();
        }
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refuse_short(settings: &ProfileSettings, page_cache: bool) -> Result<()> {
    let short = settings
        .faults
        .iter()
        .any(|rule| rule.kind == crate::fault::FaultKind::Short);
    if short && page_cache {
        return Err(Error::BrokenRules(vec![
            "kind `short` cannot be combined with the page cache, which would fill the missing \
             bytes with zeros: mount without it"
                .into(),
        ]));
    }
    Ok(())
}

/// How long the kernel may keep names and attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ttl(pub(crate) Duration);
