//! What libfabric does not tell of its providers.

/// Providers of fast networks, the first to be taken first.
pub const FAST: &[&str] = &["cxi", "efa", "verbs"];

/// The folder in which the kernel shows a provider's devices; `None` for one that needs none, or of
/// which we know nothing.
pub fn device_of(provider: &str) -> Option<&'static str> {
    match provider {
        "cxi" => Some("/sys/class/cxi"),
        // Omni-Path and EFA show themselves as InfiniBand does.
        "verbs" | "efa" | "opx" | "psm" | "psm2" | "psm3" => Some("/sys/class/infiniband"),
        "usnic" => Some("/sys/class/usnic"),
        _ => None,
    }
}

/// What a provider makes of the traffic class of an endpoint, from its own sources: a question
/// answers the same with any class.
pub fn traffic_classes(provider: &str) -> &'static str {
    match provider {
        "cxi" => "labels, where the job's service allows them",
        "efa" => "low latency only",
        _ => "not used",
    }
}
