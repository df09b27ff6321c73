//! Which rank this process is: what launchers leave in the environment. Pure.

use forebay_members::Job;

use crate::spec::Launcher;
use crate::{BenchError, Result};

/// One rank among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the rank in the job, from 0.
    pub rank: u32,
    /// Number of the rank on its node, from 0.
    pub local_rank: u32,
    /// Ranks of the job.
    pub world_size: u32,
}

/// Variables for rank, ranks and local rank, in the order they are looked at.
const SLURM: [&str; 3] = ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"];
const TORCHRUN: [&str; 3] = ["RANK", "WORLD_SIZE", "LOCAL_RANK"];
const OPEN_MPI: [&str; 3] = [
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
];
const PMI: [&str; 3] = ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"];

/// Port of the meeting where nobody names one.
const PORT: u16 = 29_500;

type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Place {
    /// The rank that this process is by what `launcher` left in the environment.
    ///
    /// # Errors
    /// [`BenchError::Usage`] where variables are missing, no numbers, or contradict each other.
    pub fn of(launcher: Launcher, env: Env<'_>) -> Result<Self> {
        let tried: &[[&str; 3]] = match launcher {
            Launcher::Slurm => &[SLURM],
            Launcher::Torchrun | Launcher::Local => &[TORCHRUN],
            Launcher::Mpi => &[OPEN_MPI, PMI],
        };
        let set = tried.iter().find(|names| text(env, names[0]).is_some());
        let Some([rank, size, local]) = set else {
            let names: Vec<&str> = tried.iter().map(|names| names[0]).collect();
            return Err(BenchError::Usage(format!(
                "--launcher {} needs `{}` in the environment: start this command with it",
                launcher.word(),
                names.join("` or `")
            )));
        };
        let place = Self {
            rank: number(env, rank)?.unwrap_or(0),
            world_size: number(env, size)?.unwrap_or(1),
            local_rank: number(env, local)?.unwrap_or(0),
        };
        if place.rank >= place.world_size {
            return Err(BenchError::Usage(format!(
                "`{rank}` must be below `{size}`: {} and {}",
                place.rank, place.world_size
            )));
        }
        Ok(place)
    }

    /// What the environment of a rank's process says of it.
    #[must_use]
    pub fn environment(self) -> [(&'static str, String); 3] {
        [
            ("RANK", self.rank.to_string()),
            ("WORLD_SIZE", self.world_size.to_string()),
            ("LOCAL_RANK", self.local_rank.to_string()),
        ]
    }
}

/// Host and port of PyTorch's rendezvous: `MASTER_ADDR` and `MASTER_PORT`, else the first node of
/// the job and a port that follows from the job's name.
///
/// # Errors
/// [`BenchError::Usage`] where no host is known.
pub fn master(env: Env<'_>) -> Result<(String, u16)> {
    let job = Job::of(env).map_err(|error| BenchError::Usage(error.to_string()))?;
    let host = text(env, "MASTER_ADDR").or_else(|| text(env, "SLURM_LAUNCH_NODE_IPADDR"));
    let host = host.or_else(|| job.as_ref()?.hosts.first().cloned());
    let host = host.ok_or_else(|| {
        BenchError::Usage(
            "it is not known where rank 0 is: set `MASTER_ADDR`, or let ranks meet in a folder that all see with --dist-init file:PATH".into(),
        )
    })?;
    let port = match number(env, "MASTER_PORT")? {
        Some(port) => u16::try_from(port).ok().filter(|port| *port < u16::MAX),
        // Two jobs of one node must not take each other's.
        None => {
            let id = job.map_or(0, |job| {
                job.id.bytes().fold(0u16, |sum, byte| {
                    sum.wrapping_mul(31).wrapping_add(byte.into())
                })
            });
            Some(PORT + id % 2_000 * 2)
        }
    };
    let port = port.ok_or_else(|| BenchError::Usage("`MASTER_PORT` is no port".into()))?;
    Ok((host, port))
}

fn text(env: Env<'_>, name: &str) -> Option<String> {
    env(name).filter(|value| !value.is_empty())
}

fn number(env: Env<'_>, name: &str) -> Result<Option<u32>> {
    let number = |value: String| {
        let wrong = || BenchError::Usage(format!("`{name}` must be a number: `{value}`"));
        value.parse().map_err(|_| wrong())
    };
    text(env, name).map(number).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(set: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn each_launcher_tells_the_rank_in_its_own_words() {
        let all = env(&[
            ("SLURM_PROCID", "5"),
            ("SLURM_NTASKS", "8"),
            ("SLURM_LOCALID", "1"),
            ("RANK", "2"),
            ("WORLD_SIZE", "4"),
            ("LOCAL_RANK", "0"),
            ("PMI_RANK", "1"),
            ("PMI_SIZE", "2"),
        ]);
        let place = |launcher| {
            let place = Place::of(launcher, &all).unwrap();
            (place.rank, place.world_size, place.local_rank)
        };
        assert_eq!(place(Launcher::Slurm), (5, 8, 1));
        assert_eq!(place(Launcher::Torchrun), (2, 4, 0));
        assert_eq!(place(Launcher::Mpi), (1, 2, 0));
        let open = env(&[
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("PMI_RANK", "1"),
        ]);
        assert_eq!(Place::of(Launcher::Mpi, &open).unwrap().rank, 3);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let said = |launcher, env: Env<'_>| Place::of(launcher, env).unwrap_err().to_string();
        assert_eq!(
            said(Launcher::Mpi, &env(&[])),
            "--launcher mpi needs `OMPI_COMM_WORLD_RANK` or `PMI_RANK` in the environment: start this command with it"
        );
        let wrong = env(&[("RANK", "x")]);
        assert_eq!(
            said(Launcher::Torchrun, &wrong),
            "`RANK` must be a number: `x`"
        );
        let beyond = env(&[("RANK", "2"), ("WORLD_SIZE", "2")]);
        assert_eq!(
            said(Launcher::Torchrun, &beyond),
            "`RANK` must be below `WORLD_SIZE`: 2 and 2"
        );
    }

    #[test]
    fn rank_0_is_where_the_environment_says_or_on_the_first_node() {
        let said = env(&[
            ("MASTER_ADDR", "n7"),
            ("MASTER_PORT", "1234"),
            ("SLURM_JOB_ID", "9"),
        ]);
        assert_eq!(master(&said).unwrap(), ("n7".to_owned(), 1234));
        let slurm = env(&[("SLURM_JOB_ID", "9"), ("SLURM_JOB_NODELIST", "n[3-4]")]);
        let (host, port) = master(&slurm).unwrap();
        assert_eq!(host, "n3");
        assert!((29_500..33_500).contains(&port));
        assert!(master(&env(&[])).is_err());
        assert!(master(&env(&[("MASTER_ADDR", "x"), ("MASTER_PORT", "65535")])).is_err());
    }
}
