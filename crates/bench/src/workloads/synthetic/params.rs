//! What can be asked of a synthetic workload.

use crate::{Kind, Param};

pub(super) const PARAMS: &[Param] = &[
    Param::new("num_files", Kind::Count, "200", "files"),
    Param::new(
        "arrival",
        Kind::Choice(&["deterministic", "poisson", "burst"]),
        "deterministic",
        "when files come",
    ),
    Param::new(
        "interval_s",
        Kind::Number,
        "0.01",
        "seconds between files, with arrival=deterministic",
    ),
    Param::new(
        "rate",
        Kind::Number,
        "100",
        "files a second, with arrival=poisson",
    ),
    Param::new(
        "burst_size",
        Kind::Count,
        "20",
        "files of a group, with arrival=burst",
    ),
    Param::new(
        "burst_gap_s",
        Kind::Number,
        "0",
        "seconds between files of a group",
    ),
    Param::new("quiet_s", Kind::Number, "0.5", "seconds between groups"),
    Param::new(
        "simulate_arrivals",
        Kind::Flag,
        "false",
        "sleep until each file's time; else write one after the other",
    ),
    Param::new(
        "size_distribution",
        Kind::Choice(&["fixed", "exponential", "uniform", "lognormal"]),
        "lognormal",
        "how large files are",
    ),
    Param::new(
        "size",
        Kind::Size,
        "64KiB",
        "bytes, with size_distribution=fixed",
    ),
    Param::new(
        "mean",
        Kind::Size,
        "64KiB",
        "mean bytes, with size_distribution=exponential",
    ),
    Param::new(
        "min",
        Kind::Size,
        "4KiB",
        "least bytes, with size_distribution=uniform",
    ),
    Param::new(
        "max",
        Kind::Size,
        "1MiB",
        "most bytes, with size_distribution=uniform",
    ),
    Param::new(
        "mu",
        Kind::Number,
        "11",
        "mean of the logarithm of bytes, with size_distribution=lognormal and median=0",
    ),
    Param::new(
        "median",
        Kind::Size,
        "64KiB",
        "median bytes, with size_distribution=lognormal; 0: by mu",
    ),
    Param::new(
        "sigma",
        Kind::Number,
        "1",
        "deviation of the logarithm of bytes",
    ),
    Param::new(
        "min_size",
        Kind::Size,
        "0",
        "no file is smaller, whatever the distribution",
    ),
    Param::new(
        "max_size",
        Kind::Size,
        "1GiB",
        "no file is larger, whatever the distribution",
    ),
    Param::new(
        "data",
        Kind::Choice(&[
            "random",
            "deterministic",
            "seeded_random",
            "zero",
            "pattern",
        ]),
        "seeded_random",
        "what is written",
    ),
    Param::new(
        "pattern_hex",
        Kind::Text,
        "deadbeef",
        "bytes that repeat, in hexadecimal, with data=pattern",
    ),
];
