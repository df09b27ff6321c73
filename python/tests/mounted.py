"""A folder or an index on a mount, as tests need it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forebay._command import find_command


def need_fuse() -> None:
    """Skips the test where nothing can be mounted."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("a mount needs root and /dev/fuse")


def is_mounted(path: Path) -> bool:
    """Whether the mount table has something there; the mount itself is not asked."""
    return f" {path} " in Path("/proc/self/mountinfo").read_text()


@dataclass
class Mounted:
    """One mount and the process that serves it."""

    root: Path
    process: subprocess.Popen[str]
    said: dict[str, Any]

    @classmethod
    def make(cls, source: Path, root: Path, cache: Path, *options: object) -> Mounted:
        need_fuse()
        root.mkdir(exist_ok=True)
        program = find_command()
        assert program is not None, "the `forebay` command is not installed"
        line = [program, "mount", source, root, "--cache", cache, "--json", *map(str, options)]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        first = process.stdout.readline()
        if not first:
            raise AssertionError(process.communicate()[1])
        return cls(root, process, json.loads(first))

    def end(self, number: int = signal.SIGTERM) -> dict[str, Any]:
        """Ends it by a signal, and returns what it served; the second time, nothing."""
        if self.process.stdout is None or self.process.stdout.closed:
            return {}
        if self.process.poll() is None:
            self.process.send_signal(number)
        out, self.words = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, self.words
        assert not is_mounted(self.root)
        return dict(json.loads(out))

    words: str = ""
