"""Starting the ranks of a study on this node, so that none outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from types import FrameType

from forebay.fabric.place import MEET

_GRACE_S = 5.0
_LOOK_S = 0.05


def start(words: Sequence[str], ranks: int) -> int:
    """Run `forebay.fabric` with these words in so many ranks; exit status 0 if all did well.

    When one ends badly the others are ended. SIGTERM and SIGINT end all of them.
    """
    with tempfile.TemporaryDirectory(prefix="forebay-fabric-") as folder:
        started: list[subprocess.Popen[bytes]] = []
        asked: list[int] = []

        def ask(number: int, _: FrameType | None) -> None:
            asked.append(number)

        before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            for rank in range(ranks):
                env = {
                    **os.environ,
                    "RANK": str(rank),
                    "WORLD_SIZE": str(ranks),
                    "LOCAL_RANK": str(rank),
                    MEET: f"{folder}/meet",
                }
                command = [sys.executable, "-m", "forebay.fabric", *words]
                # A session of its own: a Ctrl-C is passed on once, and not twice.
                started.append(subprocess.Popen(command, env=env, start_new_session=True))
            return _wait(started, asked)
        finally:
            _end(started)
            for number, handler in before.items():
                signal.signal(number, handler)


def _wait(started: list[subprocess.Popen[bytes]], asked: list[int]) -> int:
    while True:
        codes = [process.poll() for process in started]
        if asked:
            return 128 + asked[0]
        bad = [(rank, code) for rank, code in enumerate(codes) if code not in (None, 0)]
        if bad:
            rank, code = bad[0]
            how = f"was ended by signal {-code}" if code is not None and code < 0 else "failed"
            print(f"error: rank {rank} {how}; the others are ended", file=sys.stderr, flush=True)
            return 1
        if all(code == 0 for code in codes):
            return 0
        time.sleep(_LOOK_S)


def _end(started: list[subprocess.Popen[bytes]]) -> None:
    """Ask every rank to end, and then its whole process group, workers included, to be gone."""
    for process in started:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + _GRACE_S
    for process in started:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        try:
            # Each rank leads its own group.
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.wait()
