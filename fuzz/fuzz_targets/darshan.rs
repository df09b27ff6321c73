//! Darshan logs: they come from other people's runs.
#![no_main]

use forebay_darshan::{Limits, Log};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits {
        region_bytes: 1 << 20,
        total_bytes: 4 << 20,
        records: 10_000,
    };
    if let Ok(log) = Log::read_within(bytes, &limits) {
        assert!(log.posix.len() <= limits.records);
        assert!(704 * log.posix.len() <= 2 * limits.total_bytes);
    }
});
