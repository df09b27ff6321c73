use super::*;
use crate::testing::conformance;

fn segment(folder: &Path, name: &'static str, bytes: &[u8]) -> SegmentRef<'static> {
    std::fs::write(folder.join(name), bytes).unwrap();
    let fingerprint = fingerprint_of(&File::open(folder.join(name)).unwrap()).unwrap();
    SegmentRef {
        index: SegmentIndex(0),
        path: name,
        fingerprint,
    }
}

#[test]
fn it_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
    let segment = segment(folder.path(), "a", &bytes);
    conformance::reads_are_exact(&PosixOrigin::new(folder.path().into()), segment, &bytes);
}

#[test]
fn a_rewritten_file_is_stale_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let segment = segment(folder.path(), "a", b"old bytes");
    let origin = PosixOrigin::new(folder.path().into());
    origin.read_at(segment, 0, &mut [0; 9]).unwrap();
    std::fs::write(folder.path().join("a"), b"new bytes!").unwrap();
    let error = origin.read_at(segment, 0, &mut [0; 9]).unwrap_err();
    assert_eq!(error.kind(), forebay_dataset::ErrorKind::Stale);
    assert!(
        error
            .to_string()
            .contains("/a` changed since it was indexed: index has size 9"),
        "{error}"
    );
}

#[test]
fn a_file_replaced_by_rename_keeps_its_old_bytes_or_is_stale() {
    let folder = tempfile::tempdir().unwrap();
    let segment = segment(folder.path(), "a", b"old bytes");
    std::fs::write(folder.path().join("b"), b"new bytes").unwrap();
    let origin = PosixOrigin::new(folder.path().into());
    origin.read_at(segment, 0, &mut [0; 9]).unwrap();
    std::fs::rename(folder.path().join("b"), folder.path().join("a")).unwrap();
    let mut out = [0; 9];
    origin.read_at(segment, 0, &mut out).unwrap();
    assert_eq!(
        &out, b"old bytes",
        "the open handle is still the indexed version"
    );
    let fresh = PosixOrigin::new(folder.path().into());
    assert!(matches!(
        fresh.read_at(segment, 0, &mut out),
        Err(OriginError::Stale { .. })
    ));
}

#[test]
fn a_missing_file_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let segment = segment(folder.path(), "a", b"bytes");
    std::fs::remove_file(folder.path().join("a")).unwrap();
    let error = PosixOrigin::new(folder.path().into())
        .read_at(segment, 0, &mut [0; 5])
        .unwrap_err();
    assert_eq!(error.kind(), forebay_dataset::ErrorKind::NotFound);
}

#[test]
fn many_files_do_not_exhaust_the_handles() {
    let folder = tempfile::tempdir().unwrap();
    let origin = PosixOrigin::new(folder.path().into());
    for i in 0..OPEN_FILES as u32 + 50 {
        let name: &'static str = Box::leak(format!("f{i}").into_boxed_str());
        let mut segment = segment(folder.path(), name, &i.to_le_bytes());
        segment.index = SegmentIndex(i);
        let mut out = [0; 4];
        origin.read_at(segment, 0, &mut out).unwrap();
        assert_eq!(out, i.to_le_bytes());
    }
    assert!(origin.open.read().unwrap().len() <= OPEN_FILES);
}
