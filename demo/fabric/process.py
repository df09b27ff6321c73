"""Programs of the miniature: started in its namespaces, and gone with it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from demo.command import CommandError, end_group

_START_SECONDS = 30.0
_TREE = Path(__file__).absolute().parents[2]


class Process:
    """A program with a log, while this is entered; ready when `ready` says so."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        ready: Callable[[], bool] | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self._command = command
        self._log = log
        self._ready = ready
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Process:
        with self._log.open("wb") as log:
            # A session of its own, so that Ctrl-C comes to this program first.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd=_TREE,
                start_new_session=True,
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.terminate()
            process.wait(8)
        except subprocess.TimeoutExpired:
            pass
        finally:
            end_group(process)

    def code(self) -> int | None:
        """Exit status, once it has ended."""
        return None if self._process is None else self._process.poll()

    def words(self) -> str:
        """The last of what it said."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        faults = [line for line in lines if line.startswith("error:")]
        return (faults or lines or ["it said nothing"])[-1]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while self._ready is not None and not self._ready():
            if self.code() is not None:
                raise CommandError(f"`{' '.join(self._command)}` ended early: {self.words()}")
            if time.monotonic() > deadline:
                raise CommandError(
                    f"`{' '.join(self._command)}` is not ready after {_START_SECONDS:g} s"
                )
            time.sleep(0.1)
