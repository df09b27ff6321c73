//! Memory read over real fabrics: between ends of this process, by the providers that need no device.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_libfabric::{
    Address, Label, Lender, LentMemory, Libfabric, LoadError, OpenError, ReadError, Reader, Slot,
    TrafficClass, Way,
};

/// Nothing here takes this long; it ends a test that would hang.
const PATIENCE: Duration = Duration::from_secs(30);
const PART: usize = 1 << 20;
const PROVIDERS: [&str; 2] = ["tcp", "shm"];

/// The library, or `None` where it is not installed.
fn installed() -> Option<Libfabric> {
    match Libfabric::installed() {
        Ok(library) => Some(library),
        Err(LoadError::NotFound { .. }) => {
            eprintln!("skipped: libfabric is not installed (libfabric1)");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn way(provider: &str) -> Way {
    Way {
        provider: provider.to_owned(),
        class: None,
        source: Some("127.0.0.1".to_owned()),
    }
}

fn byte(at: usize) -> u8 {
    ((at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8
}

/// Memory of two parts with bytes that tell where they are.
fn lender(library: &Libfabric, provider: &str) -> (Lender, Vec<Slot>) {
    let (lender, mut slots) = Lender::open(library, &way(provider), 2, PART).unwrap();
    for slot in &mut slots {
        let offset = slot.offset();
        let bytes = slot.bytes_mut().iter_mut().enumerate();
        bytes.for_each(|(at, out)| *out = byte(offset + at));
    }
    (lender, slots)
}

/// Runs `read` while a lender answers.
fn while_lent<T: Send>(mut lender: Lender, read: impl FnOnce(&LentMemory) -> T + Send) -> T {
    let memory = lender.memory().clone();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(&memory)));
            done.store(true, Ordering::Release);
            read.unwrap()
        });
        while !done.load(Ordering::Acquire) {
            lender.progress(Duration::from_millis(5)).unwrap();
        }
        reading.join().unwrap()
    })
}

fn read<'a>(
    reader: &'a mut Reader,
    memory: &LentMemory,
    offset: usize,
    len: usize,
) -> Result<&'a [u8], ReadError> {
    let peer = reader.add(&memory.address)?;
    let place = (memory.base + offset as u64, memory.key);
    reader.read(peer, place, len, Instant::now() + PATIENCE, &|| true)
}

#[test]
fn bytes_of_another_are_read_exactly() {
    let Some(library) = installed() else { return };
    for provider in PROVIDERS {
        let (lender, _slots) = lender(&library, provider);
        while_lent(lender, |memory| {
            let mut reader = Reader::open(&library, &way(provider), PART).unwrap();
            for (offset, len) in [(0, 1), (5, 100), (PART - 7, PART), (4096, 292_864)] {
                let bytes = read(&mut reader, memory, offset, len).unwrap();
                let wanted = (offset..offset + len).map(byte);
                assert!(
                    bytes.iter().copied().eq(wanted),
                    "{provider}: [{offset}; {len})"
                );
            }
            let most = read(&mut reader, memory, 0, PART + 1).unwrap_err();
            assert!(
                matches!(most, ReadError::TooLong { .. }),
                "{provider}: {most}"
            );
        });
    }
}

#[test]
fn several_readers_read_several_lenders_at_one_time() {
    let Some(library) = installed() else { return };
    for provider in PROVIDERS {
        let (first, _first) = lender(&library, provider);
        let (second, _second) = lender(&library, provider);
        while_lent(first, |first| {
            while_lent(second, |second| {
                std::thread::scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(|| {
                            let mut reader = Reader::open(&library, &way(provider), PART).unwrap();
                            for turn in 0..20 {
                                let of = if turn % 2 == 0 { first } else { second };
                                let offset = turn * 1000;
                                let bytes = read(&mut reader, of, offset, 200_000).unwrap();
                                assert!(
                                    bytes
                                        .iter()
                                        .copied()
                                        .eq((offset..offset + 200_000).map(byte))
                                );
                            }
                        });
                    }
                });
            });
        });
    }
}

#[test]
fn a_class_is_requested_of_the_provider() {
    let Some(library) = installed() else { return };
    for provider in PROVIDERS {
        for class in [TrafficClass::Label(Label::BulkData), TrafficClass::Dscp(10)] {
            let way = Way {
                class: Some(class),
                ..way(provider)
            };
            let (lender, _slots) = Lender::open(&library, &way, 1, PART).unwrap();
            assert_eq!(lender.requested_class(), Some(class), "{provider}");
            let reader = Reader::open(&library, &way, PART).unwrap();
            assert_eq!(reader.requested_class(), Some(class), "{provider}");
        }
        let none = Reader::open(&library, &way(provider), PART).unwrap();
        assert_eq!(none.requested_class(), None, "{provider}");
    }
}

#[test]
fn a_lender_that_is_gone_ends_a_read_by_its_deadline() {
    let Some(library) = installed() else { return };
    // Not over shm: it reads whatever this process has at that place by now.
    let (lender, slots) = lender(&library, "tcp");
    let memory = lender.memory().clone();
    drop((lender, slots));
    let mut reader = Reader::open(&library, &way("tcp"), PART).unwrap();
    let peer = reader.add(&memory.address).unwrap();
    let place = (memory.base, memory.key);
    let soon = Instant::now() + Duration::from_millis(300);
    let ended = reader.read(peer, place, PART, soon, &|| true);
    assert!(ended.is_err(), "nobody is there");
}

#[test]
fn a_read_that_is_given_up_leaves_its_buffer_to_nobody() {
    let Some(library) = installed() else { return };
    // Nobody lets the provider of the lender work, so that the read cannot end.
    let (lender, _slots) = lender(&library, "tcp");
    let memory = lender.memory().clone();
    let mut reader = Reader::open(&library, &way("tcp"), PART).unwrap();
    let peer = reader.add(&memory.address).unwrap();
    let place = (memory.base, memory.key);
    let soon = Instant::now() + Duration::from_millis(200);
    let late = reader.read(peer, place, PART, soon, &|| true).unwrap_err();
    assert!(
        matches!(late, ReadError::Late | ReadError::Failed { .. }),
        "{late}"
    );
    if late == ReadError::Late {
        let later = Instant::now() + PATIENCE;
        let given_up = reader
            .read(peer, place, PART, later, &|| false)
            .unwrap_err();
        // One that could not even be begun leaves the buffer as it is.
        let is_refused = matches!(given_up, ReadError::Spent | ReadError::GivenUp);
        assert!(is_refused, "{given_up}");
    }
}

#[test]
fn memory_is_read_by_its_key_and_within_its_bounds() {
    let Some(library) = installed() else { return };
    let (lender, _slots) = lender(&library, "tcp");
    while_lent(lender, |memory| {
        let hostile = [
            (memory.base, memory.key.wrapping_add(77)),
            (memory.base + 2 * PART as u64, memory.key),
            (memory.base + 2 * PART as u64 - 100, memory.key),
            (u64::MAX - 1, memory.key),
        ];
        for place in hostile {
            let mut reader = Reader::open(&library, &way("tcp"), PART).unwrap();
            let peer = reader.add(&memory.address).unwrap();
            let soon = Instant::now() + Duration::from_millis(300);
            let read = reader.read(peer, place, 4096, soon, &|| true);
            assert!(read.is_err(), "{place:?} gave bytes");
        }
        // The lender is none the worse.
        let mut reader = Reader::open(&library, &way("tcp"), PART).unwrap();
        assert_eq!(read(&mut reader, memory, 9, 1).unwrap(), [byte(9)]);
    });
}

#[test]
fn an_address_of_another_kind_is_refused_before_the_provider_sees_it() {
    let Some(library) = installed() else { return };
    let (of_shm, _slots) = lender(&library, "shm");
    let mut reader = Reader::open(&library, &way("tcp"), PART).unwrap();
    let other = of_shm.memory().address.clone();
    assert!(matches!(reader.add(&other), Err(ReadError::Address { .. })));
    let (of_tcp, _slots) = lender(&library, "tcp");
    let mut short = of_tcp.memory().address.clone();
    short.bytes.truncate(7);
    assert!(matches!(reader.add(&short), Err(ReadError::Address { .. })));
    let none = Address {
        format: short.format,
        bytes: Vec::new(),
    };
    assert!(matches!(reader.add(&none), Err(ReadError::Address { .. })));
    assert!(reader.add(&of_tcp.memory().address).is_ok());
}

#[test]
fn a_provider_or_a_host_that_is_not_there_is_refused_in_words() {
    let Some(library) = installed() else { return };
    let none = Reader::open(&library, &way("forebay-none"), PART).unwrap_err();
    assert!(matches!(none, OpenError::Query(_)), "{none}");
    assert!(
        none.to_string()
            .starts_with("provider `forebay-none` refuses: "),
        "{none}"
    );
    let nowhere = Way {
        // An address of documentation: no machine has it.
        source: Some("192.0.2.77".to_owned()),
        ..way("tcp")
    };
    let error = Reader::open(&library, &nowhere, PART).unwrap_err();
    assert!(error.to_string().starts_with("provider `tcp"), "{error}");
}
