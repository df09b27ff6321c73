"""Where the `forebay` command is, and what it says when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from forebay.errors import ForebayError, make


def find_command() -> str | None:
    """Path of the `forebay` command: `FOREBAY_COMMAND`, beside this Python, or on PATH."""
    named = os.environ.get("FOREBAY_COMMAND")
    if named:
        return named
    for folder in (sysconfig.get_path("scripts"), str(Path(sys.executable).parent)):
        beside = Path(folder) / "forebay"
        if beside.is_file() and os.access(beside, os.X_OK):
            return str(beside)
    return shutil.which("forebay")


def find_preload() -> Path | None:
    """Path of the preload library of that command: beside it, or in `../lib/forebay` from there."""
    command = find_command()
    if command is None:
        return None
    folder = Path(command).resolve().parent
    places = (folder, folder.parent / "lib" / "forebay")
    found = (place / "libforebay_preload.so" for place in places)
    return next((path for path in found if path.is_file()), None)


def run_command(words: Sequence[str]) -> str:
    """Runs `forebay` and returns what it printed.

    Raises:
        ForebayError: the command is not there (`unavailable`), or it failed: kind `invalid-input`,
            with its own words.
    """
    command = find_command()
    if command is None:
        raise make("unavailable", "cannot find the `forebay` command: put it on PATH")
    try:
        done = subprocess.run([command, *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise make("unavailable", f"cannot run `{command}`: {error.strerror}") from error
    if done.returncode != 0:
        raise _failure(done.stderr)
    return done.stdout


def _failure(stderr: str) -> ForebayError:
    text = stderr.strip().removeprefix("error: ")
    return make("invalid-input", text or "the `forebay` command failed")
