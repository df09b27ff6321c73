//! From the epochs of all processes to records and to a summary.

use std::collections::BTreeMap;

use forebay_analysis::record::{Execution, Io, Manifest, Note, Record};
use forebay_analysis::tiers::{Class, Rate};
use serde::Serialize;

use crate::rank::EpochResult;
use crate::{Result, SweepError};

/// One epoch over all processes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EpochSummary {
    /// Data set and state of the tiers.
    pub setup: String,
    /// Cache rate, in percent.
    pub rate_percent: f64,
    /// The epoch, from 1.
    pub epoch: u32,
    /// Wall time of the slowest process, in seconds.
    pub wall_s: f64,
    /// The greatest I/O time of a process, in seconds.
    pub io_s: f64,
    /// Samples of all processes a second, the first step left out.
    pub samples_per_s: f64,
    /// Accelerator utilisation: compute time over wall time, the first step left out, mean over
    /// the processes, from 0 to 1; `null` without compute time.
    pub accelerator_utilisation: Option<f64>,
    /// Share of the files that were read from the local tier, from 0 to 1.
    pub local_share: f64,
}

/// Epochs by setup in the order in which they were run, then by rate and epoch.
fn groups(results: &[EpochResult]) -> Vec<Vec<&EpochResult>> {
    let mut setups: Vec<&str> = Vec::new();
    let mut groups: BTreeMap<(usize, u64, u32), Vec<&EpochResult>> = BTreeMap::new();
    for one in results {
        let setup = setups
            .iter()
            .position(|setup| *setup == one.setup)
            .unwrap_or_else(|| {
                setups.push(&one.setup);
                setups.len() - 1
            });
        // Bits of numbers that are not negative are in their order.
        let key = (setup, one.rate_percent.to_bits(), one.epoch);
        groups.entry(key).or_default().push(one);
    }
    groups.into_values().collect()
}

/// Sums up each epoch of a job of `size` processes.
///
/// # Errors
/// [`SweepError::Place`] when a process delivered no result.
pub fn summaries(results: &[EpochResult], size: u32) -> Result<Vec<EpochSummary>> {
    let groups = groups(results);
    groups.iter().map(|group| summary(group, size)).collect()
}

fn summary(group: &[&EpochResult], size: u32) -> Result<EpochSummary> {
    let first = group[0];
    if group.len() != size as usize {
        return Err(SweepError::Place(format!(
            "{} of {size} processes delivered epoch {} of `{}` at cache rate {} %: see what the others wrote",
            group.len(),
            first.epoch,
            first.setup,
            first.rate_percent
        )));
    }
    let most = |of: fn(&EpochResult) -> f64| group.iter().map(|one| of(one)).fold(0.0, f64::max);
    let sum = |of: fn(&EpochResult) -> u64| group.iter().map(|one| of(one)).sum::<u64>() as f64;
    let share =
        |one: &&&EpochResult| one.steady_compute_s / one.steady_wall_s.max(f64::MIN_POSITIVE);
    let computes = group.iter().any(|one| one.steady_compute_s > 0.0);
    let (mut samples, mut seconds) = (sum(|one| one.steady_samples), most(|one| one.steady_wall_s));
    if samples == 0.0 {
        // One step in all: there is no other to count.
        (samples, seconds) = (sum(|one| one.samples), most(|one| one.wall_s));
    }
    let files = sum(|one| one.gfs_files + one.lfs_files);
    Ok(EpochSummary {
        setup: first.setup.clone(),
        rate_percent: first.rate_percent,
        epoch: first.epoch,
        wall_s: most(|one| one.wall_s),
        io_s: most(EpochResult::io_s),
        samples_per_s: if seconds > 0.0 {
            samples / seconds
        } else {
            0.0
        },
        accelerator_utilisation: computes
            .then(|| group.iter().map(|one| share(&one)).sum::<f64>() / group.len() as f64),
        local_share: if files > 0.0 {
            sum(|one| one.lfs_files) / files
        } else {
            0.0
        },
    })
}

/// The records of a sweep, as `docs/RECORDS.md` describes them.
#[must_use]
pub fn records(manifest: Manifest, results: &[EpochResult], notes: Vec<String>) -> Vec<Record> {
    let mut records = vec![Record::Manifest(manifest)];
    for group in groups(results) {
        let Some(rate_percent) = Rate::new(group[0].rate_percent) else {
            continue;
        };
        let (setup, epoch) = (group[0].setup.clone(), Some(group[0].epoch));
        let wall_s = group
            .iter()
            .map(|one| one.wall_s)
            .fold(f64::MIN_POSITIVE, f64::max);
        for one in group {
            records.push(Record::Io(Io {
                setup: setup.clone(),
                rate_percent: Some(rate_percent),
                process: format!("rank {}", one.rank),
                epoch,
                iteration: None,
                seconds: seconds(one),
                other_s: 0.0,
            }));
        }
        let rate_percent = Some(rate_percent);
        records.push(Record::Execution(Execution {
            setup,
            rate_percent,
            epoch,
            wall_s,
        }));
    }
    records.extend(notes.into_iter().map(|text| Record::Note(Note { text })));
    records
}

fn seconds(one: &EpochResult) -> BTreeMap<Class, f64> {
    let all = [
        (Class::GFS_READ, one.gfs_read_s),
        (Class::GFS_META, one.gfs_meta_s),
        (Class::LFS_READ, one.lfs_read_s),
        (Class::LFS_META, one.lfs_meta_s),
    ];
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(rank: u32, rate: f64, compute: f64) -> EpochResult {
        EpochResult {
            setup: "small".into(),
            rate_percent: rate,
            epoch: 1,
            rank,
            gfs_read_s: 1.0 + f64::from(rank),
            lfs_meta_s: 0.5,
            gfs_files: 3,
            lfs_files: 1,
            wall_s: 4.0 + f64::from(rank),
            steps: 5,
            samples: 50,
            steady_compute_s: compute,
            steady_wall_s: 4.0,
            steady_samples: 40,
            ..EpochResult::default()
        }
    }

    #[test]
    fn an_epoch_is_as_long_as_its_slowest_process() {
        let results = [result(0, 50.0, 3.0), result(1, 50.0, 2.0)];
        let found = summaries(&results, 2).expect("whole");
        let wanted = EpochSummary {
            setup: "small".into(),
            rate_percent: 50.0,
            epoch: 1,
            wall_s: 5.0,
            io_s: 2.5,
            samples_per_s: 20.0,
            accelerator_utilisation: Some(0.625),
            local_share: 0.25,
        };
        assert_eq!(found, [wanted]);
        let told = summaries(&results, 3).unwrap_err().to_string();
        assert!(
            told.starts_with("2 of 3 processes delivered epoch 1 of `small` at cache rate 50 %")
        );
        assert_eq!(
            summaries(&[result(0, 0.0, 0.0)], 1).expect("whole")[0].accelerator_utilisation,
            None
        );
    }

    #[test]
    fn the_analysis_reads_what_a_sweep_records() {
        let manifest = Manifest {
            format: 1,
            tool: "t".into(),
            version: "1".into(),
            started_unix_ns: 1,
            host: serde_json::Map::new(),
            inputs: serde_json::Map::new(),
            conditions: Vec::new(),
        };
        let results = [result(0, 5.0, 0.0), result(0, 0.0, 0.0)];
        let mut file = Vec::new();
        for record in records(manifest, &results, vec!["a word".into()]) {
            record.write_line(&mut file).expect("sound");
        }
        let study = forebay_analysis::tiers::Study::read(&file[..]).expect("sound");
        let points = &study.setups[0].points;
        let rates: Vec<f64> = points
            .iter()
            .filter_map(|point| point.rate)
            .map(Rate::percent)
            .collect();
        assert_eq!(rates, [0.0, 5.0]);
        assert_eq!(
            points[0].table.slowest(Some(1)).expect("there").total_s(),
            1.5
        );
        assert_eq!(points[0].execution_s[&Some(1)], 4.0);
    }
}
