"""What the rows share: a folder for their files, the ping-pong, and the warm data set."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np

import forebay
from bench import data
from bench.memory import BackedMemory
from bench.ping_pong import PingPong
from bench.rounds import Rounds, alternate

T = TypeVar("T")


@dataclass(frozen=True)
class Warm:
    """Samples of two extents, all resident and in the page cache."""

    dataset: forebay.Dataset
    # For each sample, descriptor and offset in the block files of its two extents.
    places: list[tuple[tuple[int, int], tuple[int, int]]]


class Setting:
    """Of one run of the benchmarks."""

    def __init__(self, folder: Path, ping_pong: PingPong, *, quick: bool, seed: int) -> None:
        self.folder = folder
        self.ping_pong = ping_pong
        self.quick = quick
        self.seed = seed
        # Decoded bytes of the file that is flattened.
        self.flatten_mib = 1024
        self.random = np.random.default_rng(seed)
        self.memory = BackedMemory()
        self._at_end = ExitStack()

    def size(self, whole: int, quick: int) -> int:
        """A number of things: `quick` of them in a quick run."""
        return quick if self.quick else whole

    def enter(self, context: AbstractContextManager[T]) -> T:
        """What the context gives; it ends when the benchmarks do."""
        return self._at_end.enter_context(context)

    def close(self) -> None:
        """Stop what the rows share."""
        self._at_end.close()

    def arriving(
        self,
        subject: Callable[[int], None],
        baseline: Callable[[int], None],
        rounds: int,
        rest_s: float = 0.0,
    ) -> Rounds:
        """Time reads that take blocks in, one a round, over free memory that the host holds."""
        return alternate(
            subject,
            baseline,
            rounds=rounds,
            units=1,
            ping_pong=self.ping_pong,
            memory=self.memory,
            rest_s=rest_s,
        )

    def orders(self, rounds: int, units: int, samples: int) -> list[list[int]]:
        """For each round, `units` samples at random."""
        drawn: list[list[int]] = self.random.integers(0, samples, (rounds, units)).tolist()
        return drawn

    @cached_property
    def warm(self) -> Warm:
        """Made when a row first asks for it."""
        count = self.size(400, 40)
        folder = self.folder / "warm"
        folder.mkdir()
        edges, raw = folder / "edges.h5", folder / "raw.h5"
        extents = {
            edges: data.write_groups(edges, "edges", count, data.EDGES_BYTES, self.seed),
            raw: data.write_groups(raw, "raw", count, data.RAW_BYTES, self.seed + 1),
        }
        index = folder / "warm.forebay"
        forebay.index([edges, raw], index, sample=["edges.h5=*", "raw.h5=*"])
        dataset = self._at_end.enter_context(data.opened(index, folder / "cache"))
        data.stage_all(dataset)
        blocks = data.BlockFiles(folder / "cache")
        self._at_end.callback(blocks.close)
        places = [blocks.locate(file, extents[file]) for file in (edges, raw)]
        warm = Warm(dataset, list(zip(*places, strict=True)))
        self._check(warm)
        return warm

    def _check(self, warm: Warm) -> None:
        """Both sides must read the same bytes, into the same places of the buffer."""
        size, layout = warm.dataset.layout(0)
        if size != data.BUFFER_BYTES or [at for at, _ in layout] != [0, data.RAW_AT]:
            raise RuntimeError(f"samples have another layout than expected: {size}, {layout}")
        out = data.buffer(size)
        for sample, places in enumerate(warm.places):
            warm.dataset.read_into(sample, out)
            read = [out[: data.EDGES_BYTES], out[data.RAW_AT :]]
            for (descriptor, start), field in zip(places, read, strict=True):
                if os.pread(descriptor, len(field), start) != field.tobytes():
                    raise RuntimeError(f"sample {sample} is not where the bare reads look")


@contextmanager
def prepared(out: Path, *, quick: bool, seed: int) -> Iterator[Setting]:
    """A setting whose files lie in a new folder under `out` and are removed at the end."""
    out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="work-", dir=out))
    try:
        with PingPong() as ping_pong:
            setting = Setting(folder, ping_pong, quick=quick, seed=seed)
            try:
                yield setting
            finally:
                setting.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
