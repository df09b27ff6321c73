"""A sample that is not resident: asked of the daemon, staged, read; against a read of the origin.

The origin is in the page cache, so what is measured is what Forebay adds: a wake-up of the daemon
and one back, a write of the blocks to the cache, and the read from there. One wake-up each way is
the machine's own cost, measured beside it, and is taken off.
"""

from __future__ import annotations

import os
from pathlib import Path

import forebay
from bench import data
from bench.rounds import centre, rounds_with_warm_up
from bench.row import Row
from bench.setting import Setting

_ALLOWED_US = 150.0

# For each sample, the file and the blocks to read for each of its extents.
Covering = list[list[tuple[int, data.Extent]]]


def measure(setting: Setting) -> list[Row]:
    """The rows `cold_sample`, one extent, and `cold_sample_two_extents`."""
    rounds = setting.size(600, 8)
    # A round takes one fresh sample for each side.
    count = 2 * rounds_with_warm_up(rounds)
    return [_one_extent(setting, rounds, count), _two_extents(setting, rounds, count)]


def _one_extent(setting: Setting, rounds: int, count: int) -> Row:
    folder = setting.folder / "cold-one"
    folder.mkdir()
    origin, index = folder / "rows.h5", folder / "rows.forebay"
    extents = data.write_rows(origin, count, data.SAMPLE_BYTES, setting.seed)
    forebay.index(origin, index, sample="rows")
    with origin.open("rb") as file:
        covering = [[(file.fileno(), extent.covering())] for extent in extents]
        return _row(setting, "cold_sample", index, folder / "cache", rounds, covering)


def _two_extents(setting: Setting, rounds: int, count: int) -> Row:
    folder = setting.folder / "cold-two"
    folder.mkdir()
    edges, raw = folder / "edges.h5", folder / "raw.h5"
    index = folder / "pairs.forebay"
    first = data.write_groups(edges, "edges", count, data.EDGES_BYTES, setting.seed)
    second = data.write_groups(raw, "raw", count, data.RAW_BYTES, setting.seed + 1)
    forebay.index([edges, raw], index, sample=["edges.h5=*", "raw.h5=*"])
    with edges.open("rb") as one, raw.open("rb") as two:
        covering = [
            [(one.fileno(), a.covering()), (two.fileno(), b.covering())]
            for a, b in zip(first, second, strict=True)
        ]
        name = "cold_sample_two_extents"
        return _row(setting, name, index, folder / "cache", rounds, covering)


def _row(
    setting: Setting, name: str, index: Path, cache: Path, rounds: int, covering: Covering
) -> Row:
    longest = max(extent.length for sample in covering for _, extent in sample)
    space = memoryview(data.buffer(longest))
    # The origin of every sample is looked at once, so that it is in the page cache.
    for sample in covering:
        for descriptor, extent in sample:
            os.preadv(descriptor, [space[: extent.length]], extent.start)
    # Every other sample is the baseline's. Neighbours share a block, which would then be warm, so
    # the subject has those between.
    order = setting.random.permutation(len(covering) // 2).tolist()
    with data.opened(index, cache) as dataset:
        out = data.buffer(dataset.layout(0)[0])

        def subject(number: int) -> None:
            dataset.read_into(2 * order[number], out)

        def baseline(number: int) -> None:
            for descriptor, extent in covering[2 * order[number] + 1]:
                os.preadv(descriptor, [space[: extent.length]], extent.start)

        found = setting.arriving(subject, baseline, rounds)
        status = forebay.status(cache)
    added, spread = centre(found.subject - found.baseline - found.ping_pong)
    return Row(
        name=name,
        ratio=added / _ALLOWED_US,
        target=1.0,
        n=rounds,
        baseline="aligned os.preadv of the origin's blocks, and one ping-pong",
        spread=spread / _ALLOWED_US,
        value=added,
        unit="µs added",
        conditions=found.conditions(
            sample_bytes=data.SAMPLE_BYTES,
            extents=len(covering[0]),
            allowed_us=_ALLOWED_US,
            block_bytes=data.BLOCK_BYTES,
            origin_reads=status["metrics"]["origin_reads"],
            filled_blocks=status["metrics"]["filled_blocks"],
            order="random, each sample once",
            page_cache="the origin in it; the cache written to it",
        ),
    )
