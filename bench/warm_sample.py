"""A resident sample of 286 KB in two extents, into a reused buffer, against two bare reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from bench import data
from bench.rounds import alternate, centre, rounds_with_warm_up
from bench.row import Row
from bench.setting import Setting, Warm

_SAMPLES = 8


def bare_reader(warm: Warm, out: Any) -> Callable[[int], None]:
    """Reads a sample by one `preadv` for each extent, each into its own part of `out`."""
    edges = [memoryview(out)[: data.EDGES_BYTES]]
    raw = [memoryview(out)[data.RAW_AT : data.BUFFER_BYTES]]
    places, preadv = warm.places, os.preadv

    def read(sample: int) -> None:
        (one, start), (two, second) = places[sample]
        preadv(one, edges, start)
        preadv(two, raw, second)

    return read


def measure(setting: Setting) -> list[Row]:
    """The row `warm_sample`."""
    warm = setting.warm
    rounds = setting.size(2000, 20)
    out = data.buffer(data.BUFFER_BYTES)
    bare, read_into = bare_reader(warm, out), warm.dataset.read_into
    # Other samples on each side, so that neither finds what the other left in the CPU's caches.
    total, count = rounds_with_warm_up(rounds), len(warm.dataset)
    ours, theirs = (setting.orders(total, _SAMPLES, count) for _ in range(2))

    def subject(number: int) -> None:
        for sample in ours[number]:
            read_into(sample, out)

    def baseline(number: int) -> None:
        for sample in theirs[number]:
            bare(sample)

    found = alternate(subject, baseline, rounds=rounds, units=_SAMPLES, ping_pong=setting.ping_pong)
    ratio, spread = centre(found.subject / found.baseline)
    return [
        Row(
            name="warm_sample",
            ratio=ratio,
            target=1.15,
            n=rounds,
            baseline="two bare os.preadv of the same block file",
            spread=spread,
            conditions=found.conditions(
                sample_bytes=data.SAMPLE_BYTES,
                extents=2,
                samples=count,
                samples_a_round=_SAMPLES,
                order="random",
                buffer="reused",
                page_cache="everything in it",
            ),
        )
    ]
