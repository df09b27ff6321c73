//! What a reader does with whatever its daemon says.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use forebay_client::{ClientError, Dataset, FileRange, OpenOptions, status};
use forebay_dataset::index::{FieldExtent, FieldSpec, IndexBuilder, Storage};
use forebay_dataset::{BlockSize, ErrorKind, SegmentIndex};
use forebay_origin::fingerprint_of;
use forebay_residency::{HandedMemory, NodePaths};
use forebay_wire::{HandedRange, Reply, Request, read_frame};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

const SAMPLES: u64 = 5;
const FIELD: u64 = 100;
/// Every byte that the daemon of these tests hands over.
const HANDED: u8 = 7;
const MEMORY: u64 = 8192;

/// Samples of two fields that lie side by side in one file, and a cache folder.
struct World {
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..2 * FIELD * SAMPLES)
            .map(|at| (at % 251) as u8)
            .collect();
        let path = folder.path().join("data.bin");
        std::fs::write(&path, &bytes).unwrap();
        let field = |name: &str| FieldSpec {
            name: name.into(),
            dtype: "|u1".parse().unwrap(),
        };
        let block = BlockSize::new(4096).unwrap();
        let fields = vec![field("a"), field("b")];
        let root = folder.path().to_str().unwrap();
        let mut builder = IndexBuilder::new(root, fields, block).unwrap();
        let fingerprint = fingerprint_of(&File::open(&path).unwrap()).unwrap();
        let segment = builder.add_segment("data.bin", fingerprint).unwrap();
        for sample in 0..SAMPLES {
            let extent = |field: u64| FieldExtent {
                segment,
                shape: vec![FIELD],
                storage: Storage::Contiguous {
                    offset: (2 * sample + field) * FIELD,
                },
            };
            let added = builder.add_sample(None, &[extent(0), extent(1)], None);
            added.unwrap();
        }
        let mut out = File::create(folder.path().join("x.forebay")).unwrap();
        builder.write(&mut out).unwrap();
        Self { folder, bytes }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn open(&self, deadline: Duration) -> (Dataset, Option<String>) {
        let options = OpenOptions {
            cache: Some(self.cache()),
            deadline,
            ..OpenOptions::default()
        };
        Dataset::open(&self.folder.path().join("x.forebay"), options).unwrap()
    }

    /// Reads a sample and compares it.
    fn read(&self, dataset: &Dataset, sample: u64) -> Result<(), ClientError> {
        let mut out = vec![0xAA; dataset.sample_bytes(sample).unwrap() as usize];
        dataset.read_into(sample, &mut out)?;
        for (place, field) in dataset.places(sample).unwrap().iter().zip(0..) {
            let wanted = &self.bytes[((2 * sample + field) * FIELD) as usize..][..FIELD as usize];
            assert_eq!(&out[place.offset as usize..][..place.len as usize], wanted);
        }
        Ok(())
    }
}

/// What a daemon of these tests says to a request; `None` hangs up.
type Answer = fn(&Request) -> Option<Reply>;

fn opened() -> Option<Reply> {
    Some(Reply::Opened { dataset: 0 })
}

/// Listens in the cache folder; the receiver gets every request.
fn serve(cache: &Path, answer: Answer) -> Receiver<Request> {
    let paths = NodePaths::new(cache.to_path_buf());
    paths.create_folder().unwrap();
    let listener = paths.listen().unwrap();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, sender) = (stream.unwrap(), sender.clone());
            std::thread::spawn(move || {
                talk(stream, answer, |request| drop(sender.send(request)));
            });
        }
    });
    requests
}

fn talk(mut stream: UnixStream, answer: Answer, tell: impl Fn(Request)) {
    let memory = HandedMemory::new(MEMORY).unwrap();
    memory.take(MEMORY as usize).unwrap().fill(HANDED);
    let mut payload = Vec::new();
    while let Ok(Some(kind)) = read_frame(&mut stream, &mut payload) {
        let request = Request::decode(kind, &payload).unwrap();
        let reply = answer(&request);
        tell(request);
        let Some(reply) = reply else { return };
        let said = reply.encode();
        let sent = match reply {
            Reply::Memory { .. } => send_with(&stream, &said, memory.file()),
            _ => stream.write_all(&said),
        };
        if sent.is_err() {
            return;
        }
    }
}

fn send_with(stream: &UnixStream, frame: &[u8], file: &File) -> io::Result<()> {
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    with.push(SendAncillaryMessage::ScmRights(&files));
    let sent = sendmsg(
        stream,
        &[IoSlice::new(frame)],
        &mut with,
        SendFlags::NOSIGNAL,
    )?;
    assert_eq!(sent, frame.len());
    Ok(())
}

fn memory() -> Option<Reply> {
    Some(Reply::Memory { len: MEMORY })
}

/// All is staged, and these parts of the memory are handed over.
fn handed(parts: &[(u32, u32)]) -> Option<Reply> {
    let range = |(start, len): &(u32, u32)| HandedRange {
        start: *start,
        len: *len,
    };
    Some(Reply::Staged {
        complete: true,
        peer_bytes: 0,
        handed: parts.iter().map(range).collect(),
    })
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn without_a_daemon_the_origin_is_read() {
    let world = World::new();
    let (dataset, warning) = world.open(LONG);
    assert!(warning.unwrap().contains("none is running"));
    for sample in 0..SAMPLES {
        world.read(&dataset, sample).unwrap();
    }
    assert!(!world.cache().exists(), "nothing is left behind");
}

#[test]
fn a_batch_asks_once_for_all_that_is_absent() {
    let world = World::new();
    let requests = serve(&world.cache(), |request| match request {
        Request::Open { .. } => opened(),
        _ => Some(Reply::Staged {
            complete: false,
            peer_bytes: 0,
            handed: Vec::new(),
        }),
    });
    let (dataset, warning) = world.open(LONG);
    assert_eq!(warning, None);
    let (bases, len) = dataset.batch_layout(&[3, 0, 3]).unwrap();
    let mut out = vec![0; len];
    dataset.read_many(&bases, &mut out).unwrap();
    for (sample, base) in bases {
        let wanted = &world.bytes[(2 * sample * FIELD) as usize..][..FIELD as usize];
        assert_eq!(&out[base..][..FIELD as usize], wanted);
    }
    let told: Vec<_> = requests.try_iter().collect();
    let [
        Request::Open { .. },
        Request::Memory,
        Request::Stage { ranges, .. },
    ] = told.as_slice()
    else {
        panic!("{told:?}");
    };
    assert_eq!(ranges.len(), 6, "every range of the batch in one request");
}

#[test]
fn bytes_that_are_handed_over_are_taken_as_they_are() {
    let world = World::new();
    let requests = serve(&world.cache(), |request| match request {
        Request::Open { .. } => opened(),
        Request::Memory => memory(),
        // However they are cut up.
        _ => handed(&[(0, 30), (4000, 100), (10, 70)]),
    });
    let (dataset, _) = world.open(LONG);
    for sample in [3, 1] {
        let mut out = vec![0; dataset.sample_bytes(sample).unwrap() as usize];
        dataset.read_into(sample, &mut out).unwrap();
        for place in dataset.places(sample).unwrap() {
            let field = &out[place.offset as usize..][..place.len as usize];
            assert_eq!(field, [HANDED; FIELD as usize]);
        }
    }
    let told: Vec<_> = requests.try_iter().collect();
    let asked = |request: &&Request| {
        matches!(
            request,
            Request::Stage {
                takes_bytes: true,
                ..
            }
        )
    };
    assert_eq!(told.iter().filter(asked).count(), 2);
    let shared = told.iter().filter(|request| **request == Request::Memory);
    assert_eq!(shared.count(), 1, "a connection has its memory once");
}

#[test]
fn other_bytes_than_were_asked_for_are_not_taken() {
    let few: Answer = |request| match request {
        Request::Open { .. } => opened(),
        Request::Memory => memory(),
        _ => handed(&[(0, FIELD as u32)]),
    };
    let many: Answer = |request| match request {
        Request::Open { .. } => opened(),
        Request::Memory => memory(),
        _ => handed(&[(0, 3 * FIELD as u32)]),
    };
    let outside: Answer = |request| match request {
        Request::Open { .. } => opened(),
        Request::Memory => memory(),
        _ => handed(&[(MEMORY as u32 - 1, 2 * FIELD as u32)]),
    };
    for lies in [few, many, outside] {
        let world = World::new();
        let _requests = serve(&world.cache(), lies);
        let (dataset, _) = world.open(LONG);
        world.read(&dataset, 3).unwrap();
        // Who stages takes no bytes, whatever the daemon says.
        let _ = dataset.stage(&[2]).unwrap();
        world.read(&dataset, 2).unwrap();
    }
}

#[test]
fn a_daemon_without_memory_to_share_is_read_from_its_files() {
    let refuses: Answer = |request| match request {
        Request::Open { .. } => opened(),
        Request::Memory => Some(Reply::Failed {
            kind: 0,
            message: "too many share memory".to_owned(),
        }),
        _ => handed(&[]),
    };
    let world = World::new();
    let requests = serve(&world.cache(), refuses);
    let (dataset, _) = world.open(LONG);
    world.read(&dataset, 3).unwrap();
    world.read(&dataset, 4).unwrap();
    let told: Vec<_> = requests.try_iter().collect();
    let takes = |request: &&Request| {
        matches!(
            request,
            Request::Stage {
                takes_bytes: true,
                ..
            }
        )
    };
    assert_eq!(told.iter().filter(takes).count(), 0);
    let asked = told.iter().filter(|request| **request == Request::Memory);
    assert_eq!(asked.count(), 1, "it is asked once");
}

#[test]
fn files_are_read_as_files_and_their_ranges_are_asked_for_once() {
    let world = World::new();
    let requests = serve(&world.cache(), |request| match request {
        Request::Open { .. } => opened(),
        _ => Some(Reply::Staged {
            complete: false,
            peer_bytes: 0,
            handed: Vec::new(),
        }),
    });
    let (dataset, _) = world.open(LONG);
    let size = world.bytes.len() as u64;
    let file = SegmentIndex(0);
    let range = |offset, len| FileRange { file, offset, len };
    let ranges = [range(0, 10), range(size - 5, 100), range(size, 7)];
    assert!(!dataset.stage_files(&ranges).unwrap());
    let told: Vec<_> = requests.try_iter().collect();
    let [Request::Open { .. }, Request::Stage { ranges, .. }] = told.as_slice() else {
        panic!("{told:?}");
    };
    let asked: Vec<_> = ranges
        .iter()
        .map(|range| (range.start, range.len))
        .collect();
    assert_eq!(asked, [(0, 10), (size - 5, 5)]);
    let mut out = [0xAA; 64];
    for (offset, wanted) in [
        (0, 64),
        (size - 64, 64),
        (size - 5, 5),
        (size, 0),
        (1 << 60, 0),
    ] {
        assert_eq!(dataset.read_file(file, offset, &mut out).unwrap(), wanted);
        let at = offset.min(size) as usize;
        assert_eq!(out[..wanted], world.bytes[at..][..wanted]);
    }
    assert_eq!(dataset.read_resident_file(file, 0, &mut out).unwrap(), None);
    assert!(dataset.hold_file(file).unwrap().is_none());
}

#[test]
fn a_daemon_that_is_never_done_costs_the_deadline_and_the_error_names_the_bytes() {
    let world = World::new();
    let _requests = serve(&world.cache(), |request| match request {
        Request::Open { .. } => opened(),
        Request::Ping => Some(Reply::Done),
        _ => {
            std::thread::sleep(LONG);
            None
        }
    });
    let (dataset, _) = world.open(Duration::from_millis(300));
    let error = world.read(&dataset, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert_eq!(
        error.to_string(),
        "bytes [200, 300) of `data.bin` did not become resident within 0.3 s"
    );
}

#[test]
fn a_deadline_that_the_daemon_reports_names_the_bytes_too() {
    let world = World::new();
    let _requests = serve(&world.cache(), |request| match request {
        Request::Open { .. } => opened(),
        _ => failed(ErrorKind::Deadline),
    });
    let error = world.read(&world.open(LONG).0, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert!(error.to_string().contains("of `data.bin`"), "{error}");
}

fn failed(kind: ErrorKind) -> Option<Reply> {
    let kind = ErrorKind::ALL.iter().position(|known| *known == kind);
    Some(Reply::Failed {
        kind: kind.unwrap() as u8,
        message: "the daemon's own words".into(),
    })
}

#[test]
fn what_the_daemon_cannot_read_the_reader_tries_itself() {
    let world = World::new();
    let _requests = serve(&world.cache(), |request| match request {
        Request::Open { .. } => opened(),
        _ => failed(ErrorKind::NotFound),
    });
    world.read(&world.open(LONG).0, 4).unwrap();
}

#[test]
fn a_stale_origin_is_not_read_around_the_daemon() {
    let world = World::new();
    let _requests = serve(&world.cache(), |request| match request {
        Request::Open { .. } => opened(),
        _ => failed(ErrorKind::Stale),
    });
    let error = world.read(&world.open(LONG).0, 4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale);
    assert_eq!(error.to_string(), "the daemon's own words");
}

#[test]
fn a_daemon_that_lies_about_what_is_resident_is_not_believed() {
    let world = World::new();
    let requests = serve(&world.cache(), |request| match request {
        Request::Open { .. } => opened(),
        _ => Some(Reply::Staged {
            complete: true,
            peer_bytes: 0,
            handed: Vec::new(),
        }),
    });
    world.read(&world.open(LONG).0, 2).unwrap();
    let staged = |request: &Request| matches!(request, Request::Stage { .. });
    let asked = requests.try_iter().filter(staged).count();
    assert!(asked <= 3, "and is not asked for ever: {asked}");
}

#[test]
fn an_answer_to_another_question_is_no_answer() {
    let world = World::new();
    let _requests = serve(&world.cache(), |_| Some(Reply::Status("{}".into())));
    let (dataset, warning) = world.open(LONG);
    assert!(warning.unwrap().contains("another question"));
    world.read(&dataset, 0).unwrap();
    assert_eq!(status(&world.cache(), LONG).unwrap(), "{}");
}

#[test]
fn a_connection_that_broke_is_replaced_and_the_data_set_opened_again() {
    let world = World::new();
    // Hangs up after the first request of each connection that is not to open: the first link and
    // two new ones.
    let requests = serve(&world.cache(), |request| match request {
        Request::Open { .. } => opened(),
        _ => None,
    });
    let (dataset, _) = world.open(LONG);
    world.read(&dataset, 0).unwrap();
    let told: Vec<_> = requests.try_iter().collect();
    let opens = told
        .iter()
        .filter(|told| matches!(told, Request::Open { .. }));
    assert_eq!((opens.count(), told.len()), (3, 6), "{told:?}");
    // It is left alone for a while then.
    world.read(&dataset, 1).unwrap();
    assert_eq!(requests.try_iter().count(), 0);
}

#[test]
fn a_buffer_that_is_too_small_is_refused_before_anything_is_written() {
    let world = World::new();
    let (dataset, _) = world.open(LONG);
    let wanted = dataset.sample_bytes(0).unwrap() as usize;
    let mut out = vec![0xAA; wanted - 1];
    let error = dataset.read_into(0, &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(out.iter().all(|byte| *byte == 0xAA));
    let error = dataset.read_many(&[(0, usize::MAX)], &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = dataset.read_into(SAMPLES, &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_daemon_that_has_stopped_is_given_up_long_before_the_deadline() {
    let world = World::new();
    let paths = NodePaths::new(world.cache());
    paths.create_folder().unwrap();
    // It listens and takes nothing up, as a process does that was sent SIGSTOP.
    let _listener = paths.listen().unwrap();
    let begun = std::time::Instant::now();
    let (dataset, warning) = world.open(Duration::from_secs(600));
    let warning = warning.unwrap();
    assert!(warning.contains("does not answer"), "{warning}");
    for sample in 0..SAMPLES {
        world.read(&dataset, sample).unwrap();
    }
    assert!(
        begun.elapsed() < Duration::from_secs(300),
        "it was waited for"
    );
}

#[test]
fn a_daemon_that_is_only_slow_is_waited_for() {
    let world = World::new();
    let asked = serve(&world.cache(), |request| match request {
        Request::Open { .. } => opened(),
        Request::Stage { .. } => {
            std::thread::sleep(Duration::from_millis(6500));
            Some(Reply::Staged {
                complete: false,
                peer_bytes: 0,
                handed: Vec::new(),
            })
        }
        _ => Some(Reply::Done),
    });
    let (dataset, warning) = world.open(LONG);
    assert_eq!(warning, None);
    world.read(&dataset, 1).unwrap();
    let asked: Vec<Request> = asked.try_iter().collect();
    let count = |is: fn(&Request) -> bool| asked.iter().filter(|one| is(one)).count();
    assert!(count(|one| matches!(one, Request::Ping)) >= 1, "{asked:?}");
    assert_eq!(count(|one| matches!(one, Request::Stage { .. })), 1);
}
