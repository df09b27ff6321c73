"""A zero-copy view of a resident sample and the sum of its bytes, against a read and the sum."""

from __future__ import annotations

import time

import numpy as np

from bench import data
from bench.rounds import alternate, centre, rounds_with_warm_up
from bench.row import Row
from bench.setting import Setting
from bench.warm_sample import bare_reader

_SAMPLES = 8


def measure(setting: Setting) -> list[Row]:
    """The row `warm_view_sum`."""
    warm = setting.warm
    rounds = setting.size(1500, 20)
    out = data.buffer(data.BUFFER_BYTES)
    # Summed as words of 8 bytes: as single bytes numpy's conversion takes most of the time.
    edges = out[: data.EDGES_BYTES].view(np.uint64)
    raw = out[data.RAW_AT :].view(np.uint64)
    bare, view, add = bare_reader(warm, out), warm.dataset.view, np.add.reduce
    total, count = rounds_with_warm_up(rounds), len(warm.dataset)
    ours, theirs = (setting.orders(total, _SAMPLES, count) for _ in range(2))
    # A page that a process looks at for the first time costs a fault; an epoch later it does not.
    first_us = []
    for sample in range(count):
        began = time.perf_counter_ns()
        arrays = view(sample)
        sums = add(arrays["edges"]), add(arrays["raw"])
        first_us.append((time.perf_counter_ns() - began) / 1e3)
        bare(sample)
        if sums != (add(edges), add(raw)):
            raise RuntimeError(f"view and read of sample {sample} differ")

    def subject(number: int) -> None:
        for sample in ours[number]:
            arrays = view(sample)
            add(arrays["edges"])
            add(arrays["raw"])

    def baseline(number: int) -> None:
        for sample in theirs[number]:
            bare(sample)
            add(edges)
            add(raw)

    found = alternate(subject, baseline, rounds=rounds, units=_SAMPLES, ping_pong=setting.ping_pong)
    ratio, spread = centre(found.subject / found.baseline)
    return [
        Row(
            name="warm_view_sum",
            ratio=ratio,
            target=1.0,
            n=rounds,
            baseline="two bare os.preadv of the same block file, then the same sum",
            spread=spread,
            conditions=found.conditions(
                sample_bytes=data.SAMPLE_BYTES,
                extents=2,
                samples=count,
                samples_a_round=_SAMPLES,
                order="random",
                sum="numpy add.reduce of 64-bit words",
                page_cache="everything in it, every page looked at once before",
                first_look_us=round(float(np.median(first_us)), 3),
            ),
        )
    ]
