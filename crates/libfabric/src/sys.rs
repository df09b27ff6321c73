//! The only unsafe code in the crate: libfabric's structures, and calls of a library that is loaded
//! at run time.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;

use libloading::Library;

use crate::{
    Capabilities, Endpoint, LoadError, MemoryModes, Offer, Provider, QueryError, Version, Want,
};

/// The interface that we speak: the first with traffic classes. Its structures are those below;
/// later ones append to them.
const INTERFACE: Version = Version::new(1, 9);
/// The question is for the providers themselves and not for devices.
const PROVIDERS_ONLY: u64 = 1 << 54;
/// We leave room for a provider's own words in each operation.
const CONTEXT: u64 = 1 << 59;

#[repr(C)]
struct TxAttr {
    caps: u64,
    mode: u64,
    op_flags: u64,
    msg_order: u64,
    comp_order: u64,
    inject_size: usize,
    size: usize,
    iov_limit: usize,
    rma_iov_limit: usize,
    tclass: u32,
}

#[repr(C)]
struct RxAttr {
    caps: u64,
    mode: u64,
    op_flags: u64,
    msg_order: u64,
    comp_order: u64,
    total_buffered_recv: usize,
    size: usize,
    iov_limit: usize,
}

#[repr(C)]
struct EpAttr {
    kind: u32,
    protocol: u32,
    protocol_version: u32,
    max_msg_size: usize,
    msg_prefix_size: usize,
    max_order_raw_size: usize,
    max_order_war_size: usize,
    max_order_waw_size: usize,
    mem_tag_format: u64,
    tx_ctx_cnt: usize,
    rx_ctx_cnt: usize,
    auth_key_size: usize,
    auth_key: *mut u8,
}

#[repr(C)]
struct DomainAttr {
    domain: *mut c_void,
    name: *mut c_char,
    threading: u32,
    control_progress: u32,
    data_progress: u32,
    resource_mgmt: u32,
    av_type: u32,
    mr_mode: u32,
    mr_key_size: usize,
    cq_data_size: usize,
    cq_cnt: usize,
    ep_cnt: usize,
    tx_ctx_cnt: usize,
    rx_ctx_cnt: usize,
    max_ep_tx_ctx: usize,
    max_ep_rx_ctx: usize,
    max_ep_stx_ctx: usize,
    max_ep_srx_ctx: usize,
    cntr_cnt: usize,
    mr_iov_limit: usize,
    caps: u64,
    mode: u64,
    auth_key: *mut u8,
    auth_key_size: usize,
    max_err_data: usize,
    mr_cnt: usize,
    tclass: u32,
}

#[repr(C)]
struct FabricAttr {
    fabric: *mut c_void,
    name: *mut c_char,
    prov_name: *mut c_char,
    prov_version: u32,
    api_version: u32,
}

#[repr(C)]
struct Info {
    next: *mut Info,
    caps: u64,
    mode: u64,
    addr_format: u32,
    src_addrlen: usize,
    dest_addrlen: usize,
    src_addr: *mut c_void,
    dest_addr: *mut c_void,
    handle: *mut c_void,
    tx_attr: *mut TxAttr,
    rx_attr: *mut RxAttr,
    ep_attr: *mut EpAttr,
    domain_attr: *mut DomainAttr,
    fabric_attr: *mut FabricAttr,
    nic: *mut c_void,
}

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

/// libfabric, loaded.
#[derive(Debug)]
pub struct Libfabric {
    name: String,
    version: Version,
    get_info: GetInfo,
    free_info: FreeInfo,
    dup_info: DupInfo,
    str_error: StrError,
    /// Never unloaded: the functions above lie in it, and so do threads and handlers that providers
    /// leave behind.
    _library: ManuallyDrop<Library>,
}

impl Libfabric {
    /// The name of the library, as the loader looks for it.
    pub const NAME: &str = "libfabric.so.1";

    /// Loads the library of that name, or the file at that path.
    ///
    /// # Errors
    /// Each [`LoadError`] is a state that a sound machine may be in.
    pub fn load(file: &OsStr) -> Result<Self, LoadError> {
        let name = file.to_string_lossy().into_owned();
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
        Ok(Self {
            version,
            get_info: function!("fi_getinfo", GetInfo),
            free_info: function!("fi_freeinfo", FreeInfo),
            dup_info: function!("fi_dupinfo", DupInfo),
            str_error: function!("fi_strerror", StrError),
            name,
            _library: library,
        })
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
        let found = self.ask("*", PROVIDERS_ONLY, ptr::null())?;
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
        let hints = Hints::new(self, provider, want)?;
        Ok(self.ask(provider, 0, hints.info)?.offers())
    }

    fn ask(&self, provider: &str, flags: u64, hints: *const Info) -> Result<Found<'_>, QueryError> {
        let mut first = ptr::null_mut();
        // SAFETY: node and service may be null; `hints` is null or a structure that this library
        // made (`Hints`), alive for the call; the answer goes to a pointer of ours.
        let code = unsafe {
            (self.get_info)(
                INTERFACE.0,
                ptr::null(),
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

    fn words(&self, code: c_int) -> String {
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
struct Hints<'a> {
    of: &'a Libfabric,
    info: *mut Info,
    /// The provider's name; `info` points to it.
    _provider: CString,
}

impl<'a> Hints<'a> {
    fn new(of: &'a Libfabric, provider: &str, want: Want) -> Result<Self, QueryError> {
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
                Want::RemoteReads => (CONTEXT, LINK_MEMORY),
            };
            (*info).mode = mode;
            if let Some(domain) = (*info).domain_attr.as_mut() {
                domain.mode = mode;
                domain.mr_mode = memory;
            }
            if want == Want::RemoteReads {
                (*info).caps = Capabilities::REMOTE_READS;
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

impl Drop for Hints<'_> {
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
struct Found<'a> {
    of: &'a Libfabric,
    first: *mut Info,
}

impl Found<'_> {
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

impl Drop for Found<'_> {
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
