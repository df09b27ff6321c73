"""Where the time of a training step goes, measured in anybody's loop."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from forebay._records import RecordFile
from forebay.torch._place import place_in_world

_VARIABLE = "FOREBAY_RECORDS"
# What passes after each event, by the name of the record's field.
_STAGES = ("h2d_s", "forward_s", "backward_s", "optimizer_s", "rest_s")


class StepTimer:
    """Splits each iteration of a training loop into its stages, as the fabric study does.

    Three lines in a loop of your own:

        timer = forebay.torch.StepTimer(model, optimizer, records="records", path="lustre")
        for epoch in range(epochs):
            for batch in timer.batches(loader, epoch):  # in place of `loader`
                loss = criterion(model(batch.to(device)))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        timer.close()

    The stages are told apart by what the model and the optimizer are asked to do:

    - wait: the loop is blocked on its data loader;
    - h2d: from there to the forward pass, which is the copy to the device;
    - forward: inside the model's `forward`;
    - backward: from there to the optimizer's step, which is the backward pass with its all-reduce
      (and the loss, and the clipping of gradients);
    - optimizer: inside the optimizer's `step`;
    - rest: until the next batch is asked for.

    Stages that occur several times in an iteration, as with accumulated gradients, are summed. On
    a GPU the stages are timed by CUDA events on the current stream, and are read one iteration
    later so that nothing is held up; `wait` and the whole are the loop's own time.

    Args:
        model: the module that is called, wrapped in `DistributedDataParallel` or not.
        optimizer: whose `step` ends the backward pass; any that has PyTorch's step hooks.
        records: folder for a file of raw records (`docs/RECORDS.md`), which `forebay fabric report`
            and `forebay report` read. Default: `FOREBAY_RECORDS`, or no file.
        path: name of the way to the data, for the records.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        records: str | os.PathLike[str] | None = None,
        path: str = "train",
    ) -> None:
        self._path = path
        self._rank, world_size = place_in_world(None, None)
        parameter = next(model.parameters(), None)
        self._on_gpu = parameter is not None and parameter.is_cuda
        records = os.environ.get(_VARIABLE) or None if records is None else records
        self._file = None
        if records is not None:
            inputs = {"kind": "train", "rank": self._rank, "world_size": world_size}
            self._file = RecordFile(records, rank=self._rank, inputs=inputs)
        self._step: _Step | None = None
        self._pending: _Step | None = None
        # Modules inside the model may be the model again; only the outermost call counts.
        self._depth = 0
        self._last: dict[str, Any] | None = None
        self._hooks = [
            model.register_forward_pre_hook(self._forward_begins),
            model.register_forward_hook(self._forward_ended),
            optimizer.register_step_pre_hook(self._optimizer_begins),
            optimizer.register_step_post_hook(self._optimizer_ended),
        ]

    @property
    def last(self) -> dict[str, Any] | None:
        """The stages of the iteration that was read last, in seconds; `None` before the first."""
        return self._last

    def batches(self, loader: Iterable[Any], epoch: int = 0) -> Iterator[Any]:
        """The batches of `loader`, each iteration timed.

        Args:
            loader: gives the batches.
            epoch: number of the training epoch, from 0.
        """
        began = time.perf_counter()
        batches = iter(loader)
        iteration = 0
        try:
            while True:
                asked = time.perf_counter()
                batch = next(batches, _END)
                arrived = time.perf_counter()
                if batch is _END:
                    break
                self._step, self._depth = (
                    _Step(epoch + 1, iteration, asked, arrived, self._on_gpu),
                    0,
                )
                yield batch
                self._end()
                iteration += 1
        finally:
            # A loop that ends early leaves its last iteration out: it may not be whole.
            self._step = None
            self._read_pending()
            if iteration and self._file is not None:
                wall = time.perf_counter() - began
                about = {"path": self._path, "epoch": epoch + 1}
                self._file.write("epoch", **about, wall_s=wall, asked_bytes=0)
                self._file.flush()

    def close(self) -> None:
        """Write what is left and take the hooks away."""
        self._read_pending()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self._file is not None:
            self._file.flush()

    def _end(self) -> None:
        step, self._step = self._step, None
        if step is None:
            return
        step.end()
        self._read_pending()
        self._pending = step
        if not self._on_gpu:
            self._read_pending()

    def _read_pending(self) -> None:
        step, self._pending = self._pending, None
        if step is None:
            return
        self._last = step.seconds()
        self._keep(step, self._last)

    def _keep(self, step: _Step, seconds: dict[str, float]) -> None:
        """Write an iteration down."""
        if self._file is not None:
            about = {"path": self._path, "epoch": step.epoch, "iteration": step.iteration}
            recorded = {name: value for name, value in seconds.items() if name != "rest_s"}
            self._file.write("iteration", **about, rank=self._rank, **recorded)

    def _forward_begins(self, *_: Any) -> None:
        self._depth += 1
        if self._depth == 1 and self._step is not None:
            self._step.mark("forward_s")

    def _forward_ended(self, *_: Any) -> None:
        self._depth = max(0, self._depth - 1)
        if self._depth == 0 and self._step is not None:
            self._step.mark("backward_s")

    def _optimizer_begins(self, *_: Any) -> None:
        if self._step is not None:
            self._step.mark("optimizer_s")

    def _optimizer_ended(self, *_: Any) -> None:
        if self._step is not None:
            self._step.mark("rest_s")


_END = object()


class _Step:
    """The marks of one iteration: what began, and when."""

    def __init__(
        self, epoch: int, iteration: int, asked: float, arrived: float, on_gpu: bool
    ) -> None:
        self.epoch = epoch
        self.iteration = iteration
        self._asked = asked
        self._wait_s = arrived - asked
        self._on_gpu = on_gpu
        self._total_s = 0.0
        self._marks: list[tuple[str, Any]] = []
        self.mark("h2d_s")

    def mark(self, begins: str) -> None:
        """From here on the time is that of the stage `begins`."""
        if self._on_gpu:
            event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record()
            self._marks.append((begins, event))
        else:
            self._marks.append((begins, time.perf_counter()))

    def end(self) -> None:
        """The next batch is about to be asked for."""
        self.mark("")
        self._total_s = time.perf_counter() - self._asked

    def seconds(self) -> dict[str, float]:
        """Every stage, the wait and the whole; waits for the device to have done its marks."""
        found = dict.fromkeys(_STAGES, 0.0)
        if self._on_gpu:
            self._marks[-1][1].synchronize()
        for (stage, start), (_, end) in zip(self._marks, self._marks[1:], strict=False):
            found[stage] += start.elapsed_time(end) / 1e3 if self._on_gpu else end - start
        return {"wait_s": self._wait_s, **found, "total_s": self._total_s}
