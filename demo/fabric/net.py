"""Hosts as network namespaces on one bridge, their links shaped, traffic parted by DSCP.

Nothing leaves the namespaces: they have no way to the machine's own network, so that runs side by
side may use the same addresses. Names carry the number of this process.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from demo.command import CommandError

# A benchmark range (RFC 2544).
_NET = "198.18.0"
STORAGE_ADDRESS = f"{_NET}.100"
# Class selector 1: what the classes below take for storage.
STORAGE_DSCP = 8
_NAMES = re.compile(r"fbf(\d+)-\d+-(sw|h\d+|o)")
# Tells the fabrics of a process apart.
_NUMBERS = itertools.count()
_SECONDS = 20
_TOOLS = ("ip", "tc", "nsenter", "sysctl")


class NoFabric(Exception):
    """The fabric cannot be made here; the text says why."""


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except OSError as error:
        raise NoFabric(f"cannot run `{command[0]}`: {error.strerror}") from None
    if done.returncode != 0:
        raise CommandError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")


class Fabric:
    """Compute hosts and a storage host, while this is entered. All is gone afterwards."""

    def __init__(
        self, hosts: int, rate_mbit: int, queue_bytes: int, burst_bytes: int = 16384
    ) -> None:
        own = f"fbf{os.getpid()}-{next(_NUMBERS)}"
        self._switch = f"{own}-sw"
        self._storage = f"{own}-o"
        self._hosts = [f"{own}-h{number}" for number in range(hosts)]
        self._rate_mbit = rate_mbit
        self._queue_bytes = queue_bytes
        self._burst_bytes = burst_bytes

    def __enter__(self) -> Fabric:
        if os.geteuid() != 0:
            raise NoFabric("network namespaces need root")
        remove_left()
        try:
            self._make()
            self.shape("shared")
        except (CommandError, subprocess.TimeoutExpired) as error:
            self._remove()
            raise NoFabric(f"this kernel does not give what the fabric needs: {error}") from None
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def address(self, host: int) -> str:
        """Of a compute host."""
        return f"{_NET}.{10 + host}"

    def on_host(self, host: int, command: Sequence[str]) -> list[str]:
        """A command as it runs on a compute host."""
        return _inside(self._hosts[host], command)

    def on_storage(self, command: Sequence[str]) -> list[str]:
        """A command as it runs on the storage host."""
        return _inside(self._storage, command)

    def shape(self, mode: str) -> None:
        """Shape every compute host's link, in both directions.

        `shared`: one class, one queue. `50/50`, `90/10`: collectives and storage have a class and a
        queue each, with these shares of the link, and either may borrow what the other leaves.
        """
        for host in self._hosts:
            self._shape(host, "eth1", mode)
            self._shape(self._switch, _port(host), mode)

    def _make(self) -> None:
        for name in (self._switch, self._storage, *self._hosts):
            _run(["ip", "netns", "add", name])
            _run(["ip", "-n", name, "link", "set", "lo", "up"])
        _run(["ip", "-n", self._switch, "link", "add", "br0", "type", "bridge"])
        _run(["ip", "-n", self._switch, "link", "set", "br0", "up"])
        for number, host in enumerate(self._hosts):
            self._plug(host, self.address(number))
        self._plug(self._storage, STORAGE_ADDRESS)
        # The server answers in the class that it was asked in.
        _run(self.on_storage(["sysctl", "-qw", "net.ipv4.tcp_reflect_tos=1"]))

    def _plug(self, host: str, address: str) -> None:
        port = _port(host)
        peer = ["peer", "name", "eth1", "netns", host]
        _run(["ip", "link", "add", port, "netns", self._switch, "type", "veth", *peer])
        for where, device in ((host, "eth1"), (self._switch, port)):
            # Packets as a wire has them: large ones would hold up the other class for milliseconds.
            _run(["ip", "-n", where, "link", "set", device, "gso_max_size", "9000"])
        _run(["ip", "-n", self._switch, "link", "set", port, "master", "br0", "up"])
        _run(["ip", "-n", host, "address", "add", f"{address}/24", "dev", "eth1"])
        _run(["ip", "-n", host, "link", "set", "eth1", "up"])
        # A connection that was idle goes on as it was, as between machines that talk all day.
        _run(_inside(host, ["sysctl", "-qw", "net.ipv4.tcp_slow_start_after_idle=0"]))
        # Windows of a machine that serves storage.
        for which in ("rmem", "wmem"):
            window = f"net.ipv4.tcp_{which}=4096 1048576 8388608"
            _run(_inside(host, ["sysctl", "-qw", window]))
        # The one that every kernel allows in a namespace.
        _run(_inside(host, ["sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno"]))

    def _shape(self, where: str, device: str, mode: str) -> None:
        def tc(*words: str) -> None:
            _run(_inside(where, ["tc", *words]))

        rate, queue = f"{self._rate_mbit}mbit", ["bfifo", "limit", str(self._queue_bytes)]
        burst = str(self._burst_bytes)
        more = ["burst", burst, "cburst", burst, "quantum", "9018"]
        with contextlib.suppress(CommandError):
            tc("qdisc", "del", "dev", device, "root")
        tc("qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "10")

        def add(child: str, parent: str, share: int, *prio: str) -> None:
            of = f"{self._rate_mbit * 1000 * share // 100}kbit"
            tc("class", "add", "dev", device, "parent", parent, "classid", child, "htb",
               "rate", of, "ceil", rate, *more, *prio)  # fmt: skip

        if mode == "shared":
            add("1:10", "1:", 100)
            tc("qdisc", "add", "dev", device, "parent", "1:10", "handle", "10:", *queue)
            return
        collectives, storage = (int(share) for share in mode.split("/"))
        add("1:1", "1:", 100)
        add("1:10", "1:1", collectives, "prio", "0")
        add("1:20", "1:1", storage, "prio", "1")
        tc("qdisc", "add", "dev", device, "parent", "1:10", "handle", "10:", *queue)
        tc("qdisc", "add", "dev", device, "parent", "1:20", "handle", "20:", *queue)
        tos = ["match", "ip", "tos", hex(STORAGE_DSCP << 2), "0xfc"]
        tc("filter", "add", "dev", device, "parent", "1:", "protocol", "ip", "prio", "1", "u32",
           *tos, "flowid", "1:20")  # fmt: skip

    def _remove(self) -> None:
        for name in (*self._hosts, self._storage, self._switch):
            _delete(name)


def remove_left() -> None:
    """Take away the namespaces of runs that were killed."""
    for path in Path("/run/netns").glob("fbf*"):
        found = _NAMES.fullmatch(path.name)
        if found is not None and not Path(f"/proc/{found[1]}").exists():
            _delete(path.name)


def why_not() -> str | None:
    """What keeps this machine from having a fabric, as far as can be seen without trying."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    folders = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/sbin", "/sbin"]
    for tool in _TOOLS:
        if not any(os.access(f"{folder}/{tool}", os.X_OK) for folder in folders):
            return f"there is no `{tool}` (iproute2, util-linux, procps)"
    return None


def _inside(name: str, command: Sequence[str]) -> list[str]:
    # Not `ip netns exec`: that hides mounts made inside, and control groups.
    return ["nsenter", f"--net=/run/netns/{name}", "--", *command]


def _port(host: str) -> str:
    return f"v{host.removeprefix('fbf')}"


def _delete(name: str) -> None:
    with contextlib.suppress(CommandError, subprocess.TimeoutExpired, NoFabric):
        _run(["ip", "netns", "delete", name])
