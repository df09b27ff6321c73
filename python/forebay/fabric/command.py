"""`forebay fabric allreduce`, `train` and `data`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from forebay._command import find_command
from forebay.fabric import FabricError, launch
from forebay.fabric.options import Options, parse
from forebay.fabric.place import Place, place

_RANKS = 2


def main(words: Sequence[str] | None = None) -> int:
    """Exit status 0: done; 1: failed; 2: wrong usage; 128 and more: a signal."""
    words = sys.argv[1:] if words is None else words
    options = parse(words)
    # Records of the loader would only stand beside those of the study.
    os.environ.pop("FOREBAY_RECORDS", None)
    try:
        if isinstance(options, argparse.Namespace):
            return _make(options)
        at = place(os.environ)
        if at is None:
            code = launch.start(words, options.ranks or _RANKS)
            return code or _report(options)
        if options.ranks is not None and options.ranks != at.size:
            raise FabricError(f"--ranks says {options.ranks}, but {at.launcher} started {at.size}")
        return _rank(options, at)
    except FabricError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        return 130


def _rank(options: Options, at: Place) -> int:
    try:
        import torch
    except ImportError as error:
        raise FabricError(f"the study needs torch: {error}; install `forebay[torch]`") from None
    from forebay.fabric import allreduce, train
    from forebay.fabric.world import World

    # Loader workers and computing share the cores with other ranks of the node.
    torch.set_num_threads(1)
    loop = allreduce.run if options.command == "allreduce" else train.run
    try:
        with World(at, options.backend, options.meet, options.timeout_s) as world:
            loop(options, world)
            world.barrier()
            is_first = world.rank == 0
    except FabricError as error:
        raise FabricError(f"rank {at.rank}: {_short(str(error))}") from error
    except RuntimeError as error:
        # A worker of the loader that failed or was killed.
        text = str(error)
        if "DataLoader" not in text and not text.startswith("Caught"):
            raise
        raise FabricError(f"rank {at.rank}: {_short(text)}") from error
    # Ranks that `launch` started leave the report to it.
    is_launched = "FOREBAY_FABRIC_MEET" in os.environ
    return _report(options) if is_first and not is_launched else 0


def _short(text: str) -> str:
    """The words of a fault that came from a worker with its whole stack."""
    if not text.startswith("Caught"):
        return text.strip()
    last = text.strip().splitlines()[-1]
    return last.partition(": ")[2] or last


def _make(options: argparse.Namespace) -> int:
    from forebay.fabric import data

    made = data.make(options.folder, options.samples_made, options.seed)
    megabytes = made.samples * data.SAMPLE_BYTES / 1e6
    print(f"`{options.folder}`: {made.samples} samples, {megabytes:,.0f} MB", file=sys.stderr)
    return 0


def _report(options: Options) -> int:
    """Show what the records of the folder say."""
    command = find_command()
    if command is None:
        print(f"records in `{options.out}`: `forebay fabric report` shows them", file=sys.stderr)
        return 0
    done = subprocess.run([command, "fabric", "report", str(options.out)], check=False)
    return done.returncode
