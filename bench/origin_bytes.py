"""Bytes read from the origin for each byte asked: whole blocks are read, and each once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

import forebay
from bench import data
from bench.rounds import Floats, centre
from bench.row import Row
from bench.setting import Setting

_FILE_BYTES = 8 << 30


def measure(setting: Setting) -> list[Row]:
    """The row `origin_bytes`."""
    samples = setting.size(600, 40)
    contiguous = _contiguous(setting, samples)
    scattered, epoch = _scattered(setting, samples)
    ratio = float(contiguous.sum()) / (samples * data.SAMPLE_BYTES)
    _, spread = centre(contiguous / data.SAMPLE_BYTES)
    return [
        Row(
            name="origin_bytes",
            ratio=ratio,
            target=1.25,
            n=samples,
            baseline="bytes asked",
            spread=spread,
            conditions={
                "sample_bytes": data.SAMPLE_BYTES,
                "extents": 1,
                "block_bytes": data.BLOCK_BYTES,
                "origin_file_bytes": _FILE_BYTES,
                "order": "random samples of a large file, each once",
                "two_extents_ratio": round(scattered, 4),
                "whole_epoch_two_extents_ratio": round(epoch, 4),
            },
        )
    ]


def _contiguous(setting: Setting, samples: int) -> Floats:
    """Origin bytes of each of some samples that lie one after another in a large file."""
    folder = setting.folder / "origin-one"
    folder.mkdir()
    origin, index = folder / "rows.h5", folder / "rows.forebay"
    count = _FILE_BYTES // data.SAMPLE_BYTES
    data.sparse_rows(origin, count, data.SAMPLE_BYTES)
    forebay.index(origin, index, sample="rows")
    return _read(index, folder / "cache", setting.random.permutation(count)[:samples])


def _scattered(setting: Setting, samples: int) -> tuple[float, float]:
    """Ratio for samples of two unaligned extents, far from each other, and of a whole epoch."""
    folder = setting.folder / "origin-two"
    folder.mkdir()
    edges, raw = folder / "edges.h5", folder / "raw.h5"
    index = folder / "pairs.forebay"
    count = 4 * samples
    data.write_groups(edges, "edges", count, data.EDGES_BYTES, setting.seed)
    data.write_groups(raw, "raw", count, data.RAW_BYTES, setting.seed + 1)
    forebay.index([edges, raw], index, sample=["edges.h5=*", "raw.h5=*"])
    apart = setting.random.permutation(np.arange(0, count, 8))
    some = _read(index, folder / "cache-some", apart)
    every = _read(index, folder / "cache-every", setting.random.permutation(count))
    return float(some.mean()) / data.SAMPLE_BYTES, float(every.mean()) / data.SAMPLE_BYTES


def _read(index: Path, cache: Path, order: Iterable[int]) -> Floats:
    """Origin bytes for each sample of `order`."""
    grown = []
    with data.opened(index, cache) as dataset:
        out = data.buffer(dataset.layout(0)[0])
        before = 0
        for sample in order:
            dataset.read_into(int(sample), out)
            status = forebay.status(cache)
            # What a client reads for itself counts too.
            now = int(status["origin_bytes"]) + int(status["direct_bytes"])
            grown.append(now - before)
            before = now
    return np.array(grown, np.float64)
