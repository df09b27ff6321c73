"""Forebay keeps GPUs fed: it stages training data block by block on node-local storage.

    import forebay

    ds = forebay.open("sair.forebay", root="/lustre/sair")
    sample = ds[7]          # dict of numpy arrays

`forebay.torch` has a `Dataset` and a `Sampler` for PyTorch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forebay._command import run_command
from forebay._native import __version__, error_kinds
from forebay._native import status as _status
from forebay._native import stop as _stop
from forebay.dataset import Dataset, Field, PathLike
from forebay.errors import (
    CorruptError,
    DeadlineError,
    ErrorKind,
    ForebayError,
    InvalidInputError,
    NoSpaceError,
    NotFoundError,
    StaleError,
    UnavailableError,
    UnsupportedError,
)
from forebay.published import (
    PublishedFile,
    PublishedName,
    consume,
    publish,
    published,
    unpublish,
)

__all__ = [
    "CorruptError",
    "Dataset",
    "DeadlineError",
    "ErrorKind",
    "Field",
    "ForebayError",
    "InvalidInputError",
    "NoSpaceError",
    "NotFoundError",
    "PublishedFile",
    "PublishedName",
    "StaleError",
    "UnavailableError",
    "UnsupportedError",
    "__version__",
    "consume",
    "error_kinds",
    "index",
    "open",
    "publish",
    "published",
    "status",
    "stop",
    "unpublish",
]


def open(
    index: PathLike,
    *,
    root: PathLike | None = None,
    cache: PathLike | None = None,
    deadline_s: float = 60.0,
    capacity: int | str | None = None,
    policy: str | None = None,
    start_daemon: bool = True,
) -> Dataset:
    """Open a data set by its index file.

    Args:
        index: the file that `forebay index` or `forebay flatten` wrote.
        root: folder or URL of the origin files, if not the one that the index records.
        cache: cache folder on the node's own device. Default: `FOREBAY_CACHE`, else
            `$XDG_CACHE_HOME/forebay`, else `~/.cache/forebay`.
        deadline_s: longest wait for the daemon, in seconds.
        capacity: bytes that the cache may take, or text such as `"500 GiB"`, for a daemon that
            this call starts; one that runs already keeps its own.
        policy: `"plan"`, `"lru"` or `"pin"`, likewise.
        start_daemon: start the node's daemon where none serves the cache folder. Without one,
            resident samples are read from the cache and all others from the origin.

    Raises:
        ForebayError: the index cannot be used; see `forebay.errors`.
        ValueError: `deadline_s` is not a time.

    Warns:
        RuntimeWarning: no daemon could be reached or started, so nothing new will be staged.
    """
    return Dataset(
        index,
        root=root,
        cache=cache,
        deadline_s=deadline_s,
        capacity=capacity,
        policy=policy,
        start_daemon=start_daemon,
    )


def index(
    inputs: PathLike | Sequence[PathLike],
    output: PathLike,
    *,
    sample: str | Sequence[str] = (),
    root: PathLike | None = None,
    manifest: PathLike | None = None,
    append: PathLike | None = None,
    format: str | None = None,
    files: bool = False,
    labels: str | None = None,
    fields: str | Sequence[str] = (),
    skip_incomplete: bool = False,
    verify_data: bool = False,
    swmr: bool = False,
    hidden: bool = False,
    block_size: int | None = None,
) -> dict[str, Any]:
    """Find the samples in files where they lie, and write an index of them.

    The same as `forebay index`; returns its summary: `samples`, `fields`, `origin_bytes`, ….

    Args:
        inputs: files and folders, or URLs of objects and prefixes (`s3://`, `gs://`, `az://`, `http://`,
            `https://`), all of one store.
        output: the index file to write.
        sample: what a sample is, `PATTERN` or `GLOB=PATTERN`; several are joined by key. Found
            out from the files if not given.
        manifest: a CSV or Parquet table with a row for each sample; columns in braces in `sample`
            say where it lies, all others become fields.
        append: an index whose samples are kept; those of files that it does not name are added.
        root: folder or URL that paths in the index are relative to.
        format: what the files are, such as `"tar"`. Found out if not given.
        files: every file is one sample, HDF5 files too.
        labels: `"folders"` gives each file the number of its class folder as field `label`.
        fields: names of the fields to keep, with `*` and `?`.
        skip_incomplete: leave out samples that lack a field, instead of failing.
        verify_data: read all data and compare it with the checksums that some formats have.
        hidden: index hidden files too, such as `.zarray`.
        swmr: index an HDF5 file that is open for writing with readers allowed as it stands.
        block_size: unit of caching in bytes, a power of two.

    Raises:
        ForebayError: the command's own words.
    """
    many = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    patterns = [sample] if isinstance(sample, str) else list(sample)
    words = ["index", *[os.fspath(path) for path in many], "--output", os.fspath(output), "--json"]
    for pattern in patterns:
        words += ["--sample", pattern]
    if root is not None:
        words += ["--root", os.fspath(root)]
    if fields:
        words += ["--fields", fields if isinstance(fields, str) else ",".join(fields)]
    named = {
        "--manifest": None if manifest is None else os.fspath(manifest),
        "--append": None if append is None else os.fspath(append),
        "--format": format,
        "--labels": labels,
        "--block-size": block_size,
    }
    for name, value in named.items():
        words += [] if value is None else [name, str(value)]
    words += ["--files"] * files + ["--skip-incomplete"] * skip_incomplete
    words += ["--verify-data"] * verify_data + ["--swmr"] * swmr
    words += ["--hidden"] * hidden
    summary: dict[str, Any] = json.loads(run_command(words))
    return summary


def status(cache: PathLike | None = None, *, deadline_s: float = 10.0) -> dict[str, Any]:
    """How the daemon of a cache folder is doing; `docs/METRICS.md` describes the fields.

    Raises:
        UnavailableError: no daemon serves the folder.
    """
    found: dict[str, Any] = json.loads(_status(_folder(cache), deadline_s))
    return found


def stop(cache: PathLike | None = None, *, deadline_s: float = 10.0) -> None:
    """Ask the daemon of a cache folder to stop. Trainers go on without it.

    Raises:
        UnavailableError: no daemon serves the folder.
    """
    _stop(_folder(cache), deadline_s)


def _folder(cache: PathLike | None) -> Path:
    if cache is not None:
        return Path(cache)
    named = os.environ.get("FOREBAY_CACHE")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "forebay"
