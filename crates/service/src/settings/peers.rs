//! Settings of a node that is one of several.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use forebay_dataset::Member;
use forebay_transport::SocketPlan;

use super::{Rules, ServeSettings, Transport};

/// How a node gets along with the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeersPlan {
    /// All nodes, this one too. A member's name is its address.
    pub members: Vec<Member>,
    /// Which of them this node is.
    pub me: usize,
    /// Whether members come and go while the daemon runs: then their lists may differ for a while.
    pub follows: bool,
    /// File with the job's secret; `None` if `FOREBAY_SECRET` has it.
    pub secret_file: Option<PathBuf>,
    /// Where names of published files are kept; `None` if the members do it.
    pub names: Option<String>,
    /// Folders in which members may have data sets opened; what a client of this node has open is
    /// served in any case.
    pub exports: Vec<PathBuf>,
    /// How sockets are set.
    pub socket: SocketPlan,
    /// A member that says nothing for so long while something is asked of it is given up.
    pub silence: Duration,
    /// What blocks go over.
    pub transport: Transport,
}

impl PeersPlan {
    /// Name of this node.
    pub fn name(&self) -> &str {
        &self.members[self.me].name
    }

    /// The same with other members, to which this node belongs in any case.
    pub(crate) fn with_members(&self, mut members: Vec<Member>) -> Self {
        members.sort_by(|a, b| a.name.cmp(&b.name));
        members.dedup_by(|a, b| a.name == b.name);
        let me = members.iter().position(|each| each.name == self.name());
        let me = me.unwrap_or_else(|| {
            members.push(self.members[self.me].clone());
            members.len() - 1
        });
        Self {
            members,
            me,
            ..self.clone()
        }
    }
}

impl Rules {
    /// What is said of other nodes, if anything is.
    pub(super) fn peers(&mut self, settings: &ServeSettings) -> Option<PeersPlan> {
        let dscp = self.within("dscp", settings.dscp.unwrap_or(0), 0..=63);
        let silence = settings.peer_silence_ms.unwrap_or(1500);
        let silence = self.within("peer_silence_ms", silence, 100..=600_000);
        let exports = self.exports(settings.exports.as_deref());
        let listen = settings.listen.as_deref().unwrap_or("");
        let class = settings.dscp.map(|_| dscp as u8);
        let transport = self.transport(settings, class, listen);
        let encrypts = settings.encrypt_links.unwrap_or(false);
        self.check(!encrypts || !matches!(transport, Transport::Fabric(_)), || {
            "`encrypt_links` needs `transport` tcp or auto: what a fabric carries is not encrypted"
                .to_owned()
        });
        let Some(members) = &settings.members else {
            self.check(settings.listen.is_none(), || {
                "`listen` needs `members`: name all daemons of the job".to_owned()
            });
            self.check(settings.names.is_none(), || {
                "`names` needs `members`: a node alone keeps its own".to_owned()
            });
            return None;
        };
        let members: Vec<Member> = members
            .split(',')
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .filter_map(|text| self.member(text))
            .collect();
        let mut names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            self.check(false, || format!("`members` names `{}` twice", twice[0]));
        }
        let me = members.iter().position(|member| member.name == listen);
        self.check(me.is_some(), || {
            format!("`listen` must be one of `members`, the one that this node is: `{listen}`")
        });
        Some(PeersPlan {
            me: me?,
            members,
            follows: false,
            secret_file: settings.secret_file.clone(),
            names: settings.names.clone(),
            exports,
            socket: SocketPlan {
                dscp: class,
                encrypts,
            },
            silence: Duration::from_millis(silence as u64),
            transport,
        })
    }

    fn member(&mut self, text: &str) -> Option<Member> {
        let member = parse_member(text);
        self.check(member.is_some(), || {
            format!("`members` must be `HOST:PORT` or `HOST:PORT*WEIGHT` each: `{text}`")
        });
        member
    }

    fn exports(&mut self, text: Option<&str>) -> Vec<PathBuf> {
        let folders = text
            .unwrap_or("")
            .split(':')
            .filter(|folder| !folder.is_empty());
        let folders: Vec<PathBuf> = folders.map(PathBuf::from).collect();
        for folder in &folders {
            self.check(folder.is_absolute(), || {
                format!("`exports` must be absolute paths: `{}`", folder.display())
            });
        }
        folders
    }
}

/// `HOST:PORT`, or `HOST:PORT*WEIGHT`.
pub(crate) fn parse_member(text: &str) -> Option<Member> {
    let (name, weight) = text.split_once('*').unwrap_or((text, "1"));
    let (_, port) = name.rsplit_once(':').filter(|(host, _)| !host.is_empty())?;
    port.parse::<u16>().ok().filter(|port| *port > 0)?;
    Some(Member {
        name: name.to_owned(),
        weight: weight.parse::<NonZeroU32>().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PlanError, ServePlan, Source};

    fn resolve(text: &str) -> Result<ServePlan, PlanError> {
        let settings = ServeSettings::from_toml(&format!("[serve]\n{text}")).unwrap();
        ServePlan::resolve(&[(Source::File, settings)], Some("/c".into()), |_| 1000)
    }

    #[test]
    fn members_have_weights_and_this_node_is_one_of_them() {
        let plan =
            resolve("members = 'a:1, [::1]:2*3 ,c:3'\nlisten = '[::1]:2'\ndscp = 10").unwrap();
        let peers = plan.peers.unwrap();
        let weights: Vec<_> = (peers.members.iter())
            .map(|member| (member.name.as_str(), member.weight.get()))
            .collect();
        assert_eq!(weights, [("a:1", 1), ("[::1]:2", 3), ("c:3", 1)]);
        assert_eq!((peers.me, peers.socket.dscp), (1, Some(10)));
        assert_eq!(plan.idle_exit, None, "others count on it");
        assert_eq!(resolve("").unwrap().peers, None);
        let plan = resolve("members = 'a:1'\nlisten = 'a:1'\nidle_exit_seconds = 5").unwrap();
        assert_eq!(plan.idle_exit, Some(Duration::from_secs(5)));
    }

    #[test]
    fn this_node_is_among_whatever_members_come() {
        let plan = resolve("members = 'b:1*2'\nlisten = 'b:1'").unwrap();
        let before = plan.peers.unwrap();
        let of = |names: &[&str]| {
            let members = names.iter().map(|name| Member::new(*name)).collect();
            let plan = before.with_members(members);
            let names = plan.members.iter().map(|member| member.name.clone());
            (names.collect::<Vec<_>>(), plan.name().to_owned())
        };
        let here = |names: &[&str]| {
            (
                names.iter().map(|n| (*n).to_owned()).collect(),
                "b:1".into(),
            )
        };
        assert_eq!(
            of(&["c:1", "b:1", "a:1", "c:1"]),
            here(&["a:1", "b:1", "c:1"])
        );
        assert_eq!(of(&["c:1"]), here(&["c:1", "b:1"]));
        assert_eq!(of(&[]), here(&["b:1"]));
    }

    #[test]
    fn every_broken_rule_of_members_is_reported() {
        let text = "members = 'a,b:x,c:1*0,d:0,e:1,e:1'\nexports = 'x:/y'\ndscp = 64\n\
            peer_silence_ms = 5";
        let rule =
            |text| format!("`members` must be `HOST:PORT` or `HOST:PORT*WEIGHT` each: `{text}`");
        assert_eq!(
            resolve(text).unwrap_err().0,
            [
                "`dscp` must be between 0 and 63: 64".to_owned(),
                "`peer_silence_ms` must be between 100 and 600000: 5".to_owned(),
                "`exports` must be absolute paths: `x`".to_owned(),
                rule("a"),
                rule("b:x"),
                rule("c:1*0"),
                rule("d:0"),
                "`members` names `e:1` twice".to_owned(),
                "`listen` must be one of `members`, the one that this node is: ``".to_owned(),
            ]
        );
        let alone = resolve("listen = 'a:1'\nnames = 'etcd://e:1'").unwrap_err();
        assert_eq!(
            alone.0,
            [
                "`listen` needs `members`: name all daemons of the job",
                "`names` needs `members`: a node alone keeps its own",
            ]
        );
        let two = "members = 'a:1'\nlisten = 'a:1'\nencrypt_links = true\n";
        assert!(resolve(two).unwrap().peers.unwrap().socket.encrypts);
        let unsealed = resolve(&format!("{two}transport = 'libfabric:tcp'")).unwrap_err();
        assert!(unsealed.0[0].starts_with("`encrypt_links` needs `transport` tcp or auto"));
    }
}
