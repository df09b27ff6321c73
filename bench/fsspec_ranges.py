"""Ranges of files through fsspec, against fsspec's own local file system."""

from __future__ import annotations

from fsspec.implementations.local import LocalFileSystem

import forebay
from bench import data
from bench.rounds import alternate, centre, rounds_with_warm_up
from bench.row import Row
from bench.setting import Setting
from forebay.fsspec import ForebayFileSystem

_RANGES = 64
_BYTES = 286_000
_FILES = 8


def measure(setting: Setting) -> list[Row]:
    """The row `fsspec_cat_ranges`."""
    folder = setting.folder / "fsspec"
    origin, cache, index = folder / "origin", folder / "cache", folder / "files.forebay"
    origin.mkdir(parents=True)
    size = setting.size(64 << 20, 4 << 20)
    names = [f"{number}.bin" for number in range(_FILES)]
    for name in names:
        (origin / name).write_bytes(setting.random.bytes(size))
        data.sync(origin / name)
    forebay.index(origin, index, files=True)
    ours, theirs = ForebayFileSystem(index, cache=cache), LocalFileSystem()
    try:
        for name in names:
            ours.cat_file(name)
        rounds = setting.size(200, 6)
        total = rounds_with_warm_up(rounds)
        starts = setting.random.integers(0, size - _BYTES, (2, total, _RANGES)).tolist()
        chosen = [names[number % _FILES] for number in range(_RANGES)]
        local = [str(origin / name) for name in chosen]

        def ends(of: list[int]) -> list[int]:
            return [start + _BYTES for start in of]

        first = starts[0][0]
        if ours.cat_ranges(chosen, first, ends(first)) != theirs.cat_ranges(
            local, first, ends(first)
        ):
            raise RuntimeError("the two file systems give other bytes")

        def subject(number: int) -> None:
            ours.cat_ranges(chosen, starts[0][number], ends(starts[0][number]), on_error="raise")

        def baseline(number: int) -> None:
            theirs.cat_ranges(local, starts[1][number], ends(starts[1][number]), on_error="raise")

        found = alternate(subject, baseline, rounds=rounds, units=1, ping_pong=setting.ping_pong)
    finally:
        data.stop_daemon(cache)
    ratio, spread = centre(found.subject / found.baseline)
    return [
        Row(
            name="fsspec_cat_ranges",
            ratio=ratio,
            target=1.3,
            n=rounds,
            baseline="cat_ranges of fsspec's LocalFileSystem",
            spread=spread,
            conditions=found.conditions(
                ranges=_RANGES, range_bytes=_BYTES, files=_FILES, page_cache="everything in it"
            ),
        )
    ]
