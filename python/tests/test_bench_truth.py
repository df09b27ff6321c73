"""Whether verdicts are true on an emulated tier: slower reads are found, equal ones are not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tier import Tier, command

TRIALS = 20
RUNS = 10
FILES = 12
READ_MS = 5.0
# By which `Tier.mount` multiplies all times.
TIER_SCALE = 0.01
# Operations whose time the tier makes. Others are of a machine that may be busy otherwise.
OF_TIER = ("read", "file_total")


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Tier]:
    """Files on a tier whose reads take about 5 ms, and vary by 8 %."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("the emulated tier needs root and /dev/fuse")
    source = tmp_path / "source"
    source.mkdir()
    for i in range(FILES):
        (source / f"{i}.dat").write_bytes(os.urandom(4000))
    tier = Tier.mount(source, tmp_path / "slow")
    tier.control("set", "read.sigma=0.08")
    yield tier
    tier.unmount()


def side(folder: Path, tier: Tier, factor: float, numbers: range) -> Path:
    """Runs of md5_check on the tier, with its reads so many times as slow."""
    tier.control("set", f"read.median_ms={READ_MS * factor / TIER_SCALE}")
    work = folder.parent / "work"
    work.mkdir(exist_ok=True)
    read = ["bench", "run", "md5_check", "--dataset", tier.root, "--chunk-size", "64KiB"]
    for i in numbers:
        where = ["--dataset-path", work, "--output-dir", folder / str(i)]
        done = command(*read, "--iterations", 2, *where)
        assert done.returncode == 0, done.stderr
    return folder


def slower(base: Path, candidate: Path) -> list[str]:
    """The operations of the tier that are said to have become slower."""
    words = [word for op in OF_TIER for word in ("--op", op)]
    done = command("bench", "compare", base, candidate, "--json", *words)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    ops = [op["op"] for op in found["groups"][0]["ops"] if op["verdict"] == "regression"]
    assert (done.returncode == 1) == bool(ops)
    return ops


def test_a_slower_tier_is_found(tmp_path: Path, slow: Tier) -> None:
    base = side(tmp_path / "base", slow, 1.0, range(6))
    # So much slower that no busy machine hides it; the soak test below has 30 %.
    assert "read" in slower(base, side(tmp_path / "slower", slow, 4.0, range(6)))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_thirty_percent_are_found_in_19_of_20_trials_on_a_tier(tmp_path: Path, slow: Tier) -> None:
    found = quiet = 0
    for trial in range(TRIALS):
        base, worse, equal = (tmp_path / f"{name}-{trial}" for name in ("base", "slower", "equal"))
        # Side by side, so that what else the machine does is on all of them.
        for i in range(RUNS):
            for folder, factor in ((base, 1.0), (worse, 1.3), (equal, 1.0)):
                side(folder, slow, factor, range(i, i + 1))
        found += "read" in slower(base, worse)
        quiet += not slower(base, equal)
    assert found >= TRIALS - 1, f"found in {found} of {TRIALS} trials"
    assert quiet >= TRIALS - 1, f"no alarm in {quiet} of {TRIALS} trials"
