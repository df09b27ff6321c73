//! Any bytes as an HDF5 file: an index whose samples are read, or an error.
#![no_main]

use forebay_indexer::{IndexRequest, VerifyRequest, index, verify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let input = folder.path().join("a.h5");
    if std::fs::write(&input, bytes).is_err() {
        return;
    }
    for rule in ["s*", "rows", "/"] {
        let output = folder.path().join("out");
        let mut request = IndexRequest::new(vec![input.clone()], output.clone());
        request.samples.extend(rule.parse());
        request.skip_incomplete = true;
        request.swmr = true;
        // Variable-length and virtual data too, as `forebay flatten` asks for it.
        request.decode = true;
        if index(&request, &()).is_ok() {
            let root = Some(folder.path().to_path_buf());
            let report = verify(&VerifyRequest { index: output, root, data: true, stores: None }, &());
            assert!(report.is_ok(), "what was indexed opens");
        }
    }
});
