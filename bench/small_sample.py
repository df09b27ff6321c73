"""A resident sample of 4 KB, where what is not the read itself weighs most."""

from __future__ import annotations

import os

import forebay
from bench import data
from bench.rounds import alternate, centre, rounds_with_warm_up
from bench.row import Row
from bench.setting import Setting

_BYTES = 4096
_SAMPLES = 64
_ALLOWED_US = 2.0


def measure(setting: Setting) -> list[Row]:
    """The row `small_sample`."""
    folder = setting.folder / "small"
    folder.mkdir()
    origin, index = folder / "small.h5", folder / "small.forebay"
    extents = data.write_rows(origin, setting.size(20_000, 1000), _BYTES, setting.seed)
    forebay.index(origin, index, sample="rows")
    with data.opened(index, folder / "cache") as dataset:
        data.stage_all(dataset)
        blocks = data.BlockFiles(folder / "cache")
        try:
            return _measure(setting, dataset, blocks.locate(origin, extents))
        finally:
            blocks.close()


def _measure(
    setting: Setting, dataset: forebay.Dataset, places: list[tuple[int, int]]
) -> list[Row]:
    rounds = setting.size(2000, 20)
    out = data.buffer(_BYTES)
    into, read_into, preadv = [memoryview(out)], dataset.read_into, os.preadv
    total, count = rounds_with_warm_up(rounds), len(dataset)
    ours, theirs = (setting.orders(total, _SAMPLES, count) for _ in range(2))

    def subject(number: int) -> None:
        for sample in ours[number]:
            read_into(sample, out)

    def baseline(number: int) -> None:
        for sample in theirs[number]:
            descriptor, start = places[sample]
            preadv(descriptor, into, start)

    found = alternate(subject, baseline, rounds=rounds, units=_SAMPLES, ping_pong=setting.ping_pong)
    added, spread = centre(found.subject - found.baseline)
    return [
        Row(
            name="small_sample",
            ratio=added / _ALLOWED_US,
            target=1.0,
            n=rounds,
            baseline="bare os.preadv of the same block file",
            spread=spread / _ALLOWED_US,
            value=added,
            unit="µs added",
            conditions=found.conditions(
                sample_bytes=_BYTES,
                allowed_us=_ALLOWED_US,
                samples=count,
                samples_a_round=_SAMPLES,
                order="random",
                buffer="reused",
                page_cache="everything in it",
            ),
        )
    ]
