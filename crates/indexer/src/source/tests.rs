use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// One object in memory that notes which ranges it is asked for.
#[derive(Debug)]
struct OneObject {
    bytes: Vec<u8>,
    asked: Mutex<Vec<(u64, usize)>>,
    replaced: AtomicBool,
}

impl Objects for OneObject {
    fn read_at(
        &self,
        key: &str,
        fingerprint: Fingerprint,
        offset: u64,
        out: &mut [u8],
    ) -> std::result::Result<(), OriginError> {
        if self.replaced.load(Ordering::SeqCst) {
            return Err(OriginError::StaleObject {
                url: key.to_owned(),
                indexed: fingerprint,
                found: fingerprint,
            });
        }
        self.asked.lock().unwrap().push((offset, out.len()));
        out.copy_from_slice(&self.bytes[offset as usize..][..out.len()]);
        Ok(())
    }

    fn stat(&self, _: &str) -> std::result::Result<Fingerprint, OriginError> {
        unreachable!("the listing has said it")
    }

    fn list(
        &self,
        _: &str,
        _: &mut dyn FnMut(&str, Fingerprint),
    ) -> std::result::Result<(), OriginError> {
        unreachable!("nobody lists here")
    }
}

fn object(len: usize) -> (Arc<OneObject>, Source) {
    let objects = Arc::new(OneObject {
        bytes: (0..len).map(|at| (at * 31 % 251) as u8).collect(),
        asked: Mutex::default(),
        replaced: AtomicBool::new(false),
    });
    let input = InputFile {
        path: "s3://b/x".into(),
        name: "x".to_owned(),
        superblock: None,
        swmr: false,
        decode: false,
        listed: None,
        object: Some(InputObject {
            objects: objects.clone(),
            key: "x".to_owned(),
            fingerprint: Fingerprint::of_object(len as u64, Some("v"), None).unwrap(),
        }),
    };
    (objects, Source::open(&input).unwrap())
}

#[test]
fn small_reads_share_requests_and_are_exact() {
    let len = 3 * PAGE as usize + 17;
    let (objects, source) = object(len);
    for at in (0..len).step_by(1000).chain([len - 1]) {
        let mut out = vec![0; 1000.min(len - at)];
        source.read_exact_at(&mut out, at as u64).unwrap();
        assert_eq!(out, objects.bytes[at..at + out.len()], "at {at}");
    }
    // One page, then the two after it, then the rest.
    let page = PAGE as usize;
    let wanted = [(0, page), (PAGE, 2 * page), (3 * PAGE, 17)];
    assert_eq!(*objects.asked.lock().unwrap(), wanted);
    let past = source
        .read_exact_at(&mut [0; 2], len as u64 - 1)
        .unwrap_err();
    assert_eq!(past.kind(), io::ErrorKind::UnexpectedEof);
    assert!(source.read_exact_at(&mut [0; 2], u64::MAX).is_err());
}

#[test]
fn scattered_reads_bring_a_page_each_and_memory_stays_bounded() {
    let (objects, source) = object(200 * PAGE as usize);
    for page in (0..200).rev() {
        source.read_exact_at(&mut [0; 8], page * PAGE + 5).unwrap();
    }
    let asked = objects.asked.lock().unwrap();
    assert_eq!(asked.len(), 200);
    assert!(asked.iter().all(|(_, len)| *len == PAGE as usize));
    let Source::Object(object) = &source else {
        unreachable!("an object was opened")
    };
    assert_eq!(object.state().pages.len(), PAGES);
    assert_eq!(object.state().order.len(), PAGES);
}

#[test]
fn a_large_read_is_one_request() {
    let (objects, source) = object(6 << 20);
    let mut out = vec![0; 5 << 20];
    source.read_exact_at(&mut out, 100).unwrap();
    assert_eq!(out, objects.bytes[100..100 + out.len()]);
    assert_eq!(*objects.asked.lock().unwrap(), [(100, out.len())]);
}

#[test]
fn a_replaced_object_is_stale_and_not_damaged() {
    let (objects, source) = object(100);
    let before = source.fingerprint().unwrap();
    source.read_exact_at(&mut [0; 4], 0).unwrap();
    assert!(source.check_unchanged(Path::new("x"), before).is_ok());
    objects.replaced.store(true, Ordering::SeqCst);
    source.read_exact_at(&mut [0; 4], 0).unwrap();
    let (objects, source) = object(100);
    objects.replaced.store(true, Ordering::SeqCst);
    assert!(source.read_exact_at(&mut [0; 4], 0).is_err());
    let error = source
        .check_unchanged(Path::new("s3://b/x"), before)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale);
}
