//! What providers are and offer.

use serde::Serialize;

use crate::{Capabilities, Endpoint, MemoryModes, Version};

/// A provider that the library has, whether it finds a device or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Provider {
    /// Its name, such as `tcp`.
    pub name: String,
    /// Its own version.
    pub version: Version,
}

impl Provider {
    /// True for what lies over other providers, or looks on: it reaches no device of its own.
    pub fn is_layer(&self) -> bool {
        ["ofi_", "off_"]
            .iter()
            .any(|kind| self.name.starts_with(kind))
    }
}

/// One way that a provider offers to reach a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// The provider with the layers over it, such as `tcp;ofi_rxm`.
    pub provider: String,
    /// The provider's own version.
    pub version: Version,
    /// The network, in the provider's words.
    pub fabric: String,
    /// The device.
    pub domain: String,
    /// How it sends.
    pub endpoint: Endpoint,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What has to be done with memory first.
    pub memory_modes: MemoryModes,
    /// The longest message or transfer, in bytes.
    pub max_message_bytes: u64,
    /// Bytes of this side's address; 0 where none is known yet.
    pub address_bytes: u64,
}

impl Offer {
    /// The provider without the layers over it.
    pub fn core(&self) -> &str {
        let mut parts = self.provider.split(';');
        let core = parts.find(|part| !part.starts_with("ofi_") && !part.starts_with("off_"));
        core.unwrap_or(&self.provider)
    }
}
