"""A tiny data set for the tests that read one."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import molecules, sair

TINY = sair.DataOptions(samples=23, shards=2, seed=3)


# In the background of a shell it is ignored, and so it would be in every process of the tests.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def components() -> molecules.Components:
    """The dictionary of molecules, read once: that takes 2 s."""
    return molecules.Components()


@pytest.fixture(scope="session", autouse=True)
def _read_once(components: molecules.Components) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sair, "Components", lambda: components)
        yield


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a data set of 23 samples in two files of each kind."""
    folder = tmp_path_factory.mktemp("sair") / "data"
    assert sair.make(folder, TINY)
    return folder
