"""HDF5 files: indexing, samples that are read in place or decoded, and flattening, against h5py."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np

import forebay
from bench import data
from bench.rounds import alternate, centre, no_collection, rounds_with_warm_up
from bench.row import Row, skipped
from bench.setting import Setting
from forebay._command import run_command

_GROUPS = 20_000
# A pose of the reference data set, without its edges: 42 KB in two arrays.
_ATOMS = 480
_FEATURES = 19
_SAMPLES = 16
_KERCHUNK = """
import sys
from kerchunk.hdf import SingleHdf5ToZarr
print("imported", flush=True)
SingleHdf5ToZarr(sys.argv[1], inline_threshold=0).translate()
"""
_KERCHUNK_LIMIT_S = 60.0


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _compare(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int
) -> dict[str, Any]:
    """Of work that takes seconds: their time over ours, and both."""
    with no_collection():
        times = np.array([[_timed(theirs), _timed(ours)] for _ in range(rounds)])
    ratio, spread = centre(times[:, 0] / times[:, 1])
    baseline, subject = (round(float(np.median(times[:, side])) * 1e6, 1) for side in (0, 1))
    conditions = {"subject_us": subject, "baseline_us": baseline}
    return {"ratio": ratio, "spread": spread, "n": rounds, "conditions": conditions}


def measure_index(setting: Setting) -> list[Row]:
    """The rows `hdf5_index_kerchunk` and `hdf5_index_h5py`."""
    groups = setting.size(_GROUPS, 200)
    folder = setting.folder / "hdf5-index"
    folder.mkdir()
    file = folder / "a.h5"
    with h5py.File(file, "w") as out:
        for number in range(groups):
            group = out.create_group(f"m{number // 10:05}/{number % 10}")
            group["coord"] = np.zeros((20, 3), "<f4")
            group["feat"] = np.zeros((20, _FEATURES), "<f4")
    data.sync(file)

    def ours() -> None:
        forebay.index(file, folder / "a.forebay", sample="*/*")

    def visit() -> None:
        places = []

        def look(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                offset, size = item.id.get_offset(), item.id.get_storage_size()
                places.append((name, offset, size, item.shape, item.dtype))

        with h5py.File(file, "r") as opened:
            opened.visititems(look)

    found = _compare(ours, visit, setting.size(3, 1))
    words = "h5py, `visititems` with offset, size, shape and type of each, already imported"
    found["conditions"] |= {"data_sets": 2 * groups, "ours": "a process, its start included"}
    rows = [Row("hdf5_index_h5py", target=2.0, better="higher", baseline=words, **found)]
    return [*rows, _against_kerchunk(file, ours, 2 * groups)]


def _against_kerchunk(file: Path, ours: Callable[[], object], data_sets: int) -> Row:
    """Kerchunk takes quarters of an hour for what is indexed in a blink: it is given up."""
    if importlib.util.find_spec("kerchunk") is None:
        return skipped("hdf5_index_kerchunk", "`kerchunk` is not installed")
    line = [sys.executable, "-c", _KERCHUNK, str(file)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as kerchunk:
        try:
            assert kerchunk.stdout and kerchunk.stdout.readline() == "imported\n"
            began = time.perf_counter()
            try:
                code = kerchunk.wait(_KERCHUNK_LIMIT_S)
            except subprocess.TimeoutExpired:
                code = None
            theirs = time.perf_counter() - began
        finally:
            kerchunk.kill()
    if code not in (0, None):
        raise RuntimeError(f"kerchunk failed with {code}")
    took = _timed(ours)
    return Row(
        "hdf5_index_kerchunk",
        ratio=theirs / took,
        target=10.0,
        n=1,
        better="higher",
        baseline="kerchunk, `SingleHdf5ToZarr.translate`, already imported",
        spread=0.0,
        conditions={
            "subject_us": round(took * 1e6, 1),
            "baseline_us": round(theirs * 1e6, 1),
            "baseline_ended": code == 0,
            "data_sets": data_sets,
            "ours": "a process, its start included",
        },
    )


def _write_poses(file: Path, count: int, seed: int, **options: Any) -> list[str]:
    random = np.random.default_rng(seed)
    keys = [f"p{number:05}" for number in range(count)]
    with h5py.File(file, "w") as out:
        for key in keys:
            # Atoms of few kinds in places of three digits, as such files have them.
            coord = random.normal(0, 10, (_ATOMS, 3)).round(3).astype("<f4")
            feat = (random.random((_ATOMS, _FEATURES)) < 0.1).astype("<f4")
            out.create_dataset(f"{key}/coord", data=coord, **options)
            out.create_dataset(f"{key}/feat", data=feat, **options)
    data.sync(file)
    return keys


def _sample_row(setting: Setting, name: str, target: float, **options: Any) -> list[Row]:
    count, rounds = setting.size(500, 32), setting.size(500, 10)
    folder = setting.folder / name
    folder.mkdir()
    file, index = folder / "a.h5", folder / "a.forebay"
    keys = _write_poses(file, count, setting.seed, **options)
    forebay.index(file, index, sample="*")
    total = rounds_with_warm_up(rounds)
    ours, theirs = (setting.orders(total, _SAMPLES, count) for _ in range(2))
    with data.opened(index, folder / "cache") as dataset, h5py.File(file, "r") as opened:
        data.stage_all(dataset)
        for sample in range(0, count, 7):
            for field in ("coord", "feat"):
                wanted = opened[f"{keys[sample]}/{field}"][()]
                if not np.array_equal(dataset[sample][field], wanted):
                    raise RuntimeError(f"sample {sample} has another `{field}` than h5py reads")

        def subject(number: int) -> None:
            for sample in ours[number]:
                dataset[sample]

        def baseline(number: int) -> None:
            for sample in theirs[number]:
                group = opened[keys[sample]]
                group["coord"][()]
                group["feat"][()]

        found = alternate(
            subject, baseline, rounds=rounds, units=_SAMPLES, ping_pong=setting.ping_pong
        )
    ratio, spread = centre(found.baseline / found.subject)
    conditions = found.conditions(
        sample_bytes=_ATOMS * (3 + _FEATURES) * 4,
        data_sets=2,
        samples=count,
        order="random",
        page_cache="everything in it",
        **options,
    )
    words = "h5py, the file open, `group[name][()]` of both data sets"
    row = Row(name, ratio, target, rounds, words, spread, better="higher", conditions=conditions)
    return [row]


def measure_warm(setting: Setting) -> list[Row]:
    """The row `hdf5_warm_sample`."""
    return _sample_row(setting, "hdf5_warm_sample", 8.0)


def measure_lzf(setting: Setting) -> list[Row]:
    """The row `lzf_sample`."""
    return _sample_row(setting, "lzf_sample", 1.5, compression="lzf")


def measure_flatten(setting: Setting) -> list[Row]:
    """The row `flatten_lzf`."""
    wanted = setting.size(setting.flatten_mib, 4) << 20
    count = wanted // (_ATOMS * (3 + _FEATURES) * 4)
    folder = setting.folder / "flatten"
    folder.mkdir()
    file, flat, copied = folder / "a.h5", folder / "flat", folder / "copy.h5"
    _write_poses(file, count, setting.seed, compression="lzf")

    def ours() -> None:
        shutil.rmtree(flat, ignore_errors=True)
        run_command(["flatten", str(file), "--sample", "*", "--output", str(flat), "--json"])

    def theirs() -> None:
        with h5py.File(file, "r") as source, h5py.File(copied, "w") as out:
            for key, group in source.items():
                target = out.create_group(key)
                for name, array in group.items():
                    target.create_dataset(name, data=array[()])
        # As ours does before it says that it is done.
        data.sync(copied)

    found = _compare(ours, theirs, setting.size(2, 1))
    found["conditions"] |= {"bytes": wanted, "samples": count, "synced": "both"}
    words = "h5py, each data set read and written contiguously into one file"
    return [Row("flatten_lzf", target=3.0, better="higher", baseline=words, **found)]
