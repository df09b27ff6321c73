//! Who the nodes of a job are, for `forebay serve` and `forebay run`.

use std::net::{TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_members::{EtcdMeeting, Job, Launcher, Meeting, MeetingError, Rendezvous, Said};

use crate::Failure;

/// Where to find the other nodes.
#[derive(Args)]
pub(crate) struct MemberArguments {
    /// The daemons of the job, this one too: HOST:PORT each, parted by commas (HOST:PORT*2 has twice the share); or `slurm`, `env` (whatever launched the job), file:DIR (a folder that all nodes see), or etcd://HOST:PORT/PREFIX
    #[arg(long)]
    pub(crate) members: Option<String>,
    /// Which of the members this daemon is; it listens there [default: known from the job, or by the name of this host]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// How many nodes come to a folder or an etcd [default: as many as the job has; with `forebay serve` one, and others are followed as they come]
    #[arg(long, value_name = "COUNT")]
    nodes: Option<usize>,
    /// Name or address at which the others reach this node, for a folder or an etcd [default: its host name]
    #[arg(long)]
    host: Option<String>,
    /// Port of the daemons [default: 7420; one that is free for a folder or an etcd]
    #[arg(long)]
    port: Option<u16>,
    /// Seconds to wait for the other nodes
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
}

/// Port of the daemons where their addresses follow from the names of the hosts.
pub(crate) const PORT: u16 = 7420;

/// This node and the others.
pub(crate) struct Together {
    pub(crate) members: String,
    pub(crate) listen: String,
    /// Where they met, and how many did.
    pub(crate) met: Option<(Box<dyn Meeting>, usize)>,
    /// The job's secret, where the place has one.
    pub(crate) secret_file: Option<PathBuf>,
}

impl Together {
    fn of(members: String, listen: String) -> Self {
        Self {
            members,
            listen,
            met: None,
            secret_file: None,
        }
    }
}

impl MemberArguments {
    /// How long to wait for the others.
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait)
    }

    /// What is said of members: by the flag, else by the variable.
    pub(crate) fn said(&self) -> Option<String> {
        let by_variable = || std::env::var("FOREBAY_MEMBERS").ok();
        (self.members.clone().or_else(by_variable)).filter(|said| !said.is_empty())
    }

    /// Finds out who the others are, by what was `said` or by the job that this is a process of.
    /// `None` if this node is alone. With `open_end` more nodes may come than are waited for.
    pub(crate) fn find(
        &self,
        said: Option<&str>,
        open_end: bool,
    ) -> Result<Option<Together>, Failure> {
        let env = |name: &str| std::env::var(name).ok();
        let said = said.map(Said::parse).transpose();
        let said = said.map_err(Failure::usage)?;
        let job = Job::of(&env)?;
        match said {
            Some(Said::List(list)) => self.by_list(list).map(Some),
            Some(Said::Folder(folder)) => {
                let join = |id: &str, address: &str| -> Result<Box<dyn Meeting>, Failure> {
                    Ok(Box::new(Rendezvous::join(&folder, id, address)?))
                };
                self.by_meeting(join, job, open_end).map(Some)
            }
            Some(Said::Etcd { endpoint, prefix }) => {
                let join = |id: &str, address: &str| -> Result<Box<dyn Meeting>, Failure> {
                    Ok(Box::new(EtcdMeeting::join(
                        &endpoint, &prefix, id, address,
                    )?))
                };
                self.by_meeting(join, job, open_end).map(Some)
            }
            Some(Said::Slurm) => match job.filter(|job| job.launcher == Launcher::Slurm) {
                Some(job) => self.by_hosts(&job).map(Some),
                None => Err(Failure::usage(
                    "this is no job of Slurm: SLURM_JOB_ID is not set",
                )),
            },
            Some(Said::Environment) if job.is_none() => Err(Failure::usage(
                "the environment tells of no job of Slurm, Flux, MPI or torchrun",
            )),
            None | Some(Said::Environment) => match job {
                Some(job) if job.nodes != Some(1) => self.by_hosts(&job).map(Some),
                _ => Ok(None),
            },
        }
    }

    fn by_list(&self, list: String) -> Result<Together, Failure> {
        let listen = match &self.listen {
            Some(listen) => listen.clone(),
            None => mine(&list)?,
        };
        Ok(Together::of(list, listen))
    }

    fn by_hosts(&self, job: &Job) -> Result<Together, Failure> {
        let port = self.port.unwrap_or(PORT);
        let address = |host: &String| format!("{host}:{port}");
        if job.hosts.is_empty() {
            return Err(Failure::usage(format!(
                "{} does not name the nodes of the job",
                name(job.launcher)
            ))
            .hint("name a folder that all nodes see: --members file:DIR"));
        }
        let me = host_name();
        let by_name = || job.hosts.iter().position(|host| is_host(host, &me));
        let listen = match (&self.listen, job.node.or_else(by_name)) {
            (Some(listen), _) => listen.clone(),
            (None, Some(node)) => address(&job.hosts[node]),
            (None, None) => {
                let failure = format!("no node of the job has the name of this host, `{me}`");
                return Err(Failure::usage(failure).hint("say which it is with --listen"));
            }
        };
        let members: Vec<String> = job.hosts.iter().map(address).collect();
        Ok(Together::of(members.join(","), listen))
    }

    fn by_meeting(
        &self,
        join: impl FnOnce(&str, &str) -> Result<Box<dyn Meeting>, Failure>,
        job: Option<Job>,
        open_end: bool,
    ) -> Result<Together, Failure> {
        let nodes = self.nodes.or(job.as_ref().and_then(|job| job.nodes));
        let nodes = nodes
            .or(open_end.then_some(1))
            .filter(|nodes| *nodes > 0)
            .ok_or_else(|| {
                Failure::usage("it is not known how many nodes there are")
                    .hint("say it with --nodes")
            })?;
        let id = job.map_or_else(|| "job".to_owned(), |job| job.id);
        let address = match &self.listen {
            Some(listen) => listen.clone(),
            None => self.free_address()?,
        };
        let met = join(&id, &address)?;
        let members = match met.members(nodes, self.wait()) {
            Err(MeetingError::TooMany { .. }) if open_end => met.come(nodes, Duration::ZERO)?,
            members => members?,
        };
        let secret_file = met.secret()?;
        Ok(Together {
            members: members.join(","),
            listen: address,
            met: Some((met, nodes)),
            secret_file,
        })
    }

    /// An address of this node that is free now.
    fn free_address(&self) -> Result<String, Failure> {
        let host = self.host.clone().unwrap_or_else(host_name);
        let port = self.port.unwrap_or(0);
        let free = || {
            // The name as the others look it up, and not as this host alone may know it.
            (host.as_str(), port).to_socket_addrs()?;
            TcpListener::bind((host.as_str(), port))?.local_addr()
        };
        let address = free().map_err(|error| {
            Failure::new(format!("cannot listen on host `{host}`: {error}"))
                .hint("name an address of this node with --host")
        })?;
        Ok(format!("{host}:{}", address.port()))
    }
}

/// Which of a list of members has the name of this host.
pub(crate) fn mine(list: &str) -> Result<String, Failure> {
    let me = host_name();
    let names = list
        .split(',')
        .map(|member| member.split('*').next().unwrap_or("").trim());
    let mut mine = names.filter(|name| {
        let host = name.rsplit_once(':').map_or(*name, |(host, _)| host);
        is_host(host, &me)
    });
    match (mine.next(), mine.next()) {
        (Some(listen), None) => Ok(listen.to_owned()),
        _ => Err(
            Failure::usage(format!("not one member has the name of this host, `{me}`"))
                .hint("say which it is with --listen"),
        ),
    }
}

/// True if who the others are is found out by more than reading a list.
pub(crate) fn are_found_out(said: Option<&str>) -> bool {
    let said = said.map(Said::parse);
    said.is_some_and(|said| !matches!(said, Ok(Said::List(_)) | Err(_)))
}

pub(crate) fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// True if `host` names this host, whichever of the two has a domain.
fn is_host(host: &str, me: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or("").to_owned();
    host == me
        || (!me.is_empty() && short(host) == short(me) && host.parse::<std::net::IpAddr>().is_err())
}

/// What a launcher is called.
pub(crate) fn name(launcher: Launcher) -> &'static str {
    match launcher {
        Launcher::Slurm => "Slurm",
        Launcher::Flux => "Flux",
        Launcher::OpenMpi => "Open MPI",
        Launcher::Pmi => "the PMI launcher",
        Launcher::Torchrun => "torchrun",
    }
}
