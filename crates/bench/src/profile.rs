//! Selections of the suite: what is run, with which parameters, how often. Pure.

use serde_json::{Map, Value};

use crate::plan::Options;

/// How long a selection takes, about: a minute, a quarter of an hour, some hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Few files and iterations: that everything works, and a first look.
    Quick,
    /// Enough iterations to compare two runs.
    Standard,
    /// The paper's sizes where it gives them.
    Full,
}

/// One benchmark of a selection.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Its name.
    pub benchmark: &'static str,
    /// Its parameters, where they are not the defaults.
    pub params: Map<String, Value>,
    /// Its options, where they are not the defaults.
    pub options: Options,
}

type Given = &'static [(&'static str, &'static str)];

const QUICK: &[(&str, Given)] = &[
    ("create_files", &[("num_copies", "500")]),
    ("list_files", &[("num_copies", "500")]),
    ("move_files", &[("num_copies", "500")]),
    ("delete_files", &[("num_copies", "500")]),
    ("folder_bench", &[("depth", "3"), ("breadth", "4")]),
    (
        "git_clone",
        &[("num_copies", "1"), ("fixture_files", "100")],
    ),
    ("run_tar", &[("num_files", "100")]),
    ("run_untar", &[("num_files", "100")]),
    (
        "create_dataset",
        &[("sizes", "8KiB,1MiB"), ("copies_per_size", "4")],
    ),
    ("create_synthetic_workload", &[("num_files", "50")]),
    ("md5_check", &[("num_copies", "200")]),
    ("ddp_save", &[("hidden_dim", "256"), ("input_dim", "256")]),
    ("ddp_load", &[("hidden_dim", "256"), ("input_dim", "256")]),
    ("fsdp_save", &[("hidden_dim", "256"), ("input_dim", "256")]),
    ("fsdp_load", &[("hidden_dim", "256"), ("input_dim", "256")]),
    ("rl_load", &[("hidden_dim", "256"), ("input_dim", "256")]),
];

const STANDARD: &[(&str, Given)] = &[
    ("create_files", &[]),
    ("list_files", &[]),
    ("move_files", &[]),
    ("delete_files", &[]),
    ("folder_bench", &[]),
    ("git_clone", &[]),
    ("run_tar", &[]),
    ("run_untar", &[]),
    ("create_dataset", &[]),
    ("create_synthetic_workload", &[]),
    ("md5_check", &[]),
    ("ddp_save", &[]),
    ("ddp_load", &[]),
    ("fsdp_save", &[]),
    ("fsdp_load", &[]),
    ("rl_load", &[]),
];

const FULL: &[(&str, Given)] = &[
    ("create_files", &[("num_copies", "20000")]),
    ("list_files", &[("num_copies", "20000")]),
    ("move_files", &[("num_copies", "20000")]),
    ("delete_files", &[("num_copies", "20000")]),
    ("folder_bench", &[("depth", "5"), ("breadth", "8")]),
    (
        "git_clone",
        &[("num_copies", "8"), ("fixture_files", "2000")],
    ),
    ("run_tar", &[("num_files", "10000")]),
    ("run_untar", &[("num_files", "10000")]),
    (
        "create_dataset",
        &[
            ("sizes", "8KiB,64KiB,1MiB,16MiB,128MiB,1GiB"),
            ("copies_per_size", "4"),
        ],
    ),
    (
        "create_synthetic_workload",
        &[("num_files", "5000"), ("arrival", "poisson")],
    ),
    (
        "md5_check",
        &[("num_copies", "20000"), ("chunk_size", "8KiB")],
    ),
    (
        "md5_check",
        &[
            ("num_copies", "20000"),
            ("pattern", "random"),
            ("chunk_size", "32KiB"),
        ],
    ),
    (
        "ddp_save",
        &[
            ("layers", "16"),
            ("hidden_dim", "4096"),
            ("input_dim", "4096"),
        ],
    ),
    (
        "ddp_load",
        &[
            ("layers", "16"),
            ("hidden_dim", "4096"),
            ("input_dim", "4096"),
        ],
    ),
    (
        "fsdp_save",
        &[
            ("layers", "16"),
            ("hidden_dim", "4096"),
            ("input_dim", "4096"),
        ],
    ),
    (
        "fsdp_load",
        &[
            ("layers", "16"),
            ("hidden_dim", "4096"),
            ("input_dim", "4096"),
        ],
    ),
    (
        "rl_load",
        &[
            ("layers", "16"),
            ("hidden_dim", "4096"),
            ("input_dim", "4096"),
        ],
    ),
];

impl Profile {
    /// What is run.
    #[must_use]
    pub fn choices(self) -> Vec<Choice> {
        let (list, iterations) = match self {
            Self::Quick => (QUICK, 3),
            Self::Standard => (STANDARD, 10),
            Self::Full => (FULL, 20),
        };
        let choice = |&(benchmark, given): &(&'static str, Given)| Choice {
            benchmark,
            params: given
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.into()))
                .collect(),
            options: Options {
                iterations: Some(iterations),
                ..Options::default()
            },
        };
        list.iter().map(choice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Known;
    use crate::spec::Engine;
    use crate::{Registration, Registry};

    #[test]
    fn every_selection_has_all_sixteen_and_can_be_run() {
        let registry = Registry::standard();
        let known = Known {
            registry: &registry,
            python: &[],
        };
        for profile in [Profile::Quick, Profile::Standard, Profile::Full] {
            let choices = profile.choices();
            let missing = |known: &&Registration| {
                known.name != "fio" && !choices.iter().any(|choice| choice.benchmark == known.name)
            };
            assert!(registry.iter().find(missing).is_none(), "{profile:?}");
            for choice in choices {
                let options = Options {
                    dataset_path: Some("/x".into()),
                    engine: Some(Engine::Native),
                    ..choice.options
                };
                known
                    .settle(choice.benchmark, &options, &choice.params, vec![])
                    .unwrap();
            }
        }
    }
}
