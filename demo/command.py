"""Running other programs so that none outlives the demo and none is waited for without end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from forebay._command import find_command

# Where `python -m demo.train` finds this package.
_TREE = Path(__file__).absolute().parent.parent


class CommandError(Exception):
    """A program that the demo runs is absent, failed or did not end in time."""


def forebay() -> str:
    """Path of the `forebay` command, as the package finds it."""
    found = find_command()
    if found is None:
        raise CommandError("cannot find the `forebay` command: run `make build` first")
    return found


def run(command: Sequence[str], timeout_seconds: float) -> None:
    """Run a program to its end; it and its children die if it is late or the demo is stopped."""
    # A session of its own: its whole process group can be ended, loader workers included.
    process = subprocess.Popen(command, start_new_session=True, cwd=_TREE)
    try:
        code = process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        raise CommandError(
            f"`{' '.join(command)}` did not end within {timeout_seconds:g} s"
        ) from None
    finally:
        end_group(process)
    if code != 0:
        raise CommandError(f"`{' '.join(command)}` failed: exit status {code}")


def captured(command: Sequence[str], timeout_seconds: float) -> str:
    """What a program prints that ends soon."""
    shown = " ".join(command)
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=timeout_seconds
        )
    except subprocess.TimeoutExpired:
        raise CommandError(f"`{shown}` did not end within {timeout_seconds:g} s") from None
    if done.returncode != 0:
        raise CommandError(f"`{shown}` failed: {done.stderr.strip()}")
    return done.stdout


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a program that leads its own process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
