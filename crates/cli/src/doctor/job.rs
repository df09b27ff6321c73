//! The job that this is a process of, and how its nodes find each other.

use forebay_members::{Job, Said};

use crate::doctor::item::Item;
use crate::doctor::{on_path, variable};
use crate::members;
use crate::output::count;

const LAUNCHERS: &[&str] = &["srun", "flux", "mpirun", "torchrun"];

pub(super) fn items() -> Vec<Item> {
    let found: Vec<&str> = (LAUNCHERS.iter().copied())
        .filter(|name| on_path(name).is_some())
        .collect();
    let launchers = match found[..] {
        [] => Item::missing(
            "launchers",
            format!("none of {} on the path", LAUNCHERS.join(", ")),
        ),
        _ => Item::ok("launchers", found.join(", ")),
    };
    vec![launchers, job(), said(), secret()]
}

fn job() -> Item {
    let name = "job";
    match Job::of(&variable) {
        Ok(None) => Item::missing(name, "the environment tells of none: this node is alone"),
        Ok(Some(job)) => {
            let nodes = match job.nodes {
                Some(nodes) => count(nodes as u64, "node"),
                None => "how many nodes is not said".to_owned(),
            };
            let hosts = match job.hosts[..] {
                [] => "their names are not said".to_owned(),
                _ => job.hosts.join(", "),
            };
            let launcher = members::name(job.launcher);
            Item::ok(
                name,
                format!("`{}` of {launcher}: {nodes}; {hosts}", job.id),
            )
        }
        Err(error) => Item::refused(name, error.to_string())
            .way_out("mend the launcher's variables, or unset them")
            .needed(),
    }
}

/// Who the others are, by `FOREBAY_MEMBERS`.
fn said() -> Item {
    let name = "members";
    let Some(said) = variable("FOREBAY_MEMBERS") else {
        return Item::missing(
            name,
            "FOREBAY_MEMBERS is not set: `forebay run` asks the job",
        );
    };
    match Said::parse(&said) {
        Ok(Said::List(list)) => {
            let members = list.split(',').filter(|member| !member.trim().is_empty());
            Item::ok(name, count(members.count() as u64, "node"))
        }
        Ok(Said::Folder(folder)) if !folder.is_dir() => {
            let why = format!("`{}` is no folder yet", folder.display());
            Item::refused(name, why).way_out("make it on a file system that all nodes see")
        }
        Ok(Said::Folder(folder)) => Item::ok(name, format!("meet in `{}`", folder.display())),
        Ok(Said::Etcd { endpoint, prefix }) => {
            Item::ok(name, format!("meet at etcd `{endpoint}`, below `{prefix}`"))
        }
        Ok(Said::Slurm | Said::Environment) => Item::ok(name, "those of the job"),
        Err(error) => Item::refused(name, error)
            .way_out("mend FOREBAY_MEMBERS")
            .needed(),
    }
}

fn secret() -> Item {
    let name = "secret";
    if variable("FOREBAY_SECRET").is_some() {
        return Item::ok(name, "FOREBAY_SECRET is set");
    }
    match variable("FOREBAY_SECRET_FILE") {
        Some(path) => match std::fs::File::open(&path) {
            Ok(_) => Item::ok(name, format!("in `{path}`")),
            Err(error) => Item::refused(name, format!("`{path}` cannot be read: {error}"))
                .way_out("make the file, for its user alone, on every node")
                .needed(),
        },
        None => Item::missing(name, "none is named; a node alone needs none")
            .way_out("--secret-file or FOREBAY_SECRET; nodes that meet in a folder find one there"),
    }
}
