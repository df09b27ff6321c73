//! Bytes of origin shards that are kept on this node's own device.
