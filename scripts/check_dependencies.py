"""Check what the Rust crates depend on: direction, bans, licences; report crates built twice.

The rules are the tables below. Reads `cargo metadata`, so it sees what is really built on Linux.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# Which crates of this workspace each may use. Formats lie below, processes above; a missing crate
# or a missing arrow is a decision to write down here.
MAY_USE = {
    "dataset": [],
    "wire": [],
    "members": [],
    "libfabric": [],
    "transport": ["libfabric", "wire"],
    "darshan": [],
    "analysis": ["darshan"],
    "fuse": [],
    "emulate": ["fuse"],
    "mount": ["client", "dataset", "fuse", "indexer", "origin", "residency"],
    "sweep": ["analysis"],
    "bench": ["analysis", "client", "dataset", "indexer", "members", "origin"],
    "origin": ["dataset"],
    "residency": ["dataset"],
    "objects": ["dataset", "origin"],
    "indexer": ["dataset", "origin"],
    "cache": ["dataset", "origin", "residency"],
    "service": ["cache", "dataset", "origin", "residency", "transport", "wire"],
    "client": ["dataset", "origin", "residency", "wire"],
    "preload": ["client", "dataset", "origin", "residency"],
    "capi": ["client", "dataset"],
    "python": ["client", "dataset", "indexer", "origin", "residency", "wire"],
    "cli": [
        "analysis", "bench", "cache", "client", "darshan", "dataset", "emulate", "indexer",
        "libfabric", "members", "mount", "objects", "origin", "residency", "service", "sweep", "wire",
    ],
}  # fmt: skip

# What must not be reached, however far down. The trainer's process gets no async runtime and no
# server side; nothing needs OpenSSL, which a machine may not have.
BANNED_EVERYWHERE = ["openssl-sys", "native-tls"]
ASYNC_RUNTIMES = ["tokio", "async-std", "smol", "async-executor", "futures-executor", "glommio"]
SERVER_SIDE = ["forebay-service", "forebay-cache"]
BANNED = {
    "client": [*ASYNC_RUNTIMES, *SERVER_SIDE],
    "preload": [*ASYNC_RUNTIMES, *SERVER_SIDE],
    "python": [*ASYNC_RUNTIMES, *SERVER_SIDE],
    "capi": [*ASYNC_RUNTIMES, *SERVER_SIDE],
    "dataset": [*ASYNC_RUNTIMES, "rustix", "libc", "memmap2"],
    "wire": [*ASYNC_RUNTIMES, "rustix", "libc"],
    "analysis": [*ASYNC_RUNTIMES, "rustix", "libc"],
    "darshan": [*ASYNC_RUNTIMES, "rustix", "libc", "memmap2"],
}
# `crate -> crate` arrows that a ban does not follow: the first brings the second for a platform
# or purpose that does not weaken the rule.
EXEMPT_ARROWS: set[tuple[str, str]] = {
    # Zstandard is C: its build script runs a compiler, which what is built never does.
    ("cc", "libc"),
    ("jobserver", "libc"),
}

# `bzip2-1.0.6` is the SPDX name of bzip2's own licence, which asks for no more than the BSD ones:
# that of libbz2-rs-sys, with which logs of Darshan are unpacked.
LICENCES = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause",
    "BSL-1.0", "bzip2-1.0.6", "CC0-1.0", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Unlicense", "Zlib",
}  # fmt: skip

TARGET = "x86_64-unknown-linux-gnu"


class Graph:
    """Packages of the workspace and everything under them, by id."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self.packages = {package["id"]: package for package in metadata["packages"]}
        self.nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
        self.members = metadata["workspace_members"]

    def name(self, package: str) -> str:
        return str(self.packages[package]["name"])

    def folder(self, package: str) -> str:
        """The last folder of a package's path: how MAY_USE names the crates of this workspace."""
        return Path(self.packages[package]["manifest_path"]).parent.name

    def uses(self, package: str, *, dev: bool) -> Iterator[str]:
        for dependency in self.nodes[package]["deps"]:
            kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
            if dev or kinds - {"dev"}:
                yield dependency["pkg"]

    def reach(self, package: str) -> dict[str, list[str]]:
        """Every package under `package` without its dev-dependencies, with a path to it."""
        paths = {package: [self.name(package)]}
        queue = [package]
        for above in queue:
            for below in self.uses(above, dev=False):
                arrow = (self.name(above), self.name(below))
                if below not in paths and arrow not in EXEMPT_ARROWS:
                    paths[below] = [*paths[above], self.name(below)]
                    queue.append(below)
        return paths


def read_graph() -> Graph:
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", TARGET]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    if shown.returncode != 0:
        sys.exit(f"check_dependencies: cannot read the workspace: {shown.stderr.strip()}")
    return Graph(json.loads(shown.stdout))


def direction_faults(graph: Graph) -> Iterator[str]:
    for member in graph.members:
        crate = graph.folder(member)
        if crate not in MAY_USE:
            yield f"crate `{crate}` is not in MAY_USE of scripts/check_dependencies.py"
            continue
        for below in graph.uses(member, dev=False):
            if below in graph.members and graph.folder(below) not in MAY_USE[crate]:
                allowed = ", ".join(MAY_USE[crate]) or "no crate of this workspace"
                yield f"`{crate}` uses `{graph.folder(below)}`, but may use only: {allowed}"


def ban_faults(graph: Graph) -> Iterator[str]:
    for member in graph.members:
        crate = graph.folder(member)
        banned = {*BANNED_EVERYWHERE, *BANNED.get(crate, [])}
        for package, path in graph.reach(member).items():
            if graph.name(package) in banned:
                yield f"`{crate}` reaches banned `{graph.name(package)}`: {' -> '.join(path)}"


def licence_faults(graph: Graph) -> Iterator[str]:
    for package in graph.packages.values():
        expression = package["license"]
        if package["id"] in graph.nodes and not (expression and licence_allowed(expression)):
            yield f"`{package['name']}` has licence `{expression}`, which is not on the list"


def licence_allowed(expression: str) -> bool:
    """Whether an SPDX expression can be met with LICENCES. `/` is an old way to write `OR`."""
    words = expression.replace("/", " OR ").replace(" WITH ", "_WITH_")
    tokens = re.findall(r"[()]|[^\s()]+", words)
    return _either(tokens) and not tokens


def _either(tokens: list[str]) -> bool:
    """Take `a OR b ...` from the front of `tokens`."""
    met = _both(tokens)
    while tokens[:1] == ["OR"]:
        tokens.pop(0)
        met = _both(tokens) or met
    return met


def _both(tokens: list[str]) -> bool:
    """Take `a AND b ...` from the front of `tokens`."""
    met = _one(tokens)
    while tokens[:1] == ["AND"]:
        tokens.pop(0)
        met = _one(tokens) and met
    return met


def _one(tokens: list[str]) -> bool:
    """Take one licence, or an expression in brackets, from the front of `tokens`."""
    first = tokens.pop(0) if tokens else ""
    if first != "(":
        return first.replace("_WITH_", " WITH ") in LICENCES
    met = _either(tokens)
    return bool(tokens) and tokens.pop(0) == ")" and met


def built_twice(graph: Graph) -> Iterator[str]:
    versions: dict[str, set[str]] = defaultdict(set)
    for member in graph.members:
        for package in graph.reach(member):
            versions[graph.name(package)].add(graph.packages[package]["version"])
    for name, several in sorted(versions.items()):
        if len(several) > 1:
            yield f"`{name}` is built in {len(several)} versions: {', '.join(sorted(several))}"


def report(faults: Iterable[str]) -> int:
    """Print each fault once and return how many there are."""
    listed = list(dict.fromkeys(faults))
    for fault in listed:
        print(f"check_dependencies: {fault}", file=sys.stderr)
    return len(listed)


def main() -> int:
    graph = read_graph()
    for note in built_twice(graph):
        print(f"check_dependencies: note: {note}")
    faults = report([*direction_faults(graph), *ban_faults(graph), *licence_faults(graph)])
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
