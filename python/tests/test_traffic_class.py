"""Packets carry the traffic class that is set, seen on the wire of a network namespace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from on_the_wire import DSCP

from forebay.fabric import data

SCRIPT = Path(__file__).with_name("on_the_wire.py")


def watched(what: str, folder: Path) -> dict[str, Any]:
    if os.geteuid() != 0:
        pytest.skip("network namespaces and packet capture need root")
    if subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no network namespace can be made here")
    data.make(folder / "samples", 2, seed=7)
    line = ["unshare", "--net", sys.executable, str(SCRIPT), what, str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_packets_of_direct_reads_carry_their_class(tmp_path: Path) -> None:
    seen = watched("direct", tmp_path)
    # IPv4 and IPv6; the server's kernel reflects the class, so both directions have it.
    for port in (7004, 7006):
        assert seen[f"to {port}"] == [DSCP] and seen[f"from {port}"] == [DSCP], seen


def test_packets_of_the_daemon_carry_its_class(tmp_path: Path) -> None:
    seen = watched("staged", tmp_path)
    for port in (7004, 7006):
        assert seen[f"to {port}"] == [DSCP] and seen[f"from {port}"] == [DSCP], seen
    # The same command without the setting sends as the system does.
    for port in (7005, 7007):
        assert seen[f"to {port}"] == [0], seen


def test_packets_between_members_carry_their_class(tmp_path: Path) -> None:
    seen = watched("members", tmp_path)
    # Each dials the other, so each port is a server's.
    assert set(seen) & {"to 7010", "to 7011"} and set(seen) & {"to 7020", "to 7021"}
    assert all(classes == [DSCP] for classes in seen.values()), seen
