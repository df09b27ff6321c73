//! Blocks over a fabric: the side that has them lends memory, the side that wants them reads it.
//!
//! Asks, proofs and answers stay on the link. A loan is told there, read over the fabric, and given
//! back on the link. So nobody writes into another's memory, and whoever gives a read up owns the
//! buffer that it may still land in.

mod lanes;
mod lending;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use forebay_libfabric::{
    Address, FAST, Label, Lender, Libfabric, LoadError, OpenError, ReadError, TrafficClass, Way,
};
use forebay_wire::{FabricMemory, MAX_LENT};
use thiserror::Error;

use lanes::Lanes;
use lending::Lending;
pub use lending::{Loan, Loans};

/// Parts of memory that may be lent at one time, of [`MAX_LENT`] bytes each.
const SLOTS: usize = 32;

/// How a fabric is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricPlan {
    /// Providers, tried in turn.
    pub providers: Vec<String>,
    /// Label of the class that the provider is asked to send in.
    pub label: Option<Label>,
    /// Code point of that class where there is no label.
    pub dscp: Option<u8>,
    /// Host name or address of this node, for providers over IP.
    pub source: Option<String>,
}

impl FabricPlan {
    /// Names of providers of fast networks, the best first.
    pub fn fast() -> Vec<String> {
        FAST.iter().map(|name| (*name).to_owned()).collect()
    }
}

/// A fabric that cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FabricError {
    /// The library cannot be loaded.
    #[error(
        "cannot use libfabric: {0}; install it (Debian: `libfabric1`), name its file in \
         FOREBAY_LIBFABRIC, or set `transport` to `tcp`"
    )]
    Load(#[from] LoadError),
    /// No provider can be used: each with its reason.
    #[error("{0}; `forebay doctor` shows what there is, and `transport` may be `tcp`")]
    Open(String),
    /// The system gives no thread.
    #[error("cannot start a thread for the fabric: {0}")]
    Thread(std::io::Error),
}

/// Memory to lend, and buffers to read others' into.
#[derive(Debug)]
pub struct Fabric {
    lanes: Lanes,
    lending: Arc<Lending>,
    provider: String,
    class: Option<TrafficClass>,
    memory: FabricMemory,
    lent_bytes: AtomicU64,
}

impl Fabric {
    /// Opens the first of the providers that can be used.
    ///
    /// # Errors
    /// [`FabricError`], with the reason of each provider.
    pub fn open(plan: &FabricPlan) -> Result<Arc<Self>, FabricError> {
        let library = Arc::new(Libfabric::installed()?);
        let mut reasons = Vec::new();
        for provider in &plan.providers {
            // What lies over it does not make of the class what it is to the device.
            let core = provider.split(';').next().unwrap_or(provider);
            let of_dscp = |dscp| TrafficClass::of_dscp(dscp, core);
            let way = Way {
                provider: provider.clone(),
                class: plan
                    .label
                    .map(TrafficClass::Label)
                    .or(plan.dscp.map(of_dscp)),
                source: plan.source.clone(),
            };
            match Self::open_way(&library, way) {
                Ok(fabric) => return fabric,
                Err(error) => reasons.push(error.to_string()),
            }
        }
        Err(FabricError::Open(reasons.join("; ")))
    }

    fn open_way(
        library: &Arc<Libfabric>,
        way: Way,
    ) -> Result<Result<Arc<Self>, FabricError>, OpenError> {
        let (lender, slots) = Lender::open(library, &way, SLOTS, MAX_LENT as usize)?;
        // The first of them now: what cannot read is not to be found out in the middle of work.
        let lanes = Lanes::open(library.clone(), way)?;
        let of = lender.memory();
        let memory = FabricMemory {
            format: of.address.format,
            address: of.address.bytes.clone(),
            base: of.base,
            len: of.len,
            key: of.key,
        };
        let (provider, class) = (lender.provider().to_owned(), lender.requested_class());
        let lending = match Lending::start(lender, slots) {
            Ok(lending) => lending,
            Err(error) => return Ok(Err(FabricError::Thread(error))),
        };
        Ok(Ok(Arc::new(Self {
            lanes,
            lending,
            provider,
            class,
            memory,
            lent_bytes: AtomicU64::new(0),
        })))
    }

    /// The provider with the layers over it.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The class that the provider was asked to send in. Whether it does it does not tell.
    pub fn requested_class(&self) -> Option<TrafficClass> {
        self.class
    }

    /// Where others read what is lent here; why they cannot, if so.
    ///
    /// # Errors
    /// The words for one whose provider is another, or who asks a provider that has failed.
    pub fn memory(&self, provider: &str) -> Result<&FabricMemory, String> {
        if provider != self.provider {
            return Err(format!(
                "this node has provider `{}`, not `{provider}`",
                self.provider
            ));
        }
        match self.lending.failure() {
            Some(reason) => Err(reason),
            None => Ok(&self.memory),
        }
    }

    /// Bytes that were lent so far.
    pub fn lent_bytes(&self) -> u64 {
        self.lent_bytes.load(Ordering::Relaxed)
    }

    /// Reads what another has lent, and hands it to `take`.
    pub(crate) fn read<T>(
        &self,
        of: &FabricMemory,
        (offset, len): (u64, usize),
        deadline: Instant,
        goes_on: &dyn Fn() -> bool,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, ReadError> {
        let address = Address {
            format: of.format,
            bytes: of.address.clone(),
        };
        let place = (of.base.saturating_add(offset), of.key);
        self.lanes
            .read(&address, place, len, deadline, goes_on, take)
    }

    /// Closes what is open. Nothing is lent or read any more.
    pub fn close(&self) {
        self.lending.close();
        self.lanes.close();
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.close();
    }
}
