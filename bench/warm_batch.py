"""A batch of 64 resident samples into one buffer, by one call, against 128 bare reads."""

from __future__ import annotations

import os

from bench import data
from bench.rounds import alternate, centre, rounds_with_warm_up
from bench.row import Row
from bench.setting import Setting

_BATCH = 64


def measure(setting: Setting) -> list[Row]:
    """The row `warm_batch`."""
    warm = setting.warm
    rounds = setting.size(400, 6)
    batch = min(_BATCH, len(warm.dataset))
    size, layouts = warm.dataset.batch_layout(list(range(batch)))
    out = data.buffer(size)
    memory = memoryview(out)
    parts = [
        (
            [memory[edges : edges + data.EDGES_BYTES]],
            [memory[raw : raw + data.RAW_BYTES]],
        )
        for (edges, _), (raw, _) in layouts
    ]
    places, preadv, read_batch_into = warm.places, os.preadv, warm.dataset.read_batch_into
    total, count = rounds_with_warm_up(rounds), len(warm.dataset)
    ours, theirs = (setting.orders(total, batch, count) for _ in range(2))

    def subject(number: int) -> None:
        read_batch_into(ours[number], out)

    def baseline(number: int) -> None:
        for sample, (edges, raw) in zip(theirs[number], parts, strict=True):
            (one, start), (two, second) = places[sample]
            preadv(one, edges, start)
            preadv(two, raw, second)

    found = alternate(subject, baseline, rounds=rounds, units=1, ping_pong=setting.ping_pong)
    ratio, spread = centre(found.subject / found.baseline)
    return [
        Row(
            name="warm_batch",
            ratio=ratio,
            target=1.1,
            n=rounds,
            baseline=f"{2 * batch} bare os.preadv of the same block file",
            spread=spread,
            conditions=found.conditions(
                sample_bytes=data.SAMPLE_BYTES,
                extents=2,
                batch=batch,
                samples=count,
                order="random",
                buffer="one for the batch, reused",
                page_cache="everything in it",
            ),
        )
    ]
