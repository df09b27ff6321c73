"""Sweep emulated tiers in three setups, analyse what was recorded, and check a plan."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.command import CommandError, captured, forebay, run
from demo.emulated import EmulatedTier
from demo.run import PROFILE, Places
from demo.run import main as demo
from demo.tiers.cost import SampleCost

_HERE = Path(__file__).absolute().parent
_SECONDS = 600.0
_PROCESSES = 4
# The plan's job is the demonstration's.
_SAMPLES, _BATCH, _WORKERS, _SCALE, _SEED = 1600, 16, 4, 0.25, 7


@dataclass(frozen=True)
class Setup:
    """A data set on tiers in some state, and where its best cache rate must lie."""

    name: str
    sets: str
    state: str
    step: int
    expected: str

    def is_as_expected(self, best: float) -> bool:
        """Whether the best rate, in percent, lies where it must."""
        between = 0 < best < 100
        return {"between": between, "all": best == 100, "none": best == 0}[self.expected]


SETUPS = (
    Setup("small files, fast origin", "small:512:128KiB:1:12", "fast", 10, "between"),
    Setup("small files, slow origin", "small:512:128KiB:1:12", "slow", 20, "all"),
    Setup("large files, fast origin", "large:16:12MiB:1:2", "fast", 20, "none"),
)


def say(text: str) -> None:
    """Words go to stderr: stdout is for the figures."""
    print(text, file=sys.stderr, flush=True)


def tiers(*words: str) -> None:
    """Run a command of `forebay tiers`."""
    run([forebay(), "tiers", *words], _SECONDS)


def sweep(setup: Setup, out: Path) -> Path:
    """Make the data set, mount both tiers, read at every rate; the records."""
    sources = [out / "gfs", out / "lfs"]
    for source in sources:
        source.mkdir(parents=True, exist_ok=True)
    common = ["--set", setup.sets, "--processes", str(_PROCESSES)]
    tiers("sweep", "--gfs", str(sources[0]), "--lfs", str(sources[1]), *common, "--only", "make")
    records = out / f"{setup.name.replace(', ', '-').replace(' ', '-')}.jsonl"
    profiles = [_HERE / f"gfs-{setup.state}.toml", _HERE / "lfs.toml"]
    mounts = [out / "mnt-gfs", out / "mnt-lfs"]
    with (
        EmulatedTier(sources[0], mounts[0], out / "gfs.log", profiles[0], 1.0, 1) as gfs,
        EmulatedTier(sources[1], mounts[1], out / "lfs.log", profiles[1], 1.0, 2) as lfs,
    ):
        words = ["--gfs", str(gfs), "--lfs", str(lfs), *common, "--only", "run", "--epochs", "2"]
        words += ["--step", str(setup.step), "--state", setup.state, "--output", str(records)]
        tiers("sweep", *words)
    return records


def best_rate(records: Path) -> float:
    """The best cache rate of the one setup in a record file, in percent."""
    answer = answered(["tiers", "whatif", str(records), "--json"])
    return float(answer["setups"][0]["answer"]["best_measured"]["cache_rate"])


def answered(words: list[str]) -> dict[str, Any]:
    """What a command of `forebay` prints as JSON."""
    content: dict[str, Any] = json.loads(captured([forebay(), *words], _SECONDS))
    return content


def analyse(all_records: list[Path], out: Path) -> None:
    """Classes, what-if and the page."""
    first = str(all_records[0])
    tiers("classes", first, "--top", "1")
    words = ["--gain", "GFS-META=50", "--goal", "0.5", "--frontier", "GFS-META,LFS-READ"]
    tiers("whatif", first, *words, "--step", "25")
    page = out / "tiers.html"
    tiers("report", *map(str, all_records), "-o", str(page))
    print(page)


def check_plan(out: Path) -> None:
    """Run the demonstration, forecast it, and set the two side by side."""
    say("plan: training the demonstration on its emulated tier")
    if demo(["--out", str(out), "--samples", str(_SAMPLES), "--scale", str(_SCALE)]) != 0:
        raise CommandError("the demonstration failed")
    cost = SampleCost.of(Places(out), _SAMPLES)
    say(
        f"plan: a sample cost a worker {cost.direct_ms:.1f} ms beside the origin's delays in "
        f"{cost.reads:.2f} reads, and through Forebay {cost.staged_ms:.1f} ms"
    )
    words = ["tiers", "plan", "--origin", str(PROFILE), "--scale", str(_SCALE)]
    words += ["--seed", str(_SEED), "--replay", "--samples", str(_SAMPLES)]
    words += ["--sample-bytes", "286 KB", "--batch", str(_BATCH), "--workers", str(_WORKERS)]
    words += ["--reads-per-sample", f"{cost.reads:.2f}", "--cpu-ms", f"{cost.direct_ms:.2f}"]
    words += ["--staged-cpu-ms", f"{cost.staged_ms:.2f}"]
    words += ["--records", str(out / "records.jsonl"), "--json"]
    for one in answered(words)["compared"]:
        if one["epoch"] is not None:
            continue
        wall = one["forecast_wall_s"] / one["measured_wall_s"] - 1
        stalled = one["forecast_stalled_share"] - one["measured_stalled_share"]
        within = abs(wall) <= 0.10 and abs(stalled) <= 0.02
        print(
            f"plan, {one['path']}: {one['measured_wall_s']:.1f} s measured, "
            f"{one['forecast_wall_s']:.1f} s forecast ({wall:+.1%}); stalled "
            f"{one['measured_stalled_share']:.1%} and {one['forecast_stalled_share']:.1%}: "
            f"{'within' if within else 'NOT within'} 10 % and 2 points"
        )


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Options of the demonstration."""
    parser = argparse.ArgumentParser(prog="demo.tiers", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/tiers-demo"), help="output folder")
    parser.add_argument("--no-plan", action="store_true", help="leave out the plan's check")
    options = parser.parse_args(arguments)
    options.out = options.out.absolute()
    return options


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: all three shapes are as expected; 1: one is not, or something failed."""
    options = parse(arguments)
    began = time.perf_counter()
    options.out.mkdir(parents=True, exist_ok=True)
    shapes = []
    try:
        records = [sweep(setup, options.out) for setup in SETUPS]
        analyse(records, options.out)
        for setup, file in zip(SETUPS, records, strict=True):
            best = best_rate(file)
            holds = setup.is_as_expected(best)
            shapes.append(holds)
            wanted = {"between": "lies between", "all": "is 100 %", "none": "is 0 %"}
            verdict = "as expected" if holds else f"NOT as expected: it {wanted[setup.expected]}"
            print(f"{setup.name}: best cache rate {best:g} %, {verdict}")
        if not options.no_plan:
            check_plan(options.out / "run")
    except (CommandError, OSError) as error:
        say(f"error: {error}")
        return 1
    say(f"done in {time.perf_counter() - began:.0f} s")
    return 0 if all(shapes) else 1
