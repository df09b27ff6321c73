//! Shared things that serve one amount of work a second: a link, the slots of a server, a device.

/// A server that works on one thing at a time, in the order of arrival, without idling while there
/// is work.
///
/// It stands for many slots or flows at once: what matters to a forecast is when the work that was
/// asked for is done, not which of equals is served first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fluid {
    free_s: f64,
}

impl Fluid {
    /// Work of so many seconds that arrives at `at`: when it is done.
    pub(super) fn serve(&mut self, at: f64, seconds: f64) -> f64 {
        self.free_s = self.free_s.max(at) + seconds;
        self.free_s
    }
}

/// What all ranks share at the origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    link: Fluid,
    slots: Fluid,
    metadata: Fluid,
    bytes_per_s: f64,
    parallel: f64,
    metadata_per_s: f64,
}

impl Shared {
    pub(super) fn of(origin: &super::origin::Origin) -> Self {
        Self {
            link: Fluid::default(),
            slots: Fluid::default(),
            metadata: Fluid::default(),
            bytes_per_s: origin.bytes_per_s.unwrap_or(f64::INFINITY),
            parallel: origin.parallel_reads.map_or(f64::INFINITY, f64::from),
            metadata_per_s: origin.metadata_per_s.unwrap_or(f64::INFINITY),
        }
    }

    /// The earliest end of reads that begin at `at`, occupy slots for `seconds` and move `bytes`,
    /// as far as others' reads hold them up.
    pub(super) fn reads(&mut self, at: f64, seconds: f64, bytes: f64) -> f64 {
        let slots = self.slots.serve(at, seconds / self.parallel);
        self.link.serve(at, bytes / self.bytes_per_s).max(slots)
    }

    /// The earliest end of `n` metadata operations, as far as others' hold them up.
    pub(super) fn metadata(&mut self, at: f64, n: f64) -> f64 {
        self.metadata.serve(at, n / self.metadata_per_s)
    }
}
