//! Which process of the job this one is, as a launcher says.

use crate::{Result, SweepError};

/// A process of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its rank.
    pub rank: u32,
    /// Processes in all.
    pub size: u32,
}

/// Variables of rank and size, of this program itself and of launchers, in order.
const LAUNCHERS: [(&str, &str); 6] = [
    ("FOREBAY_SWEEP_RANK", "FOREBAY_SWEEP_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PALS_RANKID", "PALS_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];

/// The place that a launcher's variables tell; `None` where there is no launcher.
///
/// # Errors
/// [`SweepError::Place`] when they are no numbers or the rank is not below the size.
pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Place>> {
    for (rank_name, size_name) in LAUNCHERS {
        let (Some(rank), Some(size)) = (variable(rank_name), variable(size_name)) else {
            continue;
        };
        let number = |name: &str, text: &str| {
            text.trim().parse::<u32>().map_err(|_| {
                SweepError::Place(format!("variable `{name}` must be a number: `{text}`"))
            })
        };
        let place = Place {
            rank: number(rank_name, &rank)?,
            size: number(size_name, &size)?,
        };
        if place.rank >= place.size {
            let Place { rank, size } = place;
            return Err(SweepError::Place(format!(
                "variable `{rank_name}` must be below `{size_name}`, {size}: {rank}"
            )));
        }
        return Ok(Some(place));
    }
    Ok(None)
}

/// Rank and number of the processes on this host, by the host of every rank.
#[must_use]
pub fn on_host(place: Place, hosts: &[String]) -> Place {
    let own = hosts.get(place.rank as usize);
    let same = |rank: &usize| hosts.get(*rank) == own;
    let before = (0..place.rank as usize).filter(same).count();
    let all = (0..hosts.len()).filter(same).count();
    Place {
        rank: before as u32,
        size: all.max(1) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(variables: &[(&str, &str)]) -> Result<Option<Place>> {
        of_environment(|name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn launchers_tell_rank_and_size() {
        assert_eq!(place(&[]).unwrap(), None);
        let slurm = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8")];
        assert_eq!(place(&slurm).unwrap(), Some(Place { rank: 3, size: 8 }));
        // `mpirun` inside a Slurm job: the nearer launcher counts.
        let both = [
            slurm[0],
            slurm[1],
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
        ];
        assert_eq!(place(&both).unwrap(), Some(Place { rank: 1, size: 2 }));
        assert!(place(&[("PMI_RANK", "2"), ("PMI_SIZE", "2")]).is_err());
        assert!(place(&[("PMI_RANK", "x"), ("PMI_SIZE", "2")]).is_err());
    }

    #[test]
    fn processes_of_a_host_count_from_0() {
        let hosts: Vec<String> = ["a", "b", "a", "b", "a"].map(str::to_owned).to_vec();
        assert_eq!(
            on_host(Place { rank: 4, size: 5 }, &hosts),
            Place { rank: 2, size: 3 }
        );
        assert_eq!(
            on_host(Place { rank: 1, size: 5 }, &hosts),
            Place { rank: 0, size: 2 }
        );
    }
}
