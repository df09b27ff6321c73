//! Files of every format that is read in place: each ends in an index or an error.
#![no_main]

use forebay_indexer::{IndexRequest, index};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    for name in ["a.h5", "a.tar", "a.npy", "a.npz", "a.safetensors", "a.tfrecord"] {
        let input = folder.path().join(name);
        if std::fs::write(&input, bytes).is_ok() {
            let _ = index(&IndexRequest::new(vec![input], folder.path().join("out")), &());
        }
    }
});
