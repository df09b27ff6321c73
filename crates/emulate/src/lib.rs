//! The emulated slow tier: a FUSE pass-through with drawn latencies, a bandwidth cap and faults.
