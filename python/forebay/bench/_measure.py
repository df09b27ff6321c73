"""Nanosecond clocks around functions and blocks, and what becomes of them."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")

_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


class Recorder:
    """Samples of all operations of one rank, by iteration. It records only while it is open."""

    def __init__(self) -> None:
        self._open: dict[str, list[int]] | None = None
        self._done: list[dict[str, list[int]]] = []
        self.io_bytes = 0
        self.ops = 0
        self.checked = 0
        self.bad = 0
        self.paused_ns = 0
        # What is measured once in a run, by its operation.
        self.once: dict[str, int] = {}

    def begin(self) -> None:
        """Begin the timed part of an iteration."""
        self._open = {}
        self.io_bytes = self.ops = self.paused_ns = 0

    def pause(self) -> dict[str, list[int]] | None:
        """Record nothing until `resume`, which takes what this returns."""
        kept, self._open = self._open, None
        return kept

    def resume(self, kept: dict[str, list[int]] | None, nanoseconds: int) -> None:
        """Go on after a pause of this length."""
        self._open = kept
        self.paused_ns += nanoseconds

    def end(self) -> dict[str, list[int]]:
        """End the timed part."""
        found, self._open = self._open or {}, None
        return found

    def keep(self, samples: dict[str, list[int]]) -> None:
        """Let the samples of an iteration that is no warm-up count."""
        self._done.append(samples)

    def add(self, op: str, nanoseconds: int) -> None:
        """One sample; threads may add at one time."""
        if self._open is not None:
            self._open.setdefault(op, []).append(nanoseconds)

    def timing(self) -> dict[str, dict[str, Any]]:
        """Statistics and raw samples of each operation, as manifests have them."""
        names = sorted({op for samples in self._done for op in samples})
        found = {op: statistics([one.get(op, []) for one in self._done]) for op in names}
        if self._done:
            found |= {op: statistics([[nanoseconds]]) for op, nanoseconds in self.once.items()}
        return found


def statistics(iterations: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Statistics of samples in nanoseconds; a percentile is the nearest rank."""
    samples = [sample for one in iterations for sample in one]
    ordered = sorted(samples)

    def at(share: float) -> int:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0

    return {
        "unit": "ns",
        "count": len(samples),
        "mean": sum(samples) / max(1, len(samples)),
        "min": at(0.0),
        "max": at(1.0),
        **{name: at(share) for name, share in _PERCENTILES.items()},
        "samples": samples,
        "iteration": [len(one) for one in iterations],
    }


# The recorder of the rank that runs in this process.
_recorder: Recorder | None = None


def use(recorder: Recorder | None) -> None:
    """Let what is measured go to this recorder."""
    global _recorder
    _recorder = recorder


class measured:
    """Time a block as one sample of an operation: `with measured("write"): …`

    Blocks may lie in each other. Outside the timed part of a benchmark nothing is recorded, and a
    block that fails is no sample.
    """

    # A class, since a generator would cost as much as a small system call.
    __slots__ = ("_began", "_op")

    def __init__(self, op: str) -> None:
        self._op = op

    def __enter__(self) -> None:
        self._began = time.perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        took = time.perf_counter_ns() - self._began
        if kind is None and _recorder is not None:
            _recorder.add(self._op, took)


@overload
def measurable(function: Callable[P, R]) -> Callable[P, R]: ...
@overload
def measurable(*, name: str) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def measurable(
    function: Callable[P, R] | None = None, *, name: str = ""
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Time every call of a function within a benchmark, in nanoseconds.

    Each call is a sample of the operation `name`, or of the function's name without leading
    underscores. Measurable functions may call each other: each counts its own whole time. A call
    that fails is no sample.
    """

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        op = name or function.__name__.lstrip("_")

        @functools.wraps(function)
        def timed(*arguments: P.args, **named: P.kwargs) -> R:
            recorder = _recorder
            if recorder is None:
                return function(*arguments, **named)
            began = time.perf_counter_ns()
            result = function(*arguments, **named)
            recorder.add(op, time.perf_counter_ns() - began)
            return result

        return timed

    return wrap if function is None else wrap(function)


def sample(op: str, nanoseconds: int) -> None:
    """Add a sample of an operation whose parts were timed one by one."""
    if _recorder is not None:
        _recorder.add(op, nanoseconds)


@contextmanager
def untimed() -> Iterator[None]:
    """Stop the clock of the iteration for a block, and record nothing in it."""
    recorder = _recorder
    if recorder is None:
        yield
        return
    began = time.perf_counter_ns()
    kept = recorder.pause()
    try:
        yield
    finally:
        recorder.resume(kept, time.perf_counter_ns() - began)


@contextmanager
def apart() -> Iterator[None]:
    """Leave a block out of the iteration's own time, and record its operations all the same."""
    began = time.perf_counter_ns()
    try:
        yield
    finally:
        if _recorder is not None:
            _recorder.paused_ns += time.perf_counter_ns() - began


def count(*, io_bytes: int = 0, ops: int = 0) -> None:
    """Add to the bytes and operations of this iteration, from which rates are made."""
    if _recorder is not None:
        _recorder.io_bytes += io_bytes
        _recorder.ops += ops


def verified(checked: int = 1, *, bad: int = 0) -> None:
    """Add to what was compared with what it should be. Any `bad` fails the run."""
    if _recorder is not None:
        _recorder.checked += checked
        _recorder.bad += bad
