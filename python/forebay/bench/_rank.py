"""One rank of one run: iterations, barriers, and the manifest that it leaves."""

from __future__ import annotations

import gc
import inspect
import json
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forebay.bench import _facts, _measure
from forebay.bench._cache import Cache
from forebay.bench._meet import Group, meet
from forebay.bench._registry import Benchmark, find, load
from forebay.bench._spec import Place, Spec, place, read
from forebay.bench._values import BenchError

# Marks a folder that this run made, so that it may go with it.
_MADE_HERE = ".made-for-this-run"

# Parameters of the built-in benchmarks that name what they read.
_READ = ("dataset", "checkpoint")

# Failures in words are kept to so many characters.
_MAX_ERROR = 4_000


@dataclass
class Rank:
    """What a benchmark can ask of its run, through `current()`."""

    spec: Spec
    place: Place
    group: Group
    # Of this rank alone; empty at the first iteration, removed at the end.
    folder: Path
    # Of all ranks of the run, likewise.
    shared: Path
    cache: Cache
    iteration: int = 0
    # What outlives an iteration, such as a model.
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def is_last(self) -> bool:
        """Whether no iteration follows this one."""
        return self.iteration == self.spec.warmup + self.spec.iterations - 1

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` gave when it was first asked for under this name in this run."""
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]


_current: Rank | None = None


def current() -> Rank:
    """The run that this process is a rank of.

    Raises:
        BenchError: it is none.
    """
    if _current is None:
        raise BenchError("no benchmark is running in this process")
    return _current


def barrier() -> None:
    """Wait for all ranks; the wait is a sample of `barrier_wait`. Nothing outside a run.

    Raises:
        MeetError: another rank failed, or the run's time is over.
    """
    if _current is not None:
        with _measure.measured("barrier_wait"):
            _current.group.barrier()


def run(run_json: Path) -> int:
    """Do what `run.json` says as the rank that the environment names; 0 pass, 1 fail.

    Whatever happens, a manifest says so.

    Raises:
        BenchError: `run.json` or the environment cannot be used, so there is no manifest to write.
    """
    spec = read(run_json)
    who = place()
    manifest = _empty(spec, who)
    recorder = _measure.Recorder()
    try:
        _work(spec, who, manifest, recorder)
        manifest["status"] = "fail" if recorder.bad else "pass"
        if recorder.bad:
            manifest["error"] = f"{recorder.bad} of {recorder.checked} things compared are wrong"
    except BaseException as error:
        manifest["error"] = _words(error)
        if not isinstance(error, Exception):
            raise
        if not isinstance(error, BenchError):
            traceback.print_exc()
    finally:
        _measure.use(None)
        manifest["timing"] = recorder.timing()
        manifest["verify"] = {"checked": recorder.checked, "bad": recorder.bad}
        manifest["host"] = _facts.host()
        _write(spec.folder / f"rank-{who.rank:05}.json", manifest)
    if manifest["error"]:
        print(f"rank {who.rank}: {manifest['error']}", file=sys.stderr)
    return 0 if manifest["status"] == "pass" else 1


def _empty(spec: Spec, who: Place) -> dict[str, Any]:
    return {
        "schema": 1,
        "benchmark": spec.benchmark,
        "run_id": spec.run_id,
        "status": "fail",
        "error": None,
        "argv": spec.argv,
        "params": spec.comparable(),
        "host": {},
        "fs": {},
        "dist": {
            "rank": who.rank,
            "local_rank": who.local_rank,
            "world_size": who.world_size,
            "backend": None,
            "init": spec.dist_init,
        },
        "iterations": [],
        "timing": {},
        "cache": Cache(spec.drop_cache).described(),
        "verify": {"checked": 0, "bad": 0},
    }


def _words(error: BaseException) -> str:
    name = type(error).__name__
    told = str(error)
    plain = isinstance(error, BenchError) or type(error).__module__.startswith("forebay.bench")
    return (told if plain and told else f"{name}: {told}")[:_MAX_ERROR]


def _write(path: Path, manifest: dict[str, Any]) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(manifest))
    partial.replace(path)


def _work(spec: Spec, who: Place, manifest: dict[str, Any], recorder: _measure.Recorder) -> None:
    """Everything between the reading of `run.json` and the manifest."""
    global _current
    load([spec.module] if spec.module else [])
    benchmark = find(spec.benchmark, spec.interface)
    # What is fixed by now shows in the manifest, whatever comes.
    values = benchmark.values(spec.params)
    manifest["params"] = {
        **spec.comparable(),
        **{name: _plain(value) for name, value in values.items()},
    }
    group = meet(spec, who, benchmark.engine)
    manifest["dist"]["backend"] = group.backend
    failed = True
    try:
        group.barrier()
        if spec.started_unix_ns:
            recorder.once["gang_start"] = max(0, time.time_ns() - spec.started_unix_ns)
        with _folders(spec, who) as (folder, shared):
            manifest["fs"] = _measured(spec, values, folder)
            rank = Rank(spec, who, group, folder, shared, Cache(spec.drop_cache))
            _current = rank
            _measure.use(recorder)
            try:
                _iterations(rank, benchmark, manifest, recorder)
                # Nobody removes what others may still read.
                group.barrier()
            finally:
                _current = None
                manifest["cache"] = rank.cache.described()
        failed = False
    finally:
        group.close(failed=failed)


def _measured(spec: Spec, values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The file system that is measured: of the files that are named to be read, else the folder's.

    Raises:
        BenchError: it is to be a mount of Forebay and is none.
    """
    named = (values.get(name) for name in _READ)
    there = (one for one in named if isinstance(one, Path) and one != Path() and one.exists())
    path = next(there, folder)
    found = _facts.file_system(path)
    is_mount = found["fstype"].startswith("fuse") and found["source"] == "forebay"
    if spec.interface == "mount" and not is_mount:
        raise BenchError(
            f"`--interface mount` is for files on a mount of Forebay, and `{path}` is on "
            f"`{found['mount']}` of type {found['fstype']}"
        )
    return found


def _plain(value: Any) -> Any:
    if not isinstance(value, Path):
        return value
    # An empty path is how a parameter says that none was named.
    return "" if value == Path() else str(value)


def _given(spec: Spec, who: Place, folder: Path) -> dict[str, Any]:
    return {
        "dataset_path": Path(spec.dataset_path),
        "work_dir": folder,
        "seed": spec.seed,
        "interface": spec.interface,
        "drop_cache": spec.drop_cache,
        "fsync": spec.fsync,
        "rank": who.rank,
        "local_rank": who.local_rank,
        "world_size": who.world_size,
        "iteration": 0,
    }


@contextmanager
def _folders(spec: Spec, who: Place) -> Iterator[tuple[Path, Path]]:
    """A folder of this rank and one of all, removed at the end: those alone that were made here."""
    base = Path(spec.work_dir or spec.dataset_path or spec.folder)
    folder, shared = base / f"rank-{who.rank:05}", base / "shared"
    made: list[Path] = []
    try:
        if not base.is_dir():
            base.mkdir(parents=True, exist_ok=True)
            # Where data is kept, so is its folder.
            if not spec.keep_data:
                base.joinpath(_MADE_HERE).touch()
        folder.mkdir()
        made.append(folder)
        if _made(shared):
            made.append(shared)
    except OSError as error:
        for path in made:
            path.rmdir()
        raise BenchError(f"cannot make `{folder}`: {error.strerror}") from error
    try:
        yield folder, shared
    finally:
        if not spec.keep_data:
            for path in made:
                shutil.rmtree(path, ignore_errors=True)
            _leave(base)


def _leave(base: Path) -> None:
    """The last rank to leave a folder that the run made removes it, whichever rank made it."""
    with suppress(OSError):
        if [path.name for path in base.iterdir()] == [_MADE_HERE]:
            base.joinpath(_MADE_HERE).unlink(missing_ok=True)
            base.rmdir()


def _made(path: Path) -> bool:
    """Make a folder; False where another rank was first."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True


def _iterations(
    rank: Rank, benchmark: Benchmark, manifest: dict[str, Any], recorder: _measure.Recorder
) -> None:
    spec = rank.spec
    total = spec.warmup + spec.iterations
    for i in range(total):
        rank.iteration = i
        given = {**_given(spec, rank.place, rank.folder), "iteration": i}
        arguments = benchmark.arguments(spec.params, given)
        parts = benchmark.function(**arguments) if _is_parts(benchmark) else None
        if parts is not None:
            _next(parts, benchmark, "before its timed part")
        rank.group.barrier()
        started = time.time_ns()
        recorder.begin()
        with _no_collection():
            began = time.perf_counter_ns()
            value = benchmark.function(**arguments) if parts is None else _timed(parts)
            wall = time.perf_counter_ns() - began - recorder.paused_ns
        one = {
            "i": i,
            "warmup": i < spec.warmup,
            "start_unix_ns": started,
            "wall_ns": wall,
            "io_bytes": recorder.io_bytes,
            "ops": recorder.ops,
        }
        barrier()
        samples = recorder.end()
        if parts is not None and value is _MORE:
            value = _finished(parts, benchmark)
        if value is False:
            raise BenchError(f"`{benchmark.name}` returned False in iteration {i}")
        if i >= spec.warmup:
            recorder.keep(samples)
        manifest["iterations"].append(one)
        line = {"iteration": i, "of": total, "wall_ns": wall}
        print(json.dumps(line), file=sys.stderr, flush=True)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Python's collection of garbage would be taken for the time of storage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# What a timed part gives that ended at a `yield`.
_MORE = object()


def _is_parts(benchmark: Benchmark) -> bool:
    return inspect.isgeneratorfunction(inspect.unwrap(benchmark.function))


def _next(parts: Any, benchmark: Benchmark, when: str) -> None:
    try:
        next(parts)
    except StopIteration:
        raise BenchError(f"`{benchmark.name}` must `yield` {when}") from None


def _timed(parts: Any) -> Any:
    try:
        next(parts)
    except StopIteration as end:
        return end.value
    return _MORE


def _finished(parts: Any, benchmark: Benchmark) -> Any:
    try:
        next(parts)
    except StopIteration as end:
        return end.value
    with suppress(Exception):
        parts.close()
    raise BenchError(
        f"`{benchmark.name}` must `yield` twice at most: before and after its timed part"
    )
