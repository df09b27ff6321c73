"""The whole demonstration: data, slow tier, training on both paths, figures and report."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from demo import records, sair, summary
from demo.command import CommandError, forebay, run
from demo.emulated import EmulatedTier
from demo.molecules import MoleculeError

# Times of the emulator's `lustre`, for batches as small as ours: the file says how.
PROFILE = Path(__file__).absolute().with_name("lustre.toml")
PREFETCH_FACTOR = 2
_INDEX_SECONDS = 300.0
_REPORT_SECONDS = 120.0
_TRAIN_SECONDS = 1800.0


@dataclass(frozen=True)
class Places:
    """Where things lie under the output folder."""

    out: Path

    @property
    def data(self) -> Path:
        """The data set, as it would lie on the shared file system."""
        return self.out / "data"

    @property
    def index(self) -> Path:
        """The sample index."""
        return self.out / "sair.forebay"

    @property
    def mount(self) -> Path:
        """The data set through the emulated tier."""
        return self.out / "mnt"

    @property
    def log(self) -> Path:
        """What the emulator says."""
        return self.out / "emulate.log"

    @property
    def cache(self) -> Path:
        """Forebay's cache, on local storage; new for each run."""
        return self.out / "cache"

    @property
    def records(self) -> Path:
        """Raw records of the run."""
        return self.out / "records.jsonl"

    @property
    def report(self) -> Path:
        """The report for a browser."""
        return self.out / "report.html"

    @property
    def summary(self) -> Path:
        """The figures of the run."""
        return self.out / "summary.json"

    def seen(self, path: str) -> Path:
        """What one path delivered: order, digests, losses; and the time of its workers."""
        return self.out / f"seen-{path}.npz"

    def tier(self, path: str) -> Path:
        """What the emulated tier had answered when a path was done."""
        return self.out / f"tier-{path}.json"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the demonstration; `--quick` sets those that were not given."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--samples", type=int, help="samples in the data set (1600)")
    parser.add_argument("--epochs", type=int, default=2, help="epochs on each path (2)")
    parser.add_argument("--batch", type=int, default=16, help="samples in a batch (16)")
    parser.add_argument("--workers", type=int, default=4, help="DataLoader workers (4)")
    parser.add_argument(
        "--scale", type=float, help="multiplies all times of the slow tier (0.25; 0.05 if quick)"
    )
    parser.add_argument("--seed", type=int, default=7, help="of data, order and delays (7)")
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="output folder")
    parser.add_argument("--keep", action="store_true", help="keep the cache at the end")
    parser.add_argument("--quick", action="store_true", help="a tiny run, to see that it works")
    options = parser.parse_args(arguments)
    samples, scale = (96, 0.05) if options.quick else (1600, 0.25)
    options.samples = samples if options.samples is None else options.samples
    options.scale = scale if options.scale is None else options.scale
    for name in ("samples", "epochs", "batch", "workers"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1: {getattr(options, name)}")
    if options.scale < 0:
        parser.error(f"--scale must be at least 0: {options.scale}")
    options.out = options.out.absolute()
    return options


def conditions(options: argparse.Namespace) -> list[str]:
    """What a reader must know to judge the numbers."""
    return [
        f"The origin is an emulated Lustre (demo/{PROFILE.name}) at scale {options.scale:g}, not a "
        "real file system. Readers get no page cache on it (direct I/O); the files below it lie on local storage, "
        "so all slowness is the emulator's.",
        "Both paths read through the same mount with the same workers and in the same order; each "
        "path trains in a process of its own; the Forebay cache is empty at the start.",
        "The cache lies on local storage and may be in the page cache once it has been filled.",
        "Samples are real molecules in synthetic placements, not docked; labels are computed.",
        f"The compute window is a real training step on the CPU with 1 thread, over the "
        f"ligand and its nearest pocket atoms; {options.workers} workers, prefetch factor "
        f"{PREFETCH_FACTOR}, share its cores.",
        "Each sample is digested in the worker, on both paths, within the measured time.",
        "One node, one rank: no all-reduce.",
        "The window of an epoch is the median of total minus wait over its own iterations.",
        "asked_bytes: on path `direct` decoded bytes of all samples; on path `forebay` as Forebay "
        "counts them. origin_bytes: on path `direct` bytes read by the workers' system calls.",
    ]


def make_index(places: Places) -> None:
    """Index the files where they lie."""
    places.index.unlink(missing_ok=True)
    run(
        [
            forebay(),
            "index",
            str(places.data),
            "--sample",
            "raw_*.h5=*/dcomplex/*",
            "--sample",
            "edges_*.h5=*/*",
            "-o",
            str(places.index),
        ],
        _INDEX_SECONDS,
    )


def train(path: str, places: Places, root: Path, options: argparse.Namespace) -> None:
    """Train all epochs on one path, in a new interpreter."""
    settings: dict[str, Any] = {
        "path": path,
        "data": places.data,
        "root": root,
        "index": places.index,
        "cache": places.cache,
        "records": places.records,
        "seen": places.seen(path),
        "epochs": options.epochs,
        "batch": options.batch,
        "workers": options.workers,
        "prefetch": PREFETCH_FACTOR,
        "seed": options.seed,
    }
    words = [word for key, value in settings.items() for word in (f"--{key}", str(value))]
    run([sys.executable, "-m", "demo.train", *words], _TRAIN_SECONDS)


def say(text: str) -> None:
    """Progress goes to stderr: stdout is for the figures."""
    print(text, file=sys.stderr, flush=True)


def prepare(places: Places, options: argparse.Namespace) -> None:
    """The data set, its index, and an empty place for all that the run writes."""
    began = time.perf_counter()
    made = sair.make(places.data, sair.DataOptions(samples=options.samples, seed=options.seed))
    took = f"made in {time.perf_counter() - began:.1f} s" if made else "there from an earlier run"
    say(f"data set of {options.samples} samples in `{places.data}`: {took}")
    began = time.perf_counter()
    make_index(places)
    say(f"index `{places.index}`: made in {time.perf_counter() - began:.1f} s")
    shutil.rmtree(places.cache, ignore_errors=True)
    for file in (places.summary, places.report, *map(places.seen, records.PATHS)):
        file.unlink(missing_ok=True)
    inputs = {
        name: getattr(options, name)
        for name in ("samples", "epochs", "batch", "workers", "scale", "seed")
    }
    manifest = records.manifest(inputs | {"profile": f"demo/{PROFILE.name}"}, conditions(options))
    records.start(places.records, manifest)


def measure(places: Places, options: argparse.Namespace) -> None:
    """Train on both paths over one mount of the emulated tier."""
    tier = EmulatedTier(places.data, places.mount, places.log, PROFILE, options.scale, options.seed)
    with tier as root:
        try:
            for path in records.PATHS:
                say(f"training {options.epochs} epochs, path `{path}`")
                train(path, places, root, options)
                places.tier(path).write_text(tier.status())
        finally:
            # The daemon holds files of the mount open.
            if places.cache.exists():
                stop_daemon(places.cache)


def stop_daemon(cache: Path) -> None:
    """Ask the daemon of `cache` to leave; it would leave by itself when idle."""
    try:
        run([forebay(), "stop", "--cache", str(cache)], 10.0)
    except CommandError as error:
        say(f"warning: {error}")


def conclude(places: Places, options: argparse.Namespace) -> bool:
    """Print the figures, write summary and report. True if all samples were identical."""
    rows = summary.figures(records.read(places.records))
    found = summary.differences(places.seen("direct"), places.seen("forebay"), options.samples)
    content = summary.summary(rows, not found, options.samples, options.seed)
    summary.write(places.summary, content)
    # It prints the table, too.
    run([forebay(), "report", str(places.records), "-o", str(places.report)], _REPORT_SECONDS)
    every = options.samples * options.epochs
    print(f"identical: {not found} ({every} samples compared by digest on both paths)")
    print(f"{places.summary}\n{places.report}")
    for difference in found:
        say(f"error: the paths differ in {difference}")
    return not found


def _terminated(number: int, _frame: object) -> NoReturn:
    # As an exception, so that every `finally` runs and the tier is unmounted.
    raise SystemExit(128 + number)


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: done and identical; 1: failed or different; 2: wrong usage; 130: stopped."""
    options = parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)
    places = Places(options.out)
    try:
        prepare(places, options)
        measure(places, options)
        identical = conclude(places, options)
    except (CommandError, MoleculeError, sair.DataError) as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("stopped")
        return 130
    finally:
        if not options.keep:
            shutil.rmtree(places.cache, ignore_errors=True)
    return 0 if identical else 1


if __name__ == "__main__":
    sys.exit(main())
