//! The stores that this process can read.

use std::sync::Arc;

use forebay_objects::ObjectStores;
use forebay_origin::Stores;

use crate::Failure;

/// Stores as the environment describes them. None is opened yet.
pub(crate) fn stores() -> Result<Arc<dyn Stores>, Failure> {
    stores_in_class(None)
}

/// The same, read in a traffic class: the code point of packets to them, 0 to 63.
pub(crate) fn stores_in_class(dscp: Option<u8>) -> Result<Arc<dyn Stores>, Failure> {
    Ok(Arc::new(ObjectStores::from_env(dscp)?))
}
