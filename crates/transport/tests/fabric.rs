//! Blocks that are lent over a fabric: one end is a caller, the other the test itself.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::{Kept, PATIENCE, eventually, fetch, heard, is_down, listen, plan, proved, reach};
use forebay_transport::{
    Caller, CallerPlan, Fabric, FabricError, FabricPlan, LinkReader, LinkWriter, Loans, Outcome,
};
use forebay_wire::{Answer, Ask, FabricMemory, MAX_LENT};

/// Reads of a machine that is busy with other tests must not be late.
const SILENCE: Duration = Duration::from_secs(20);

fn fabric_of(provider: &str) -> Option<Arc<Fabric>> {
    let plan = FabricPlan {
        providers: vec![provider.to_owned()],
        dscp: Some(10),
        source: Some("127.0.0.1".to_owned()),
        ..FabricPlan::default()
    };
    match Fabric::open(&plan) {
        Ok(fabric) => Some(fabric),
        Err(FabricError::Load(error)) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn caller(address: String, fabric: &Arc<Fabric>, silence: Duration) -> Caller {
    let fabric = Some(fabric.clone());
    let plan = CallerPlan {
        silence,
        fabric,
        ..plan(address)
    };
    Caller::start(plan).unwrap()
}

/// Answers the ask for this side's memory, which comes first.
fn tell(reader: &mut LinkReader, writer: &LinkWriter, memory: &FabricMemory) {
    match heard(reader) {
        Some(Ask::Fabric { id, .. }) => {
            let memory = memory.clone();
            let told = Answer::Fabric { id, memory };
            writer.send(&told.encode()).unwrap();
        }
        other => panic!("{other:?}"),
    }
}

fn bytes_of(first: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at * 7 + first) as u8).collect()
}

fn lent(id: u64, loan: u64, offset: u64, first: u64, body_len: u32) -> Vec<u8> {
    let lent = Answer::Lent {
        id,
        loan,
        offset,
        shard: 0,
        first,
        body_len,
        checksums: vec![0],
    };
    lent.encode()
}

fn end(writer: &LinkWriter, id: u64) {
    let complete = true;
    let ended = Answer::Ended { id, complete };
    writer.send(&ended.encode()).unwrap();
}

/// Lends to each ask the bytes of its first block until the link ends; counts what comes back.
fn lend_all(reader: &mut LinkReader, writer: &LinkWriter, loans: &Loans, len: usize) -> u64 {
    let mut returned = 0;
    while let Some(ask) = heard(reader) {
        match ask {
            Ask::Fetch { id, runs, .. } => {
                let first = runs[0].first;
                let fill = |out: &mut [u8]| {
                    out.copy_from_slice(&bytes_of(first, len));
                    Ok(())
                };
                let loan = loans.lend(len, fill).unwrap().expect("there is room");
                let frame = lent(id, loan.number, loan.offset, first, len as u32);
                writer.send(&frame).unwrap();
                end(writer, id);
            }
            Ask::Return { loan } => {
                loans.give_back(loan);
                returned += 1;
            }
            Ask::Ping { id } => writer.send(&Answer::Pong { id }.encode()).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    returned
}

#[test]
fn blocks_are_lent_read_and_given_back() {
    const ASKS: u64 = 60;
    for (provider, name) in [("tcp", "tcp"), ("shm", "shm")] {
        let (Some(ours), Some(theirs)) = (fabric_of(provider), fabric_of(provider)) else {
            return;
        };
        assert!(ours.provider().starts_with(name));
        assert_eq!(ours.requested_class().unwrap().to_string(), "dscp 10");
        let (listening, address) = listen();
        std::thread::scope(|scope| {
            let owner = scope.spawn(|| {
                let (_, mut reader, writer) = proved(&listening);
                tell(
                    &mut reader,
                    &writer,
                    theirs.memory(ours.provider()).unwrap(),
                );
                let loans = Loans::new(theirs.clone());
                lend_all(&mut reader, &writer, &loans, 300_000)
            });
            let caller = caller(address, &ours, SILENCE);
            reach(&caller);
            eventually("it may lend", || caller.may_lend());
            let (done, ends) = mpsc::channel();
            // More than there is room for at one time: each must come back before the next few.
            for first in 0..ASKS {
                let kept = Arc::new(Kept::default());
                let call = caller.call(|id| fetch(id, first), Some(kept.clone()), &done);
                let ended = ends.recv_timeout(PATIENCE).unwrap();
                assert_eq!(ended.outcome, Outcome::Done { complete: true });
                assert_eq!(*kept.0.lock().unwrap(), [(first, bytes_of(first, 300_000))]);
                drop(call);
            }
            let state = caller.fabric();
            assert_eq!(
                (state.bytes, state.failures),
                (ASKS * 300_000, 0),
                "{state:?}"
            );
            assert_eq!(caller.received_bytes(), ASKS * 300_000);
            drop(caller);
            assert_eq!(owner.join().unwrap(), ASKS);
        });
        assert_eq!(theirs.lent_bytes(), ASKS * 300_000);
    }
}

#[test]
fn what_cannot_be_read_is_asked_for_again_and_the_fabric_left_alone() {
    let (Some(ours), Some(theirs)) = (fabric_of("tcp"), fabric_of("tcp")) else {
        return;
    };
    let mut memory = theirs.memory(ours.provider()).unwrap().clone();
    // An owner that was killed: nobody answers at its address.
    theirs.close();
    memory.len = u64::MAX - memory.base;
    let (listening, address) = listen();
    std::thread::scope(|scope| {
        let owner = scope.spawn(|| {
            let (_, mut reader, writer) = proved(&listening);
            tell(&mut reader, &writer, &memory);
            let mut returned = Vec::new();
            while let Some(ask) = heard(&mut reader) {
                match ask {
                    Ask::Fetch { id, .. } => {
                        writer.send(&lent(id, 70 + id, 0, 0, 5000)).unwrap();
                        end(&writer, id);
                    }
                    Ask::Return { loan } => returned.push(loan),
                    Ask::Ping { id } => writer.send(&Answer::Pong { id }.encode()).unwrap(),
                    other => panic!("{other:?}"),
                }
            }
            returned
        });
        let caller = caller(address, &ours, Duration::from_secs(2));
        reach(&caller);
        eventually("it may lend", || caller.may_lend());
        let (done, ends) = mpsc::channel();
        let kept = Arc::new(Kept::default());
        let call = caller
            .call(|id| fetch(id, 0), Some(kept.clone()), &done)
            .unwrap();
        let ended = ends.recv_timeout(PATIENCE).unwrap();
        assert_eq!(ended.outcome, Outcome::Again);
        assert!(kept.0.lock().unwrap().is_empty(), "no byte came");
        assert!(!caller.may_lend(), "it is left alone");
        let state = caller.fabric();
        assert_eq!((state.failures, state.bytes), (1, 0));
        assert!(state.reason.is_some_and(|reason| reason.contains("fabric")));
        // What was lent before that was known is not tried any more.
        let late = caller.call(|id| fetch(id, 0), Some(kept), &done).unwrap();
        assert_eq!(ends.recv_timeout(PATIENCE).unwrap().outcome, Outcome::Again);
        assert_eq!(caller.fabric().failures, 1);
        let ids = [70 + call.id(), 70 + late.id()];
        drop(caller);
        assert_eq!(owner.join().unwrap(), ids, "both were given back");
    });
}

#[test]
fn a_given_up_ask_is_not_read_and_gives_back_what_was_lent() {
    let (Some(ours), Some(theirs)) = (fabric_of("tcp"), fabric_of("tcp")) else {
        return;
    };
    let (listening, address) = listen();
    let is_given_up = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let owner = scope.spawn(|| {
            let (_, mut reader, writer) = proved(&listening);
            tell(
                &mut reader,
                &writer,
                theirs.memory(ours.provider()).unwrap(),
            );
            let Some(Ask::Fetch { id, .. }) = heard(&mut reader) else {
                panic!("a fetch comes");
            };
            eventually("nobody waits", || is_given_up.load(Ordering::Acquire));
            writer.send(&lent(id, 9, 0, 0, 5000)).unwrap();
            match heard(&mut reader) {
                Some(Ask::Return { loan }) => loan,
                other => panic!("{other:?}"),
            }
        });
        let caller = caller(address, &ours, SILENCE);
        reach(&caller);
        eventually("it may lend", || caller.may_lend());
        let (done, _ends) = mpsc::channel();
        let kept = Arc::new(Kept::default());
        let call = caller.call(|id| fetch(id, 0), Some(kept.clone()), &done);
        drop(call);
        is_given_up.store(true, Ordering::Release);
        assert_eq!(owner.join().unwrap(), 9);
        assert!(kept.0.lock().unwrap().is_empty());
        assert_eq!(caller.fabric().bytes, 0, "it was not even read");
    });
}

#[test]
fn loans_of_what_is_not_there_end_the_link() {
    let (Some(ours), Some(theirs)) = (fabric_of("tcp"), fabric_of("tcp")) else {
        return;
    };
    let memory = theirs.memory(ours.provider()).unwrap();
    let past = memory.len - 4999;
    for (is_told, offset) in [(true, past), (true, 1 << 62), (false, 0)] {
        let (listening, address) = listen();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (_, mut reader, writer) = proved(&listening);
                if is_told {
                    tell(&mut reader, &writer, memory);
                }
                let id = loop {
                    match heard(&mut reader) {
                        Some(Ask::Fetch { id, .. }) => break id,
                        Some(_) => {}
                        None => panic!("a fetch comes"),
                    }
                };
                writer.send(&lent(id, 1, offset, 0, 5000)).unwrap();
                while heard(&mut reader).is_some() {}
            });
            let caller = caller(address, &ours, SILENCE);
            reach(&caller);
            if is_told {
                eventually("it may lend", || caller.may_lend());
            }
            let (done, ends) = mpsc::channel();
            let kept = Arc::new(Kept::default());
            let _call = caller
                .call(|id| fetch(id, 0), Some(kept.clone()), &done)
                .unwrap();
            assert_eq!(ends.recv_timeout(PATIENCE).unwrap().outcome, Outcome::Lost);
            eventually("the reason", || is_down(&caller, "not asked for"));
            assert!(kept.0.lock().unwrap().is_empty());
        });
    }
}

#[test]
fn one_with_another_provider_or_without_keeps_to_the_link() {
    let (Some(tcp), Some(shm)) = (fabric_of("tcp"), fabric_of("shm")) else {
        return;
    };
    let reason = shm.memory(tcp.provider()).unwrap_err();
    assert!(
        reason.contains("`shm`") && reason.contains("`tcp"),
        "{reason}"
    );
    let (listening, address) = listen();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (_, mut reader, writer) = proved(&listening);
            let Some(Ask::Fabric { id, .. }) = heard(&mut reader) else {
                panic!("it is asked for");
            };
            let message = reason.clone();
            let refused = Answer::Failed {
                id,
                kind: 0,
                message,
            };
            writer.send(&refused.encode()).unwrap();
            while heard(&mut reader).is_some() {}
        });
        let caller = caller(address, &tcp, SILENCE);
        reach(&caller);
        eventually("it is told", || {
            caller.fabric().reason == Some(reason.clone())
        });
        assert!(!caller.may_lend());
    });
}

#[test]
fn no_link_takes_all_that_may_be_lent_and_its_end_gives_all_back() {
    let Some(fabric) = fabric_of("tcp") else {
        return;
    };
    let fill = |_: &mut [u8]| Ok(());
    let lend_most = |loans: &Loans| {
        let lend = || loans.lend(1, fill).unwrap().map(|loan| loan.number);
        std::iter::from_fn(lend).collect::<Vec<_>>()
    };
    let (first, second) = (Loans::new(fabric.clone()), Loans::new(fabric.clone()));
    let taken = lend_most(&first);
    assert!(!taken.is_empty());
    let others = lend_most(&second);
    assert!(!others.is_empty(), "something is left for another link");
    // What is another link's it cannot give back.
    first.give_back(others[0]);
    assert!(first.lend(1, fill).unwrap().is_none());
    first.give_back(taken[0]);
    assert!(first.lend(1, fill).unwrap().is_some());
    drop(first);
    assert_eq!(lend_most(&Loans::new(fabric.clone())).len(), taken.len());
    // Longer than a part: it goes another way.
    drop(second);
    let loans = Loans::new(fabric.clone());
    assert!(loans.lend(MAX_LENT as usize + 1, fill).unwrap().is_none());
    let failed = loans.lend(1, |_| Err(std::io::ErrorKind::NotFound.into()));
    assert!(failed.is_err());
    fabric.close();
    assert!(
        loans.lend(1, fill).unwrap().is_none(),
        "nothing is lent any more"
    );
}

#[test]
fn a_provider_that_is_not_there_is_refused_with_the_way_out() {
    let plan = FabricPlan {
        providers: vec!["forebay-none".to_owned()],
        ..FabricPlan::default()
    };
    let refused = Fabric::open(&plan).unwrap_err().to_string();
    assert!(refused.contains("libfabric"), "{refused}");
    assert!(refused.contains("`tcp`"), "the way out: {refused}");
}
