"""What it costs this machine to wake another process and to be woken by it.

Any answer of a daemon takes two such wake-ups, whatever the daemon does. An idle virtual CPU can
take tens of microseconds to wake, so a latency means little without this figure beside it.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

_TREE = Path(__file__).absolute().parent.parent
# Seconds for one answer; a partner that is gone is an error and not a hang.
_PATIENCE = 10.0


class PingPong:
    """A partner process that sends every byte back over a Unix stream socket."""

    def __init__(self) -> None:
        self._near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._near.settimeout(_PATIENCE)
        with far:
            command = [sys.executable, "-m", "bench.ping_pong", str(far.fileno())]
            self._partner = subprocess.Popen(command, pass_fds=[far.fileno()], cwd=_TREE)

    def __enter__(self) -> PingPong:
        self.time_ns()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The partner leaves at the end of the stream.
        self._near.close()
        try:
            self._partner.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._partner.kill()
            self._partner.wait()

    def time_ns(self) -> int:
        """Nanoseconds from sending a byte to having it back.

        Raises:
            RuntimeError: the partner is gone.
        """
        began = time.perf_counter_ns()
        self._near.send(b"x")
        answer = self._near.recv(1)
        took = time.perf_counter_ns() - began
        if answer != b"x":
            raise RuntimeError("the partner of the ping-pong is gone")
        return took


def answer(descriptor: int) -> None:
    """Send back what comes until the stream ends."""
    with socket.socket(fileno=descriptor) as stream:
        while byte := stream.recv(1):
            stream.send(byte)


if __name__ == "__main__":
    answer(int(sys.argv[1]))
