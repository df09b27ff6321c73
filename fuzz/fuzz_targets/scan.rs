//! Files of every format that is read in place: each ends in an index or an error.
#![no_main]

use forebay_indexer::{IndexRequest, index};
use libfuzzer_sys::fuzz_target;

const NAMES: [&str; 5] = ["a.tar", "a.npy", "a.npz", "a.safetensors", "a.tfrecord"];

fuzz_target!(|bytes: &[u8]| {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let try_one = |input, verify_data| {
        let mut request = IndexRequest::new(vec![input], folder.path().join("out"));
        request.verify_data = verify_data;
        let _ = index(&request, &());
    };
    for name in NAMES {
        let input = folder.path().join(name);
        if std::fs::write(&input, bytes).is_ok() {
            try_one(input.clone(), false);
            try_one(input, true);
        }
    }
    // Shards of MDS come with a description; the first zero byte divides the two.
    let zero = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (description, rest) = bytes.split_at(zero);
    let shards = folder.path().join("mds");
    if std::fs::create_dir(&shards).is_ok()
        && std::fs::write(shards.join("index.json"), description).is_ok()
        && std::fs::write(shards.join("shard.00000.mds"), rest.get(1..).unwrap_or_default()).is_ok()
    {
        try_one(shards, false);
    }
});
