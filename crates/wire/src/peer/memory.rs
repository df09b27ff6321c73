//! Memory of a daemon that others read over a fabric.

use crate::WireError;
use crate::codec::Take;

/// Most bytes of an address on a fabric.
pub const MAX_FABRIC_ADDRESS: usize = 512;

/// Where memory of a daemon lies, for who reads it over a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricMemory {
    /// Kind of the address: libfabric's `addr_format`.
    pub format: u32,
    /// Address of the daemon's endpoint, as its provider writes it: at least one byte and at most
    /// [`MAX_FABRIC_ADDRESS`].
    pub address: Vec<u8>,
    /// Where the memory begins, as the provider counts.
    pub base: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The key that opens it.
    pub key: u64,
}

impl FabricMemory {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.format.to_le_bytes());
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.key.to_le_bytes());
        out.extend_from_slice(&(self.address.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.address);
    }

    pub(super) fn take(from: &mut Take<'_>) -> Result<Self, WireError> {
        let format = from.u32()?;
        let (base, len, key) = (from.u64()?, from.u64()?, from.u64()?);
        let count = from.count("address on a fabric", MAX_FABRIC_ADDRESS)?;
        if count == 0 || base.checked_add(len).is_none() {
            return Err(WireError::Malformed("memory has no address or overflows"));
        }
        Ok(Self {
            format,
            address: from.bytes(count)?.to_vec(),
            base,
            len,
            key,
        })
    }
}
