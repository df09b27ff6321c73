//! The stores that this process can read.

use std::sync::Arc;

use forebay_objects::ObjectStores;
use forebay_origin::Stores;

use crate::Failure;

/// Stores as the environment describes them. None is opened yet.
pub(crate) fn stores() -> Result<Arc<dyn Stores>, Failure> {
    Ok(Arc::new(ObjectStores::from_env()?))
}
