use super::*;
use proptest::prelude::*;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

proptest! {
    #[test]
    fn masks_name_each_block_once(start in 0u64..300, len in 0u64..300) {
        let blocks = start..start + len;
        let named: Vec<u64> = word_masks(&blocks)
            .flat_map(|(word, mask)| (0..64).filter(move |bit| mask >> bit & 1 == 1).map(move |bit| word * 64 + bit))
            .collect();
        prop_assert_eq!(named, blocks.collect::<Vec<_>>());
    }
}

const HOLE: u64 = 0;

/// One word of a map and the blocks behind it, each holding its number + 1, or a hole.
struct Model {
    resident: AtomicU64,
    evictions: AtomicU64,
    bytes: [AtomicU64; 2],
}

impl Words for Model {
    fn resident(&self, _word: u64) -> u64 {
        self.resident.load(Ordering::Acquire)
    }
    fn evictions(&self, _word: u64) -> u64 {
        self.evictions.load(Ordering::Acquire)
    }
}

impl Model {
    fn full() -> Self {
        Self {
            resident: AtomicU64::new(0b11),
            evictions: AtomicU64::new(0),
            bytes: [AtomicU64::new(1), AtomicU64::new(2)],
        }
    }

    fn evict(&self, block: u64) {
        self.resident.fetch_and(!(1 << block), Ordering::AcqRel);
        self.evictions.fetch_add(1, Ordering::AcqRel);
        self.bytes[block as usize].store(HOLE, Ordering::Release);
    }

    fn fill(&self, block: u64) {
        self.bytes[block as usize].store(block + 1, Ordering::Release);
        self.resident.fetch_or(1 << block, Ordering::AcqRel);
    }

    fn read(&self, check: impl Fn(&Self, Snapshot) -> bool) -> Option<[u64; 2]> {
        let snapshot = begin(self, &(0..2))?;
        let copy = [0, 1].map(|i: usize| self.bytes[i].load(Ordering::Acquire));
        check(self, snapshot).then_some(copy)
    }
}

fn explore(check: impl Fn(&Model, Snapshot) -> bool + Copy + Send + Sync + 'static) {
    shuttle::check_random(
        move || {
            let model = Arc::new(Model::full());
            let evictor = {
                let model = model.clone();
                thread::spawn(move || {
                    model.evict(0);
                    model.fill(0);
                    model.evict(1);
                    model.fill(1);
                })
            };
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let model = model.clone();
                    thread::spawn(move || {
                        for _ in 0..3 {
                            if let Some(copy) = model.read(check) {
                                assert_eq!(copy, [1, 2], "a read returned the bytes of a hole");
                            }
                        }
                    })
                })
                .collect();
            evictor.join().unwrap();
            for reader in readers {
                reader.join().unwrap();
            }
        },
        20_000,
    );
}

/// Many schedules of two readers, an evictor and a filler: no accepted copy has a hole in it.
#[test]
fn no_schedule_lets_a_reader_accept_a_hole() {
    explore(|model, snapshot| snapshot.holds(model, &(0..2)));
}

/// The explorer is strong enough to find the fault of a weaker protocol: bits looked at twice,
/// counter ignored.
#[test]
#[should_panic(expected = "a read returned the bytes of a hole")]
fn looking_at_the_bits_twice_would_not_do() {
    explore(|model, _| all_resident(model, &(0..2)));
}
