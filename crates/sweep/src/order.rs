//! Which file is where, and who reads which in what order.

use forebay_analysis::random::Random;

/// How the order of an epoch is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shuffle {
    /// All files are shuffled in each epoch and then shared out: any process may need any file.
    #[default]
    Global,
    /// Each process has files of its own and shuffles those.
    Local,
    /// Each process has files of its own, in order.
    None,
}

/// A shuffle that follows from the seed alone.
fn shuffled(mut files: Vec<u32>, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    for last in (1..files.len()).rev() {
        files.swap(last, random.below(last + 1));
    }
    files
}

/// The files that are cached at a rate, on every node alike.
#[derive(Clone, Debug)]
pub struct CachedSet {
    /// Place of each file in the order in which files are cached.
    places: Vec<u32>,
}

impl CachedSet {
    /// The order of caching for so many files.
    #[must_use]
    pub fn new(files: u32, seed: u64) -> Self {
        // Not the stream that shuffles epochs.
        let order = shuffled((0..files).collect(), seed ^ 0x5EED_CAC4_ED5E_7000);
        let mut places = vec![0; files as usize];
        for (place, file) in order.into_iter().enumerate() {
            places[file as usize] = place as u32;
        }
        Self { places }
    }

    /// How many files are cached at a rate in percent.
    #[must_use]
    pub fn count(&self, rate_percent: f64) -> u32 {
        (rate_percent / 100.0 * self.places.len() as f64 + 1e-9).floor() as u32
    }

    /// Whether a file is cached at a rate. A higher rate only adds files.
    #[must_use]
    pub fn holds(&self, file: u32, rate_percent: f64) -> bool {
        self.places[file as usize] < self.count(rate_percent)
    }
}

/// The files that one of `size` processes reads in an epoch, in order. All processes read equally
/// many; what does not divide is left out of the epoch.
#[must_use]
pub fn files_of(
    files: u32,
    shuffle: Shuffle,
    seed: u64,
    epoch: u32,
    rank: u32,
    size: u32,
) -> Vec<u32> {
    let each = (files / size) as usize;
    let own = |order: Vec<u32>| -> Vec<u32> {
        order
            .into_iter()
            .skip(rank as usize)
            .step_by(size as usize)
            .take(each)
            .collect()
    };
    let all = (0..files).collect();
    match shuffle {
        Shuffle::Global => own(shuffled(all, seed.wrapping_add(u64::from(epoch)))),
        Shuffle::Local => {
            let stream = (u64::from(rank) << 32) | u64::from(epoch);
            shuffled(own(all), seed ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        }
        Shuffle::None => own(all),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_file_is_read_once_but_for_what_does_not_divide(
            files in 1u32..400, size in 1u32..9, seed: u64, epoch in 1u32..5,
        ) {
            for shuffle in [Shuffle::Global, Shuffle::Local, Shuffle::None] {
                let all: Vec<u32> =
                    (0..size).flat_map(|rank| files_of(files, shuffle, seed, epoch, rank, size)).collect();
                let once: BTreeSet<u32> = all.iter().copied().collect();
                prop_assert_eq!(all.len() as u32, files / size * size);
                prop_assert_eq!(once.len(), all.len());
                prop_assert!(once.iter().all(|file| *file < files));
            }
        }

        #[test]
        fn a_higher_rate_only_adds_files(files in 1u32..400, seed: u64, low in 0u32..=100, more in 0u32..=100) {
            let set = CachedSet::new(files, seed);
            let high = (low + more).min(100);
            let held = |rate: u32| (0..files).filter(|file| set.holds(*file, f64::from(rate))).collect::<BTreeSet<_>>();
            prop_assert!(held(low).is_subset(&held(high)));
            prop_assert_eq!(held(low).len() as u32, files * low / 100);
        }
    }

    #[test]
    fn only_a_global_shuffle_gives_a_process_other_files_in_another_epoch() {
        let of = |shuffle, epoch| files_of(1_000, shuffle, 7, epoch, 3, 8);
        let set = |files: Vec<u32>| files.into_iter().collect::<BTreeSet<_>>();
        assert_ne!(set(of(Shuffle::Global, 1)), set(of(Shuffle::Global, 2)));
        assert_eq!(set(of(Shuffle::Local, 1)), set(of(Shuffle::Local, 2)));
        assert_ne!(of(Shuffle::Local, 1), of(Shuffle::Local, 2));
        assert_eq!(of(Shuffle::None, 1), of(Shuffle::None, 2));
        assert_eq!(of(Shuffle::Global, 2), of(Shuffle::Global, 2));
    }
}
