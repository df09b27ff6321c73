//! Settings are what was written; a plan is what will run.

mod peers;
mod rules;
mod transport;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_cache::CachePlan;
use forebay_residency::NodePaths;
use serde::{Deserialize, Serialize};

pub use peers::PeersPlan;
pub(crate) use peers::parse_member;
use rules::Rules;
pub use rules::parse_bytes;
pub use transport::Transport;

/// What the operator wrote. Every field may be absent, and an unknown field is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServeSettings {
    /// Cache folder on the node's own device.
    pub cache: Option<PathBuf>,
    /// Bytes the cache may take: a number, or one with a unit such as `500 GiB`.
    pub capacity: Option<String>,
    /// Bytes of the device that stay free for others.
    pub free_floor: Option<String>,
    /// `plan`, `lru` or `pin`.
    pub policy: Option<String>,
    /// Seconds without a client after which the daemon leaves; 0 for never.
    pub idle_exit_seconds: Option<u64>,
    /// Reads of the origin in progress at one time, at most.
    pub origin_reads: Option<u32>,
    /// Clients connected at one time, at most.
    pub max_links: Option<u32>,
    /// Late reads of the origin that one request may have begun once more at one time; 0 for none.
    pub hedged_reads: Option<u32>,
    /// Bytes that staging may be ahead of one rank, like `capacity`.
    pub look_ahead: Option<String>,
    /// Seconds that staging may be ahead of one rank, at its own pace.
    pub look_ahead_seconds: Option<u64>,
    /// Bytes a second that staging ahead of need may read, like `capacity`.
    pub look_ahead_rate: Option<String>,
    /// The daemons of the job, `HOST:PORT` each, parted by commas; a node of twice the share has
    /// `*2` after it.
    pub members: Option<String>,
    /// Which of the members this daemon is; it listens there.
    pub listen: Option<String>,
    /// File with the job's secret.
    pub secret_file: Option<PathBuf>,
    /// Folders, parted by colons, in which members may have data sets opened.
    pub exports: Option<String>,
    /// Differentiated services code point of what is sent to members and to stores of objects,
    /// 0 to 63.
    pub dscp: Option<u32>,
    /// Milliseconds after which a member that says nothing is given up.
    pub peer_silence_ms: Option<u32>,
    /// What blocks go over between members: `tcp`, `libfabric`, `libfabric:PROVIDER` or `auto`.
    pub transport: Option<String>,
    /// Label of the traffic class on a fabric; without one `dscp` counts there too.
    pub tclass: Option<String>,
    /// Whether links between members are encrypted.
    pub encrypt_links: Option<bool>,
    /// `etcd://HOST:PORT/PREFIX` to keep names of published files there.
    pub names: Option<String>,
}

/// Where a value of the plan came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// The configuration file.
    File,
    /// A `FOREBAY_…` variable.
    Environment,
    /// The command line, or the program that started the daemon.
    CommandLine,
}

/// What the daemon runs with. It exists only if every rule holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServePlan {
    /// The cache.
    pub cache: CachePlan,
    /// Time without a client after which the daemon leaves; `None` for never.
    pub idle_exit: Option<Duration>,
    /// Reads of the origin in progress at one time, at most.
    pub origin_reads: usize,
    /// Clients connected at one time, at most.
    pub max_links: usize,
    /// Late reads of the origin that one request may have begun once more at one time.
    pub hedged_reads: usize,
    /// Bytes that staging may be ahead of one rank.
    pub look_ahead_bytes: u64,
    /// Time that staging may be ahead of one rank, at its own pace.
    pub look_ahead: Duration,
    /// Bytes a second that staging ahead of need may read; `None` for any number.
    pub look_ahead_rate: Option<u64>,
    /// Differentiated services code point of what is sent; `None` leaves the system's.
    pub dscp: Option<u8>,
    /// The other nodes; `None` for a node alone.
    pub peers: Option<PeersPlan>,
    /// Where each value came from, by name.
    pub sources: BTreeMap<&'static str, Source>,
}

/// Every rule that the settings break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PlanError(pub Vec<String>);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "settings break {} rule(s):", self.0.len())?;
        self.0.iter().try_for_each(|rule| write!(f, "\n  {rule}"))
    }
}

/// What is done to every setting alike.
macro_rules! each_setting {
    ($($name:ident),+ $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),+];

        impl ServeSettings {
            fn has(&self, name: &str) -> bool {
                match name {
                    $(stringify!($name) => self.$name.is_some(),)+
                    _ => false,
                }
            }

            fn or(self, weaker: &Self) -> Self {
                let weaker = weaker.clone();
                Self { $($name: self.$name.or(weaker.$name)),+ }
            }
        }
    };
}

each_setting! {
    cache,
    capacity,
    free_floor,
    policy,
    idle_exit_seconds,
    origin_reads,
    max_links,
    hedged_reads,
    look_ahead,
    look_ahead_seconds,
    look_ahead_rate,
    members,
    listen,
    secret_file,
    exports,
    dscp,
    peer_silence_ms,
    transport,
    tclass,
    encrypt_links,
    names,
}

impl ServeSettings {
    /// Reads a configuration file's `[serve]` table.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        struct File {
            serve: ServeSettings,
        }
        let file: Result<File, _> = toml::from_str(text);
        file.map(|file| file.serve)
            .map_err(|error| PlanError(vec![error.to_string()]))
    }

    /// Reads `FOREBAY_CACHE`, `FOREBAY_CAPACITY` and so on.
    pub fn from_env(env: impl Fn(&str) -> Option<String>) -> Result<Self, PlanError> {
        let mut broken = Vec::new();
        let get = |name: &str| env(name).filter(|value| !value.is_empty());
        let mut number = |name: &str| {
            let text = get(name)?;
            let value = text.parse::<u64>();
            if value.is_err() {
                broken.push(format!("`{name}` must be a number: `{text}`"));
            }
            value.ok()
        };
        let idle_exit_seconds = number("FOREBAY_IDLE_EXIT_SECONDS");
        let look_ahead_seconds = number("FOREBAY_LOOK_AHEAD_SECONDS");
        let mut small =
            |name: &str| number(name).map(|value| u32::try_from(value).unwrap_or(u32::MAX));
        let mut settings = Self {
            cache: get("FOREBAY_CACHE").map(PathBuf::from),
            capacity: get("FOREBAY_CAPACITY"),
            free_floor: get("FOREBAY_FREE_FLOOR"),
            policy: get("FOREBAY_POLICY"),
            idle_exit_seconds,
            origin_reads: small("FOREBAY_ORIGIN_READS"),
            max_links: small("FOREBAY_MAX_LINKS"),
            hedged_reads: small("FOREBAY_HEDGED_READS"),
            look_ahead: get("FOREBAY_LOOK_AHEAD"),
            look_ahead_seconds,
            look_ahead_rate: get("FOREBAY_LOOK_AHEAD_RATE"),
            members: get("FOREBAY_MEMBERS"),
            listen: get("FOREBAY_LISTEN"),
            secret_file: get("FOREBAY_SECRET_FILE").map(PathBuf::from),
            exports: get("FOREBAY_EXPORTS"),
            dscp: small("FOREBAY_DSCP"),
            peer_silence_ms: small("FOREBAY_PEER_SILENCE_MS"),
            transport: get("FOREBAY_TRANSPORT"),
            tclass: get("FOREBAY_TCLASS"),
            encrypt_links: None,
            names: get("FOREBAY_NAMES"),
        };
        if let Some(text) = get("FOREBAY_ENCRYPT_LINKS") {
            settings.encrypt_links = text.parse().ok();
            if settings.encrypt_links.is_none() {
                broken.push(format!(
                    "`FOREBAY_ENCRYPT_LINKS` must be `true` or `false`: `{text}`"
                ));
            }
        }
        if broken.is_empty() {
            Ok(settings)
        } else {
            Err(PlanError(broken))
        }
    }
}

impl ServePlan {
    /// Checks the layers, the strongest first, against every rule. `room` tells how many bytes a
    /// cache in the folder could take now: free bytes and those that it has already.
    pub fn resolve(
        layers: &[(Source, ServeSettings)],
        default_folder: Option<PathBuf>,
        room: impl Fn(&Path) -> u64,
    ) -> Result<Self, PlanError> {
        let mut rules = Rules::default();
        let merged = layers
            .iter()
            .fold(ServeSettings::default(), |sum, (_, layer)| sum.or(layer));
        let peers = rules.peers(&merged);
        let folder = merged.cache.or(default_folder).unwrap_or_default();
        rules.check(folder.is_absolute(), || {
            format!("`cache` must be an absolute path: `{}`", folder.display())
        });
        let room = room(&folder);
        let free_floor_bytes = rules.bytes("free_floor", merged.free_floor, room / 20);
        let all_else = room.saturating_sub(free_floor_bytes);
        let capacity_bytes = rules.bytes("capacity", merged.capacity, all_else);
        // A quarter of the cache, so that what is ahead does not push out what is in use.
        let ahead = (1 << 30).min(capacity_bytes / 4);
        // Others count on a member, whether it has clients of its own or not.
        let idle = merged
            .idle_exit_seconds
            .unwrap_or(if peers.is_some() { 0 } else { 600 });
        let plan = Self {
            look_ahead_bytes: rules.bytes("look_ahead", merged.look_ahead, ahead),
            cache: CachePlan {
                policy: rules.policy(merged.policy.as_deref()),
                folder,
                capacity_bytes,
                free_floor_bytes,
            },
            idle_exit: (idle > 0).then(|| Duration::from_secs(idle)),
            origin_reads: rules.within("origin_reads", merged.origin_reads.unwrap_or(64), 1..=1024),
            max_links: rules.within("max_links", merged.max_links.unwrap_or(1024), 1..=65_536),
            hedged_reads: rules.within("hedged_reads", merged.hedged_reads.unwrap_or(8), 0..=1024),
            look_ahead: Duration::from_secs(merged.look_ahead_seconds.unwrap_or(120)),
            look_ahead_rate: rules.rate("look_ahead_rate", merged.look_ahead_rate),
            // Checked among the rules of peers.
            dscp: merged.dscp.and_then(|dscp| u8::try_from(dscp).ok()),
            peers,
            sources: sources(layers),
        };
        if rules.broken.is_empty() {
            Ok(plan)
        } else {
            Err(PlanError(rules.broken))
        }
    }

    /// Paths of the node's files.
    pub fn paths(&self) -> NodePaths {
        NodePaths::new(self.cache.folder.clone())
    }
}

fn sources(layers: &[(Source, ServeSettings)]) -> BTreeMap<&'static str, Source> {
    let source = |name: &'static str| {
        let said = layers.iter().find(|(_, layer)| layer.has(name));
        (name, said.map_or(Source::Default, |(source, _)| *source))
    };
    NAMES.iter().copied().map(source).collect()
}

#[cfg(test)]
mod tests;
