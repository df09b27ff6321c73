//! What a user says of members. Pure.

use std::path::PathBuf;

/// Where the members of a job come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The hosts of the Slurm job, one daemon each.
    Slurm,
    /// Whatever launched the job.
    Environment,
    /// A folder on a file system that all nodes see.
    Folder(PathBuf),
    /// An etcd.
    Etcd {
        /// `HOST:PORT`.
        endpoint: String,
        /// What keys begin with.
        prefix: String,
    },
    /// This list.
    List(String),
}

impl Said {
    /// `slurm`, `env`, `file:DIR`, `etcd://HOST:PORT/PREFIX`, or a list of addresses.
    ///
    /// # Errors
    /// Says which forms there are, if it is none of them.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            _ if text == "slurm" => Ok(Self::Slurm),
            _ if text == "env" => Ok(Self::Environment),
            Some(("file", folder)) if !folder.is_empty() => Ok(Self::Folder(folder.into())),
            Some(("etcd", rest)) if rest.starts_with("//") => Self::etcd(&rest[2..]),
            Some((host, _)) if !["", "file", "etcd"].contains(&host) => {
                Ok(Self::List(text.to_owned()))
            }
            _ => Err(Self::wrong(text)),
        }
    }

    fn etcd(rest: &str) -> Result<Self, String> {
        let (endpoint, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_endpoint = endpoint
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !is_endpoint {
            return Err(Self::wrong(rest));
        }
        let prefix = prefix.trim_matches('/');
        Ok(Self::Etcd {
            endpoint: endpoint.to_owned(),
            prefix: if prefix.is_empty() { "forebay" } else { prefix }.to_owned(),
        })
    }

    fn wrong(text: &str) -> String {
        format!(
            "members are `slurm`, `env`, `file:DIR`, `etcd://HOST:PORT/PREFIX` or \
             `HOST:PORT,...`: `{text}`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_told_from_the_others() {
        assert_eq!(Said::parse("slurm"), Ok(Said::Slurm));
        assert_eq!(Said::parse("env"), Ok(Said::Environment));
        let folder = Said::Folder("/p/x:y".into());
        assert_eq!(Said::parse("file:/p/x:y"), Ok(folder));
        let list = Said::List("a:1,b:2".into());
        assert_eq!(Said::parse("a:1,b:2"), Ok(list));
        let etcd = |prefix: &str| Said::Etcd {
            endpoint: "e:2379".into(),
            prefix: prefix.into(),
        };
        assert_eq!(Said::parse("etcd://e:2379"), Ok(etcd("forebay")));
        assert_eq!(Said::parse("etcd://e:2379/a/b/"), Ok(etcd("a/b")));
        for wrong in [
            "",
            "file:",
            "node7",
            ":7",
            "etcd:x",
            "etcd://e",
            "etcd://:1",
        ] {
            assert!(
                Said::parse(wrong).unwrap_err().contains("file:DIR"),
                "{wrong}"
            );
        }
    }
}
