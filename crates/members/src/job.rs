//! What a launcher leaves in the environment of a job's processes. Pure.

use thiserror::Error;

use crate::{HostListError, hosts};

/// What started the processes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `srun`, or a batch script of Slurm.
    Slurm,
    /// `flux run`.
    Flux,
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpiexec` of a PMI launcher: MPICH, Intel MPI.
    Pmi,
    /// `torchrun`.
    Torchrun,
}

/// The job that this process belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What started it.
    pub launcher: Launcher,
    /// Tells it from other jobs of the launcher; of letters, digits, `-`, `_` and `.` only.
    pub id: String,
    /// How many nodes it has; `None` where the launcher does not say.
    pub nodes: Option<usize>,
    /// Their names in order; empty where the launcher does not say.
    pub hosts: Vec<String>,
    /// Which of them this node is.
    pub node: Option<usize>,
}

/// An environment that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JobError {
    /// A variable that should be a number.
    #[error("`{name}` must be a number: `{value}`")]
    Number {
        /// The variable.
        name: &'static str,
        /// What it is.
        value: String,
    },
    /// A list of hosts that is none.
    #[error("`{name}`: {source}")]
    Hosts {
        /// The variable.
        name: &'static str,
        /// What is wrong with it.
        source: HostListError,
    },
    /// A node that is not in the job's list.
    #[error("this is node {node} of a job that has {nodes}")]
    Node {
        /// Which it is.
        node: usize,
        /// How many there are.
        nodes: usize,
    },
}

/// The variables, read with care.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    fn number(&self, name: &'static str) -> Result<Option<usize>, JobError> {
        let number = |value: String| value.parse().map_err(|_| JobError::Number { name, value });
        self.text(name).map(number).transpose()
    }

    /// Nodes of a job with so many processes in all and on each node.
    fn nodes_of(&self, all: &'static str, local: &'static str) -> Result<Option<usize>, JobError> {
        let (all, local) = (self.number(all)?, self.number(local)?);
        let nodes = all.zip(local).filter(|(_, local)| *local > 0);
        // Nodes of unequal size: how many there are does not follow.
        Ok(nodes.and_then(|(all, local)| all.is_multiple_of(local).then_some(all / local)))
    }
}

impl Job {
    /// The job that `env`, the environment, tells of; `None` if this is no process of one. An
    /// allocation comes before what runs inside it: its nodes are the job's.
    ///
    /// # Errors
    /// [`JobError`] if the environment contradicts itself.
    pub fn of(env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, JobError> {
        let variables = Variables(env);
        let launchers = [slurm, flux, open_mpi, pmi, torchrun];
        for launcher in launchers {
            if let Some(job) = launcher(&variables)? {
                return job.checked().map(Some);
            }
        }
        Ok(None)
    }

    fn new(launcher: Launcher, id: Option<String>) -> Self {
        let id = id.unwrap_or_else(|| "job".to_owned());
        let plain = |letter: char| match letter {
            letter if letter.is_ascii_alphanumeric() => letter,
            '-' | '_' => letter,
            _ => '.',
        };
        Self {
            launcher,
            id: id.chars().take(100).map(plain).collect(),
            nodes: None,
            hosts: Vec::new(),
            node: None,
        }
    }

    fn checked(self) -> Result<Self, JobError> {
        match (self.node, self.nodes) {
            (Some(node), Some(nodes)) if node >= nodes => Err(JobError::Node { node, nodes }),
            _ => Ok(self),
        }
    }
}

fn slurm(variables: &Variables<'_>) -> Result<Option<Job>, JobError> {
    let Some(id) = variables.text("SLURM_JOB_ID") else {
        return Ok(None);
    };
    let step = variables.text("SLURM_STEP_ID");
    let id = step.map_or(id.clone(), |step| format!("{id}.{step}"));
    let mut job = Job::new(Launcher::Slurm, Some(id));
    // A step may have fewer nodes than its job; `SLURM_NODEID` counts those of the step.
    for name in ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"] {
        if let Some(list) = variables.text(name) {
            job.hosts = hosts(&list).map_err(|source| JobError::Hosts { name, source })?;
            break;
        }
    }
    job.nodes = match job.hosts.len() {
        0 => variables.number("SLURM_NNODES")?,
        nodes => Some(nodes),
    };
    job.node = variables.number("SLURM_NODEID")?;
    Ok(Some(job))
}

fn flux(variables: &Variables<'_>) -> Result<Option<Job>, JobError> {
    let Some(id) = variables.text("FLUX_JOB_ID") else {
        return Ok(None);
    };
    let mut job = Job::new(Launcher::Flux, Some(id));
    job.nodes = variables.number("FLUX_JOB_NNODES")?;
    Ok(Some(job))
}

fn open_mpi(variables: &Variables<'_>) -> Result<Option<Job>, JobError> {
    if variables.text("OMPI_COMM_WORLD_SIZE").is_none() {
        return Ok(None);
    }
    let id = variables.text("PMIX_NAMESPACE");
    let id = id.or_else(|| variables.text("OMPI_MCA_ess_base_jobid"));
    let mut job = Job::new(Launcher::OpenMpi, id);
    job.nodes = variables.nodes_of("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")?;
    Ok(Some(job))
}

fn pmi(variables: &Variables<'_>) -> Result<Option<Job>, JobError> {
    if variables.text("PMI_SIZE").is_none() {
        return Ok(None);
    }
    let mut job = Job::new(Launcher::Pmi, variables.text("PMI_ID_JOB"));
    job.nodes = variables.nodes_of("PMI_SIZE", "MPI_LOCALNRANKS")?;
    Ok(Some(job))
}

fn torchrun(variables: &Variables<'_>) -> Result<Option<Job>, JobError> {
    let Some(id) = variables.text("TORCHELASTIC_RUN_ID") else {
        return Ok(None);
    };
    let mut job = Job::new(Launcher::Torchrun, Some(id));
    job.nodes = variables.number("GROUP_WORLD_SIZE")?;
    job.node = variables.number("GROUP_RANK")?;
    Ok(Some(job))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> Result<Option<Job>, JobError> {
        Job::of(&|name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn slurm_names_its_hosts_and_a_step_those_of_its_own() {
        let mut set = vec![
            ("SLURM_JOB_ID", "77"),
            ("SLURM_JOB_NODELIST", "n[1-4]"),
            ("SLURM_NODEID", "1"),
            ("TORCHELASTIC_RUN_ID", "none"),
        ];
        let job = of(&set).unwrap().unwrap();
        assert_eq!((job.launcher, job.id.as_str()), (Launcher::Slurm, "77"));
        assert_eq!((job.nodes, job.node), (Some(4), Some(1)));
        set.extend([("SLURM_STEP_ID", "3"), ("SLURM_STEP_NODELIST", "n[2-3]")]);
        let step = of(&set).unwrap().unwrap();
        assert_eq!((step.id.as_str(), step.nodes), ("77.3", Some(2)));
        assert_eq!(step.hosts, ["n2", "n3"]);
    }

    #[test]
    fn other_launchers_say_how_many_nodes_there_are() {
        let nodes = |set: &[(&str, &str)]| {
            let job = of(set).unwrap().unwrap();
            (job.launcher, job.nodes)
        };
        let flux = [("FLUX_JOB_ID", "ƒ2xR"), ("FLUX_JOB_NNODES", "3")];
        assert_eq!(nodes(&flux), (Launcher::Flux, Some(3)));
        assert_eq!(of(&flux).unwrap().unwrap().id, ".2xR");
        let mpi = [
            ("OMPI_COMM_WORLD_SIZE", "8"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
        ];
        assert_eq!(nodes(&mpi), (Launcher::OpenMpi, Some(2)));
        let uneven = [
            ("OMPI_COMM_WORLD_SIZE", "8"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "3"),
        ];
        assert_eq!(nodes(&uneven), (Launcher::OpenMpi, None));
        let hydra = [("PMI_SIZE", "6"), ("MPI_LOCALNRANKS", "2")];
        assert_eq!(nodes(&hydra), (Launcher::Pmi, Some(3)));
        let torch = [
            ("TORCHELASTIC_RUN_ID", "a/b c"),
            ("GROUP_WORLD_SIZE", "2"),
            ("GROUP_RANK", "1"),
        ];
        assert_eq!(nodes(&torch), (Launcher::Torchrun, Some(2)));
        assert_eq!(of(&torch).unwrap().unwrap().id, "a.b.c");
        assert_eq!(of(&[("RANK", "0"), ("PMI_SIZE", "")]), Ok(None));
    }

    #[test]
    fn an_environment_that_contradicts_itself_is_an_error() {
        let id = ("SLURM_JOB_ID", "1");
        let node = of(&[id, ("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_NODEID", "2")]);
        assert_eq!(node, Err(JobError::Node { node: 2, nodes: 2 }));
        let number = of(&[id, ("SLURM_NODEID", "x")]).unwrap_err();
        assert_eq!(number.to_string(), "`SLURM_NODEID` must be a number: `x`");
        let list = of(&[id, ("SLURM_JOB_NODELIST", "n[1")]).unwrap_err();
        assert_eq!(
            list.to_string(),
            "`SLURM_JOB_NODELIST`: `n[1` is no list of hosts"
        );
    }
}
