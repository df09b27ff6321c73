"""Settings of all Python tests, and what they share: a cache folder, a data set, a slow tier."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from node import Node
from tier import Tier
from worlds import World

# A loaded machine is slow, which is not a failure: only a hang is (`timeout` in pyproject.toml).
settings.register_profile("forebay", deadline=None)
settings.load_profile("forebay")


# In the background of a shell it is ignored, and so it would be in every process of the tests.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the user's own settings or cache; `FOREBAY_COMMAND` names the build to test."""
    for name in list(os.environ):
        if name.startswith("FOREBAY_") and name != "FOREBAY_COMMAND":
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "default"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A cache folder of its own. Whatever daemon serves it at the end is stopped, and ends."""
    node = Node(tmp_path / "cache")
    yield node
    node.stop()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A small HDF5 data set with a field of every kind of storage, and its index."""
    return World.make(tmp_path / "origin")


@pytest.fixture
def tier(tmp_path: Path, world: World) -> Iterator[Tier]:
    """The data set's folder on an emulated slow tier, where faults can be asked for."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("the emulated tier needs root and /dev/fuse")
    tier = Tier.mount(world.root, tmp_path / "slow")
    yield tier
    tier.unmount()
