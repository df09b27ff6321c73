"""Samples of other nodes over libfabric, by the providers that need no device, against our own TCP.

Two jobs of two nodes on this machine hold the same samples; in one blocks go over TCP, in the other
over the fabric. They take turns, and every sample is read once in each, so that none is a replica.
"""

from __future__ import annotations

import json
import os
import subprocess

import numpy as np

import forebay
from bench import data
from bench.remote import CLIENTS, Job, in_turn, pair
from bench.rounds import centre, rounds_with_warm_up
from bench.row import Row, skipped
from bench.setting import Setting
from demo.command import forebay as command

_PROVIDERS = ("tcp", "shm")
_THROUGHPUT = 0.7
_SECONDS = 120.0


def measure(setting: Setting) -> list[Row]:
    """The rows `remote_fabric_*`."""
    rows: list[Row] = []
    for provider in _PROVIDERS:
        name = f"remote_fabric_{provider}"
        if not _offers_reads(provider):
            reason = f"libfabric has no provider `{provider}` here"
            rows += [skipped(name, reason), skipped(f"{name}_one", reason)]
            continue
        rows += [_one(setting, provider), _clients(setting, provider)]
    return rows


def _offers_reads(provider: str) -> bool:
    """Whether libfabric is there and reads memory by this provider."""
    line = [command(), "doctor", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=_SECONDS, check=False)
    sections = json.loads(done.stdout)["sections"]
    items = next(each["items"] for each in sections if each["name"] == "libfabric")
    return any(
        item["name"] == provider and bool((item.get("details") or {}).get("remote_reads"))
        for item in items
    )


def _one(setting: Setting, provider: str) -> Row:
    """One sample at a time by one client, over the fabric and over TCP in turn."""
    rounds = setting.size(400, 6)
    count = rounds_with_warm_up(rounds)
    name = f"remote_fabric_{provider}"
    transport = f"libfabric:{provider}"
    with (
        pair(setting, f"{name}-one", count, transport) as (fabric, reader, _),
        pair(setting, f"{name}-one-tcp", count) as (tcp, other, _),
    ):
        ours, theirs = fabric.open(reader), tcp.open(other)
        out = data.buffer(ours.layout(0)[0])
        order = setting.random.permutation(count).tolist()

        def subject(number: int) -> None:
            ours.read_into(order[number], out)

        def baseline(number: int) -> None:
            theirs.read_into(order[number], out)

        found = setting.arriving(subject, baseline, rounds)
        over_fabric = _over_fabric(fabric, reader)
    ratio, spread = centre(found.baseline / found.subject)
    return Row(
        name=f"{name}_one",
        ratio=ratio,
        target=_THROUGHPUT,
        better="higher",
        n=rounds,
        baseline="the same read over our TCP, one at a time",
        spread=spread,
        conditions=found.conditions(sample_bytes=data.SAMPLE_BYTES, **over_fabric),
    )


def _clients(setting: Setting, provider: str) -> Row:
    """Throughput of eight client processes, over the fabric and over TCP in turn."""
    each = setting.size(60, 4)
    rounds = setting.size(7, 1)
    count = CLIENTS * each * rounds
    name = f"remote_fabric_{provider}"
    with (
        pair(setting, f"{name}-eight", count, f"libfabric:{provider}") as (fabric, reader, _),
        pair(setting, f"{name}-eight-tcp", count) as (tcp, other, _),
    ):
        over_fabric: list[object] = ["read", fabric.index, fabric.caches[reader]]
        over_tcp: list[object] = ["read", tcp.index, tcp.caches[other]]
        seconds = in_turn(setting, over_fabric, over_tcp, rounds, each)
        moved = _over_fabric(fabric, reader)
    ratio, spread = centre(seconds[:, 1] / seconds[:, 0])
    fabric_s, tcp_s = np.median(seconds, axis=0).tolist()
    mebibytes = CLIENTS * each * data.SAMPLE_BYTES / (1 << 20)
    return Row(
        name=name,
        ratio=ratio,
        target=_THROUGHPUT,
        better="higher",
        n=rounds,
        baseline=f"{CLIENTS} clients whose blocks come over our TCP",
        spread=spread,
        conditions={
            "clients": CLIENTS,
            "samples_a_client": each,
            "sample_bytes": data.SAMPLE_BYTES,
            "fabric_mib_a_second": round(mebibytes / fabric_s),
            "tcp_mib_a_second": round(mebibytes / tcp_s),
            "cpus": os.cpu_count(),
            "load_average": round(os.getloadavg()[0], 1),
            **moved,
        },
    )


def _over_fabric(job: Job, reader: int) -> dict[str, object]:
    """What went over the fabric, so that nobody takes a fallback for a measurement."""
    status = forebay.status(job.caches[reader])
    members = [member["fabric"] for member in status["members"] if member.get("fabric")]
    return {
        "provider": status["fabric"]["provider"],
        "fabric_bytes": sum(member["received_bytes"] for member in members),
        "peer_bytes": sum(member.get("received_bytes", 0) for member in status["members"]),
        "failed_reads": sum(member["failed_reads"] for member in members),
    }
