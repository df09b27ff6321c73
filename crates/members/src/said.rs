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
    /// This list.
    List(String),
}

impl Said {
    /// `slurm`, `env`, `file:DIR`, or a list of addresses.
    ///
    /// # Errors
    /// Says which forms there are, if it is none of them.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            _ if text == "slurm" => Ok(Self::Slurm),
            _ if text == "env" => Ok(Self::Environment),
            Some(("file", folder)) if !folder.is_empty() => Ok(Self::Folder(folder.into())),
            Some((host, _)) if !host.is_empty() && host != "file" => {
                Ok(Self::List(text.to_owned()))
            }
            _ => Err(format!(
                "members are `slurm`, `env`, `file:DIR` or `HOST:PORT,...`: `{text}`"
            )),
        }
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
        for wrong in ["", "file:", "node7", ":7"] {
            assert!(
                Said::parse(wrong).unwrap_err().contains("file:DIR"),
                "{wrong}"
            );
        }
    }
}
