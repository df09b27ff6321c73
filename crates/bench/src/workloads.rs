//! The benchmarks of the suite.

mod archive;
mod checkpoint;
mod create_dataset;
mod create_files;
mod dataset;
mod delete_files;
mod distribution;
mod fio;
mod flat;
mod folder_bench;
mod git_clone;
mod list_files;
mod md5_check;
mod move_files;
mod run_tar;
mod run_untar;
mod source;
mod synthetic;

use crate::spec::Interface;
use crate::workload::Registration;

/// Sixteen benchmarks, and fio.
pub(crate) const ALL: &[Registration] = &[
    checkpoint::DDP_SAVE,
    checkpoint::DDP_LOAD,
    checkpoint::FSDP_SAVE,
    checkpoint::FSDP_LOAD,
    checkpoint::RL_LOAD,
    md5_check::REGISTRATION,
    create_dataset::REGISTRATION,
    synthetic::REGISTRATION,
    create_files::REGISTRATION,
    list_files::REGISTRATION,
    move_files::REGISTRATION,
    delete_files::REGISTRATION,
    folder_bench::REGISTRATION,
    git_clone::REGISTRATION,
    run_tar::REGISTRATION,
    run_untar::REGISTRATION,
    fio::REGISTRATION,
];

/// How a benchmark of metadata that writes can reach files.
pub(crate) const ALSO_FSSPEC: &[Interface] = &[Interface::Native, Interface::Fsspec];

/// How one that reads can.
pub(crate) const ALL_INTERFACES: &[Interface] = &[
    Interface::Native,
    Interface::Fsspec,
    Interface::Mount,
    Interface::Client,
];

/// How one that reads what only it knows to read can.
pub(crate) const ALSO_MOUNT: &[Interface] = &[Interface::Native, Interface::Mount];
