"""A mount of as many files as a data set has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from mounted import Mounted, need_fuse
from node import Node
from tier import Tier

FOLDERS, EACH = 100, 1000


@pytest.mark.soak
def test_a_hundred_thousand_files_are_listed_without_the_origin(tmp_path: Path, node: Node) -> None:
    need_fuse()
    origin = tmp_path / "origin"
    for folder in range(FOLDERS):
        (origin / f"{folder:03}").mkdir(parents=True)
        for file in range(EACH):
            (origin / f"{folder:03}" / f"{file:04}").touch()
    tier = Tier.mount(origin, tmp_path / "slow")
    try:
        mounted = Mounted.make(tier.root, tmp_path / "mount", node.cache)
        before = tier.control("status")
        line = ["ls", "-lR", "--time-style=full-iso"]
        listed = [
            subprocess.run(line, cwd=root, capture_output=True, check=True).stdout
            for root in (mounted.root, origin)
        ]
        after = tier.control("status")
        assert (after["metadata"], after["read"]) == (before["metadata"], before["read"])
        mine, its = (
            [line for line in text.splitlines() if line.startswith(b"-")] for text in listed
        )
        assert mine == its
        assert len(mine) == FOLDERS * EACH
    finally:
        mounted.end()
        tier.unmount()
