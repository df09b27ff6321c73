"""A folder whose files are staged for programs that know nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from node import Node

import forebay
from forebay._command import find_preload


def library() -> Path:
    """The preload library of the build that is tested."""
    found = find_preload()
    assert found is not None, "the preload library is not installed"
    return found


@dataclass
class Staged:
    """Its root, and the node that stages it."""

    root: Path
    node: Node
    index: Path
    # Further variables of what is run.
    environment: dict[str, str] = field(default_factory=dict)

    def take(self) -> None:
        """Index what lies in the root now, and let the daemon know of it."""
        forebay.index(self.root, self.index, files=True, root=self.root)
        self.node.open(self.index)

    def run(
        self, line: Sequence[object], *, face: bool, code: int | None = 0, cwd: Path | None = None
    ) -> bytes:
        """What a program prints, with the library or without; it ends with `code`, if that is not
        `None`."""
        variables = {**os.environ, **self.environment, "LC_ALL": "C", "TZ": "UTC"}
        variables["FOREBAY_CACHE"] = str(self.node.cache)
        if face:
            variables["LD_PRELOAD"] = str(library())
            variables["FOREBAY_ROOTS"] = f"{self.root}={self.index}"
        done = subprocess.run(
            [str(word) for word in line],
            env=variables,
            cwd=cwd,
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert code in (None, done.returncode), done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    @contextmanager
    def taken_away(self) -> Iterator[None]:
        """The root's files have other bytes, which neither size nor time nor inode betrays: whoever
        reads the right ones has them from the cache."""
        files = [path for path in self.root.rglob("*") if path.is_file()]
        kept = {path: (path.read_bytes(), path.stat()) for path in files}
        for path, (content, before) in kept.items():
            _rewrite(path, (np.frombuffer(content, "u1") ^ 0xA5).tobytes(), before)
        try:
            yield
        finally:
            for path, (content, before) in kept.items():
                _rewrite(path, content, before)


def _rewrite(path: Path, content: bytes, like: os.stat_result) -> None:
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(like.st_atime_ns, like.st_mtime_ns))


def compiled(source: str, into: Path, *flags: str) -> Path:
    """A program of `programs/`; the test is skipped where there is no compiler."""
    compiler = "c++" if source.endswith(".cc") else "cc"
    out = into / source.replace(".", "_")
    line = [compiler, "-O2", "-D_FORTIFY_SOURCE=2", "-pthread", *flags, "-o", str(out)]
    try:
        done = subprocess.run(
            [*line, str(Path(__file__).parent / "programs" / source)],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip(f"there is no `{compiler}`")
    assert done.returncode == 0, done.stderr
    return out


def python(code: str, *arguments: object) -> list[object]:
    """The line of a Python program."""
    return [sys.executable, "-c", code, *arguments]
