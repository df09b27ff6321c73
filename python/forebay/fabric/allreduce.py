"""All-reduces without and with I/O beside them: the isolated benchmark.

An iteration waits for its cycle of samples (with I/O), computes for a while, reduces, and computes
for the rest of its window. Computing is sleeping: a GPU that computes takes no part in the traffic.
When in the window the all-reduce comes is drawn anew for each iteration, the same on all ranks, so
that a study samples the whole window and not one phase of it.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import torch
import torch.distributed as dist

from forebay import _plan
from forebay._records import RecordFile
from forebay.fabric import FabricError, recording, tiers
from forebay.fabric.options import Options
from forebay.fabric.world import World, lost_ranks

# How long staging ahead of need is held up by one call, while a phase without I/O runs.
_HOLD_S = 30.0


def run(options: Options, world: World) -> None:
    """Measure every tier with every size of message.

    Raises:
        FabricError: a tier or a rank was lost, or nothing can be written.
    """
    file: RecordFile | None = None
    for named in options.tiers:
        with tiers.opened(named, options, world) as tier:
            if file is None:
                conditions = recording.machine_conditions(options)
                file = recording.begin(options, world, [*_conditions(options), *conditions])
            recording.write(file, "note", text=tier.condition)
            loader, sampler = tiers.loader(
                tier, tiers.size_of, sum, batch=options.samples, options=options, world=world
            )
            feed: Paced | Tight
            batches = tiers.Batches(loader, sampler)
            feed = Paced(batches, options) if options.io == "paced" else Tight(batches)
            try:
                for message in options.messages:
                    _Measured(options, world, file, tier.name, message, feed).all_rounds()
            finally:
                feed.close()
                file.flush()
            if batches.epochs > 1:
                text = (
                    f"tier `{tier.name}`: rank {world.rank} read its samples {batches.epochs} times"
                )
                recording.write(file, "note", text=text)
    if file is not None:
        file.flush()


def _conditions(options: Options) -> list[str]:
    window = f"{1e3 * options.window_s:g} ms"
    if options.io == "paced":
        cycle = options.workers * options.samples
        io = (
            f"I/O as a loader reads: {options.workers} workers x {options.samples} samples = "
            f"{cycle} samples a cycle on each rank, {options.prefetch} cycle(s) ahead."
        )
    else:
        io = f"I/O as fast as it goes, by {options.workers} workers on each rank."
    return [
        io,
        f"Computing is sleeping, {window} an iteration; the all-reduce comes at a drawn place in it.",
        f"Phases without and with I/O take turns {options.rounds} times; "
        f"{options.warm_up // options.rounds} iterations before each are not measured.",
        "An all-reduce counts from when its last rank came to it.",
    ]


class Paced:
    """One cycle of samples for each iteration, as a loader gives them."""

    def __init__(self, batches: tiers.Batches, options: Options) -> None:
        self._batches = batches
        self._of_cycle = options.workers

    def begin(self) -> None:
        """A phase with I/O begins."""

    def pause(self) -> None:
        """A phase without I/O begins: what is in progress ends by itself."""

    def take(self) -> tuple[float | None, int]:
        """The time blocked on the loader for this iteration's cycle, in seconds, and its bytes."""
        asked = time.perf_counter()
        taken = sum(next(self._batches) for _ in range(self._of_cycle))
        return time.perf_counter() - asked, taken

    def close(self) -> None:
        """Nothing runs beside."""


class Tight:
    """A thread that takes batches as fast as they come."""

    def __init__(self, batches: tiers.Batches) -> None:
        self._batches = batches
        self._runs = threading.Event()
        self._ends = False
        self._fault: BaseException | None = None
        self._taken = 0
        self._thread = threading.Thread(target=self._take, name="tight-io", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """A phase with I/O begins."""
        self._runs.set()

    def pause(self) -> None:
        """A phase without I/O begins."""
        self._runs.clear()

    def take(self) -> tuple[float | None, int]:
        """Nothing is waited for; the bytes since the last call.

        Raises:
            FabricError: the tier was lost.
        """
        if self._fault is not None:
            raise FabricError(str(self._fault)) from self._fault
        taken, self._taken = self._taken, 0
        return None, taken

    def close(self) -> None:
        """End the thread."""
        self._ends = True
        self._runs.set()
        self._thread.join(10)

    def _take(self) -> None:
        try:
            while not self._ends:
                self._runs.wait()
                if not self._ends:
                    self._taken += next(self._batches)
        except BaseException as error:
            self._fault = error


class _Measured:
    """One tier with one size of message."""

    def __init__(
        self,
        options: Options,
        world: World,
        file: RecordFile,
        tier: str,
        message: int,
        feed: Paced | Tight,
    ) -> None:
        self._options = options
        self._world = world
        self._file = file
        self._about: dict[str, Any] = {"tier": tier, "rank": world.rank, "message_bytes": message}
        self._feed = feed
        self._message = torch.ones(message // 4, device=world.device)
        # The same on all ranks: they reduce at the same place of their windows.
        self._random = random.Random(options.seed)

    def all_rounds(self) -> None:
        rounds = self._options.rounds
        warm_up = self._options.warm_up // rounds
        for number in range(rounds):
            # What does not divide evenly goes to the first rounds.
            measured = self._options.iterations // rounds
            measured += number < self._options.iterations % rounds
            for phase in ("baseline", "loaded"):
                self._phase(phase, number, warm_up, measured)

    def _phase(self, phase: str, number: int, warm_up: int, measured: int) -> None:
        loaded = phase == "loaded"
        self._feed.begin() if loaded else self._feed.pause()
        hold(not loaded)
        for place in range(warm_up + measured):
            if not loaded:
                hold(True)
            waited, taken = self._feed.take() if loaded else (None, 0)
            window = self._options.window_s
            before = self._random.random() * window
            gate = self._options.gate_s
            if gate is None:
                time.sleep(before)
            else:
                # As a backward pass computes before it has anything to reduce.
                time.sleep(max(0.0, before - gate))
                hold(True)
                time.sleep(min(before, gate))
            took = self._reduce()
            if gate is not None and loaded:
                hold(False)
            time.sleep(window - before)
            if place < warm_up:
                continue
            extra: dict[str, Any] = {} if waited is None else {"wait_s": waited}
            if loaded:
                extra["read_bytes"] = taken
            about = {**self._about, "phase": phase, "round": number, "iteration": place - warm_up}
            recording.write(self._file, "allreduce", **about, seconds=took, **extra)
        hold(False)

    def _reduce(self) -> float:
        """The time of one all-reduce on this rank, in seconds, with what it waits for others."""
        with lost_ranks():
            self._wait_for_device()
            began = time.perf_counter()
            dist.all_reduce(self._message)
            self._wait_for_device()
            took = time.perf_counter() - began
        # Sums of sums would leave the range of the type.
        self._message.fill_(1)
        return took

    def _wait_for_device(self) -> None:
        if self._world.device.type == "cuda":
            torch.cuda.synchronize()


def hold(on: bool) -> None:
    """Hold up staging ahead of need in a phase that is to have no I/O, or let it go on."""
    _plan._yield_until(time.monotonic_ns() + int(_HOLD_S * 1e9) if on else 0)
