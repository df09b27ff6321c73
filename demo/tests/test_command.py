"""Nothing that the demo starts outlives it, and no wait is without end."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from demo import command, emulated
from demo.command import CommandError
from demo.emulated import EmulatedTier

PYTHON = sys.executable


def is_running(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone_soon(pid: int) -> bool:
    """Wait for a process to end, for 10 s at most."""
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(pid)


def test_a_late_program_is_ended_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"sleep 600 & echo $! > {note}; wait"
    with pytest.raises(CommandError, match="did not end within 2 s"):
        command.run(["sh", "-c", script], 2)
    assert gone_soon(int(note.read_text()))


def test_a_failure_names_the_program_and_its_status() -> None:
    with pytest.raises(CommandError, match="exit status 7"):
        command.run([PYTHON, "-c", "raise SystemExit(7)"], 60)


def tier(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> EmulatedTier:
    """A tier whose `forebay` is a script."""
    fake = folder / "forebay"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(emulated, "forebay", lambda: str(fake))
    return EmulatedTier(folder, folder / "mnt", folder / "log", Path("lustre.toml"), 1.0, 7)


def test_a_tier_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tier(tmp_path, monkeypatch, "echo no /dev/fuse here >&2; exit 1")
    with pytest.raises(CommandError, match="ended early: no /dev/fuse here"), broken:
        pass


def test_a_tier_that_never_mounts_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulated, "_MOUNT_SECONDS", 0.5)
    silent = tier(tmp_path, monkeypatch, f"echo $$ > {tmp_path}/pid; exec sleep 600")
    with pytest.raises(CommandError, match="nothing is mounted"), silent:
        pass
    assert gone_soon(int((tmp_path / "pid").read_text()))


def test_a_plain_folder_is_not_mounted_and_a_mount_is(tmp_path: Path) -> None:
    odd = tmp_path / "with blank"
    odd.mkdir()
    assert not emulated.is_mounted(odd)
    assert emulated.is_mounted(Path("/proc"))
    emulated.unmount(odd)
