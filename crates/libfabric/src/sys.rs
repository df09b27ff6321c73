//! The only unsafe code in the crate: libfabric's structures, and calls of a library that is loaded
//! at run time.

mod attributes;
mod end;
mod memory;
mod objects;
mod signals;

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;

use libloading::Library;

use attributes::{FabricAttr, Info};
use objects::Fabric;
use signals::Dispositions;

pub(crate) use end::{Access, End, Posted};
pub(crate) use memory::Memory;
pub use memory::Slot;

use crate::{
    Capabilities, Endpoint, LoadError, MemoryModes, Offer, Provider, QueryError, Version, Want,
};

/// The interface that we speak: the first with traffic classes. Its structures are those below;
/// later ones append to them.
const INTERFACE: Version = Version::new(1, 9);
/// The question is for the providers themselves and not for devices.
const PROVIDERS_ONLY: u64 = 1 << 54;
/// The address that is given is this side's.
const SOURCE: u64 = 1 << 57;
/// We leave room for a provider's own words in each operation: a little, or twice as much.
const CONTEXT: u64 = 1 << 59;
const CONTEXT2: u64 = 1 << 52;
/// All that belongs to a domain is used by one thread at a time.
const THREAD_DOMAIN: u32 = 3;

type GetVersion = unsafe extern "C" fn() -> u32;
type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const Info,
    *mut *mut Info,
) -> c_int;
type FreeInfo = unsafe extern "C" fn(*mut Info);
type DupInfo = unsafe extern "C" fn(*const Info) -> *mut Info;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;
type OpenFabric = unsafe extern "C" fn(*mut FabricAttr, *mut *mut Fabric, *mut c_void) -> c_int;

/// The functions of the library that have symbols. It is never unloaded, so they stay good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    get_info: GetInfo,
    free_info: FreeInfo,
    dup_info: DupInfo,
    str_error: StrError,
    open_fabric: OpenFabric,
}

/// libfabric, loaded.
#[derive(Debug)]
pub struct Libfabric {
    name: String,
    version: Version,
    calls: Calls,
    /// Never unloaded: the functions above lie in it, and so do threads and handlers that providers
    /// leave behind.
    _library: ManuallyDrop<Library>,
}

impl Libfabric {
    /// The name of the library, as the loader looks for it.
    pub const NAME: &str = "libfabric.so.1";
    /// The variable that names a file in place of it.
    pub const FILE: &str = "FOREBAY_LIBFABRIC";

    /// Loads the library that [`Self::FILE`] names, else the loader's.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn installed() -> Result<Self, LoadError> {
        let named = std::env::var_os(Self::FILE).filter(|named| !named.is_empty());
        Self::load(named.as_deref().unwrap_or(OsStr::new(Self::NAME)))
    }

    /// Loads the library of that name, or the file at that path, and has its providers made ready.
    /// What this process does on a signal stays as it is: handlers of a provider would end a daemon
    /// before it has closed its files.
    ///
    /// # Errors
    /// Each [`LoadError`] is a state that a sound machine may be in.
    pub fn load(file: &OsStr) -> Result<Self, LoadError> {
        let name = file.to_string_lossy().into_owned();
        let _kept = Dispositions::keep();
        // SAFETY: the initialisers of libfabric and of what it links to are made to run in any
        // process; a file that is something else is the user's own choice, as with LD_LIBRARY_PATH.
        let library = unsafe { Library::new(file) }.map_err(|error| not_loaded(&name, &error))?;
        let library = ManuallyDrop::new(library);
        let foreign = |symbol: &str| LoadError::Foreign {
            name: name.clone(),
            symbol: symbol.to_owned(),
        };
        macro_rules! function {
            ($symbol:literal, $kind:ty) => {
                // SAFETY: the type is the one that libfabric's interface gives this function, and
                // the library is never unloaded, so that the pointer stays good.
                *unsafe { library.get::<$kind>($symbol) }.map_err(|_| foreign($symbol))?
            };
        }
        let get_version = function!("fi_version", GetVersion);
        // SAFETY: it takes nothing and gives a number.
        let version = Version(unsafe { get_version() });
        if version < INTERFACE {
            return Err(LoadError::TooOld {
                name,
                found: version,
                wanted: INTERFACE,
            });
        }
        let library = Self {
            version,
            calls: Calls {
                get_info: function!("fi_getinfo", GetInfo),
                free_info: function!("fi_freeinfo", FreeInfo),
                dup_info: function!("fi_dupinfo", DupInfo),
                str_error: function!("fi_strerror", StrError),
                open_fabric: function!("fi_fabric", OpenFabric),
            },
            name,
            _library: library,
        };
        // The first question has the providers made ready, signals and all.
        drop(library.calls.ask("*", None, PROVIDERS_ONLY, ptr::null()));
        Ok(library)
    }

    /// The name or path that it was loaded by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The providers that it has, with and without a device, and layers among them.
    ///
    /// # Errors
    /// [`QueryError::Refused`], where it has none at all.
    pub fn providers(&self) -> Result<Vec<Provider>, QueryError> {
        let found = self.calls.ask("*", None, PROVIDERS_ONLY, ptr::null())?;
        let mut providers: Vec<Provider> = Vec::new();
        for offer in found.offers() {
            if providers.iter().all(|known| known.name != offer.provider) {
                providers.push(Provider {
                    name: offer.provider,
                    version: offer.version,
                });
            }
        }
        Ok(providers)
    }

    /// What a provider offers on this machine, in its order: the best first.
    ///
    /// # Errors
    /// [`QueryError::Refused`] if it offers nothing that will do.
    pub fn offers(&self, provider: &str, want: Want) -> Result<Vec<Offer>, QueryError> {
        let hints = Hints::new(self.calls, provider, want)?;
        Ok(self.calls.ask(provider, None, 0, hints.info)?.offers())
    }

    pub(crate) fn calls(&self) -> Calls {
        self.calls
    }
}

impl Calls {
    /// `source`: the address of this side, for a provider that takes host names.
    fn ask(
        self,
        provider: &str,
        source: Option<&CStr>,
        flags: u64,
        hints: *const Info,
    ) -> Result<Found, QueryError> {
        let mut first = ptr::null_mut();
        // SAFETY: node is null or a text that lives for the call, service may be null; `hints` is
        // null or a structure that this library made (`Hints`), alive for the call; the answer goes
        // to a pointer of ours.
        let code = unsafe {
            (self.get_info)(
                INTERFACE.0,
                source.map_or(ptr::null(), CStr::as_ptr),
                ptr::null(),
                flags,
                hints,
                &raw mut first,
            )
        };
        if code == 0 {
            return Ok(Found { of: self, first });
        }
        Err(QueryError::Refused {
            provider: provider.to_owned(),
            code: code.saturating_neg(),
            words: self.words(code.saturating_neg()),
        })
    }

    /// What a number of an error means, in libfabric's words.
    fn words(self, code: c_int) -> String {
        // SAFETY: it takes any number and gives a text that lives as long as the library.
        unsafe { text((self.str_error)(code)) }
    }
}

fn not_loaded(name: &str, error: &libloading::Error) -> LoadError {
    let detail = match error {
        libloading::Error::DlOpen { source } => source.to_string(),
        other => other.to_string(),
    };
    // The loader begins with the file that it lacks: this one, or one that this one needs.
    if detail.starts_with(name) && detail.contains("No such file") {
        return LoadError::NotFound { name: name.into() };
    }
    LoadError::Unloadable {
        name: name.into(),
        detail,
    }
}

/// A question, in a structure of the library's own making.
struct Hints {
    of: Calls,
    info: *mut Info,
    /// The provider's name; `info` points to it.
    _provider: CString,
}

impl Hints {
    fn new(of: Calls, provider: &str, want: Want) -> Result<Self, QueryError> {
        let name = CString::new(provider).map_err(|_| QueryError::Name(provider.to_owned()))?;
        // SAFETY: a null argument asks for a new, zeroed structure with all its parts.
        let info = unsafe { (of.dup_info)(ptr::null()) };
        if info.is_null() {
            return Err(QueryError::NoMemory);
        }
        // SAFETY: the structure is new and nobody else's. The library made it at least as long as
        // ours (version checked on loading), with its parts, which are checked for null.
        unsafe {
            if let Some(fabric) = (*info).fabric_attr.as_mut() {
                fabric.prov_name = name.as_ptr().cast_mut();
            }
            // What we would bear: anything, or what a link of ours would do.
            let (mode, memory) = match want {
                Want::Anything => (u64::MAX, ALL_MEMORY),
                Want::RemoteReads => (CONTEXT | CONTEXT2, LINK_MEMORY),
            };
            (*info).mode = mode;
            if let Some(domain) = (*info).domain_attr.as_mut() {
                domain.mode = mode;
                domain.mr_mode = memory;
            }
            if want == Want::RemoteReads {
                (*info).caps = Capabilities::REMOTE_READS;
                if let Some(domain) = (*info).domain_attr.as_mut() {
                    domain.threading = THREAD_DOMAIN;
                }
                if let Some(endpoint) = (*info).ep_attr.as_mut() {
                    endpoint.kind = Endpoint::RELIABLE_DATAGRAM;
                }
            }
        }
        Ok(Self {
            of,
            info,
            _provider: name,
        })
    }
}

const LINK_MEMORY: u32 = MemoryModes::LOCAL
    | MemoryModes::VIRT_ADDR
    | MemoryModes::ALLOCATED
    | MemoryModes::PROV_KEY
    | MemoryModes::ENDPOINT;
const ALL_MEMORY: u32 = LINK_MEMORY
    | MemoryModes::RAW
    | MemoryModes::MMU_NOTIFY
    | MemoryModes::RMA_EVENT
    | MemoryModes::HMEM
    | MemoryModes::COLLECTIVE;

impl Drop for Hints {
    fn drop(&mut self) {
        // SAFETY: made in `new`, freed once. The name is ours and would be freed with the rest, so
        // it is taken out first.
        unsafe {
            if let Some(fabric) = (*self.info).fabric_attr.as_mut() {
                fabric.prov_name = ptr::null_mut();
            }
            (self.of.free_info)(self.info);
        }
    }
}

/// An answer: a list that the library owns until it is given back.
struct Found {
    of: Calls,
    first: *mut Info,
}

impl Found {
    fn offers(&self) -> Vec<Offer> {
        let mut offers = Vec::new();
        let mut next = self.first;
        // SAFETY: each is null or a structure of the list, which lives as long as `self`.
        while let Some(info) = unsafe { next.as_ref() } {
            offers.push(offer(info));
            next = info.next;
        }
        offers
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: the list came from this library, is given back once, and what was read of it
            // was copied.
            unsafe { (self.of.free_info)(self.first) };
        }
    }
}

fn offer(info: &Info) -> Offer {
    // SAFETY: the parts of an answer are null or structures that live as long as it does; the
    // library is as new as `INTERFACE`, so they are at least as long as ours.
    let (fabric, domain, endpoint) = unsafe {
        let fabric = info.fabric_attr.as_ref();
        let domain = info.domain_attr.as_ref();
        (fabric, domain, info.ep_attr.as_ref())
    };
    // SAFETY: names are null or texts that end, and live as long as the answer.
    let name = |name: Option<*mut c_char>| unsafe { text(name.unwrap_or(ptr::null_mut())) };
    Offer {
        provider: name(fabric.map(|fabric| fabric.prov_name)),
        version: Version(fabric.map_or(0, |fabric| fabric.prov_version)),
        fabric: name(fabric.map(|fabric| fabric.name)),
        domain: name(domain.map(|domain| domain.name)),
        endpoint: Endpoint::of(endpoint.map_or(0, |endpoint| endpoint.kind)),
        capabilities: Capabilities(info.caps),
        memory_modes: MemoryModes(domain.map_or(0, |domain| domain.mr_mode)),
        max_message_bytes: endpoint.map_or(0, |endpoint| endpoint.max_msg_size as u64),
        address_bytes: info.src_addrlen as u64,
    }
}

/// A copy of a text; empty for none.
///
/// # Safety
/// `from` is null or a text that ends, and lives for the call.
unsafe fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(from) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests;
