"""The fabric study in miniature: real sockets, real collectives, a real storage server.

Each condition of the study runs with its own shaping of the links; a run of `forebay fabric` in the
namespaces of the hosts measures it, phases without I/O in between.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from demo.command import CommandError, forebay, run
from demo.fabric.conditions import CONDITIONS, NOT_SHOWN, Condition, judge
from demo.fabric.net import STORAGE_ADDRESS, STORAGE_DSCP, Fabric, NoFabric, why_not
from demo.fabric.process import Process
from demo.run import _terminated, say

_PORT = 8080
_MEETING_PORT = 29_500
# Bytes of a sample, as `forebay fabric data` makes it.
_SAMPLE_BYTES = 285_924
# Samples are not aligned to blocks: small blocks keep what is read beside them small.
_BLOCK_BYTES = 16_384


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the miniature; `--quick` sets those that were not given."""
    parser = argparse.ArgumentParser(prog="demo.fabric", description=__doc__)
    add = parser.add_argument
    add("--out", type=Path, default=Path("out/fabric"), help="output folder")
    add("--hosts", type=int, default=3, help="compute hosts beside the storage host (3)")
    add("--rate-mbit", type=int, default=100, help="of each compute host's link (100)")
    add("--queue-kb", type=int, default=1500, help="of each class of a link (1500)")
    add("--window-ms", type=float, default=520, help="time that an iteration computes (520)")
    add("--workers", type=int, default=8, help="loader workers of each host (8)")
    add("--samples", type=int, default=2, help="samples of a worker in a cycle (2)")
    add("--iterations", type=int, help="measured all-reduces of a phase (100; 12 if quick)")
    add("--train-iterations", type=int, help="measured training iterations (48; 8 if quick)")
    add("--warm-up", type=int, help="iterations before those, over all rounds (20; 4 if quick)")
    add("--rounds", type=int, help="turns of phases (4; 2 if quick)")
    add("--message", default="76KB", help="bytes of an all-reduce (76KB)")
    add(
        "--tail",
        type=float,
        default=0.004,
        help="share of the server's reads that are slow (0.004)",
    )
    add("--tail-ms", type=float, nargs=2, default=[500.0, 4000.0], help="how slow (500 4000)")
    add(
        "--look-ahead-rate",
        type=float,
        default=0.92,
        help="ceiling of staging, as a share of the link (0.92)",
    )
    add(
        "--gate-ms", type=float, default=100, help="staging holds so long before a collective (100)"
    )
    add("--seed", type=int, default=7)
    add("--only", action="append", choices=["allreduce", "train"], help="one half of the study")
    add("--keep", action="store_true", help="keep samples and caches")
    add(
        "--quick",
        action="store_true",
        help="a short run, to see that it works: no numbers to quote",
    )
    options = parser.parse_args(arguments)
    usual = {
        "iterations": (100, 12),
        "train_iterations": (48, 8),
        "warm_up": (20, 4),
        "rounds": (4, 2),
    }
    for name, (full, quick) in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else full)
    options.only = options.only or ["allreduce", "train"]
    options.out = options.out.absolute()
    return options


class Study:
    """One run of the miniature."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.out: Path = options.out
        self.records = self.out / "records"
        self.data = self.out / "samples"
        self._index = self.out / "samples.forebay"

    def of_cycle(self) -> int:
        """Samples that a host takes for one iteration."""
        return int(self._options.workers * self._options.samples)

    def used(self, command: str) -> int:
        """Samples that all hosts read in one pass: exactly, so that a warm pass finds them all."""
        options = self._options
        measured = options.iterations if command == "allreduce" else options.train_iterations
        warm_up = options.warm_up // options.rounds * options.rounds
        return int((measured + warm_up) * self.of_cycle() * options.hosts)

    def prepare(self) -> None:
        """Fresh records, and the samples."""
        for folder in (self.records, self.data, *self.out.glob("cache-*")):
            shutil.rmtree(folder, ignore_errors=True)
        self.records.mkdir(parents=True)
        wanted = max(self.used(command) for command in self._options.only)
        say(f"making {wanted} samples, {wanted * _SAMPLE_BYTES / 1e6:,.0f} MB")
        words = ["fabric", "data", str(self.data), "--samples", str(wanted), "--seed", "7"]
        run([forebay(), *words], 600)

    def measure(self) -> None:
        """Every condition."""
        options = self._options
        with ExitStack() as stack:
            net = stack.enter_context(
                Fabric(options.hosts, options.rate_mbit, 1000 * options.queue_kb)
            )
            stack.enter_context(self._server(net))
            self._make_index(net)
            for command in options.only:
                for condition in CONDITIONS:
                    if command == "train" and condition.kind == "shm":
                        continue
                    names = ", ".join(condition.tiers)
                    say(f"{command}: {names}")
                    net.shape(condition.shape)
                    with ExitStack() as daemons:
                        if condition.is_staged:
                            for host in range(options.hosts):
                                daemons.enter_context(self._daemon(net, host, command))
                        self._run(net, command, condition)
                        if condition.is_staged:
                            self._keep_status(command)

    def _server(self, net: Fabric) -> Process:
        options = self._options
        words = [
            sys.executable,
            "-m",
            "demo.fabric.origin",
            str(self.data),
            "--address",
            STORAGE_ADDRESS,
        ]
        words += ["--port", str(_PORT), "--tail", str(options.tail), "--seed", str(options.seed)]
        words += ["--tail-ms", *map(str, options.tail_ms)]
        log = self.out / "storage.log"
        return Process(net.on_storage(words), log, ready=lambda: "serving" in log.read_text())

    def _make_index(self, net: Fabric) -> None:
        listed = self.out / "samples.txt"
        url = f"http://{STORAGE_ADDRESS}:{_PORT}"
        listed.write_text(
            "".join(f"{url}/{file.name}\n" for file in sorted(self.data.glob("*.npz")))
        )
        self._index.unlink(missing_ok=True)
        words = ["index", "--list", str(listed), "--sample", "rows", "--output", str(self._index)]
        words += ["--block-size", str(_BLOCK_BYTES)]
        run(net.on_host(0, [forebay(), *words]), 300)

    def _daemon(self, net: Fabric, host: int, command: str) -> Process:
        cache = self._cache(host, command)
        ceiling = int(self._options.look_ahead_rate * self._options.rate_mbit * 1e6 / 8)
        words = ["serve", "--cache", str(cache), "--dscp", str(STORAGE_DSCP)]
        words += ["--look-ahead-rate", str(ceiling), "--idle-exit-seconds", "0"]
        words += ["--capacity", "8 GB"]
        probe = [forebay(), "status", "--cache", str(cache)]

        def answers() -> bool:
            return (
                subprocess.run(probe, capture_output=True, check=False, timeout=20).returncode == 0
            )

        log = self.out / f"daemon-{host}.log"
        return Process(net.on_host(host, [forebay(), *words]), log, ready=answers)

    def _keep_status(self, command: str) -> None:
        """What the daemons counted, for whoever wants to know how much was staged."""
        for host in range(self._options.hosts):
            probe = [forebay(), "status", "--json", "--cache", str(self._cache(host, command))]
            done = subprocess.run(probe, capture_output=True, text=True, check=False, timeout=20)
            (self.out / f"daemon-{command}-{host}.json").write_text(done.stdout)

    def _cache(self, host: int, command: str) -> Path:
        return self.out / f"cache-{command}-{host}"

    def _run(self, net: Fabric, command: str, condition: Condition) -> None:
        options = self._options
        words = ["fabric", command, "--out", str(self.records), "--backend", "gloo"]
        for tier in condition.tiers:
            where = {"shm": "shm", "web": f"http://{STORAGE_ADDRESS}:{_PORT}"}
            words += ["--tier", f"{tier}={where.get(condition.kind, self._index)}"]
        if condition.is_staged:
            words += ["--gate-ms", str(options.gate_ms)]
        if condition.kind == "web" and condition.shape != "shared":
            words += ["--dscp", str(STORAGE_DSCP)]
        for name in ("workers", "rounds", "window_ms", "warm_up", "seed"):
            words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
        if command == "allreduce":
            words += ["--iterations", str(options.iterations), "--message", options.message]
            words += [
                "--samples",
                str(options.samples),
                "--samples-made",
                str(self.of_cycle() * options.hosts * 4),
            ]
        else:
            words += [
                "--iterations",
                str(options.train_iterations),
                "--batch",
                str(self.of_cycle()),
            ]
            # A worker reads a whole batch: few ahead, or a phase without I/O would begin with it.
            words += ["--workers", str(max(1, options.workers // 2)), "--prefetch", "1"]
        words += ["--order", "kept", "--use", str(self.used(command)), "--timeout", "120"]
        for note in self._notes(condition):
            words += ["--note", note]
        self._ranks(net, command, words)

    def _notes(self, condition: Condition) -> list[str]:
        options = self._options
        rate, queue = options.rate_mbit, options.queue_kb
        names = " and ".join(f"`{tier}`" for tier in condition.tiers)
        how = {
            "shared": "storage and collectives in one class with one queue",
            "50/50": "collectives and storage in classes of their own with half of the link each, either may borrow",
            "90/10": "collectives and storage in classes of their own with 90 % and 10 % of the link, either may borrow",
        }[condition.shape]
        demand = self.of_cycle() * _SAMPLE_BYTES / (options.window_ms / 1e3) / (rate * 1e6 / 8)
        return [
            f"A miniature: {options.hosts} compute hosts and a storage host as network namespaces on one "
            f"bridge; the compute hosts' links have {rate} Mbit/s each way, {queue} KB of queue in each class, "
            "and reno; the storage host's link is not shaped.",
            f"A host's loader asks for {demand:.0%} of its link's bandwidth.",
            f"{options.tail:.2%} of the storage server's reads are late by {options.tail_ms[0]:g} to "
            f"{options.tail_ms[1]:g} ms (Pareto, alpha 0.5, seeded); the others are as fast as the network.",
            f"Staging ahead of need is held to {options.look_ahead_rate:.0%} of the link, in the class of "
            f"code point {STORAGE_DSCP}, and holds from {options.gate_ms:g} ms before each collective (in training: "
            "during the backward pass); each host stages what it reads itself.",
            f"{names}: {how}.",
        ]

    def _ranks(self, net: Fabric, command: str, words: Sequence[str]) -> None:
        """One rank on each host; if one fails the others are ended."""
        hosts = self._options.hosts
        # A slow link slows a phase down; nothing goes on for ever.
        each = self._options.window_ms / 1e3 * (self._options.iterations + self._options.warm_up)
        deadline = time.monotonic() + 300 + 40 * each
        with ExitStack() as stack:
            started = []
            for host in range(hosts):
                env = {
                    "RANK": str(host),
                    "WORLD_SIZE": str(hosts),
                    "LOCAL_RANK": "0",
                    "MASTER_ADDR": net.address(0),
                    "MASTER_PORT": str(_MEETING_PORT),
                    "GLOO_SOCKET_IFNAME": "eth1",
                    "FOREBAY_CACHE": str(self._cache(host, command)),
                }
                process = Process(
                    net.on_host(host, [forebay(), *words]), self.out / f"rank-{host}.log", env=env
                )
                started.append(stack.enter_context(process))
            self._wait(started, deadline)

    def _wait(self, started: list[Process], deadline: float) -> None:
        """Until all ranks have ended well; the one that ends badly first is the cause."""
        while True:
            codes = [each.code() for each in started]
            for host, code in enumerate(codes):
                if code not in (None, 0):
                    raise CommandError(f"host {host}: {started[host].words()}")
            if all(code == 0 for code in codes):
                return
            if time.monotonic() > deadline:
                raise CommandError("the ranks did not end in time: see rank-*.log")
            time.sleep(0.2)


def report(study: Study) -> dict[str, Any]:
    """The page, the tables, and the summary."""
    page = study.out / "report.html"
    words = ["fabric", "report", str(study.records), "--output", str(page)]
    for sentence in NOT_SHOWN:
        words += ["--not-shown", sentence]
    run([forebay(), *words, "--title", "Storage and collectives on one fabric, in miniature"], 120)
    done = subprocess.run(
        [forebay(), "fabric", "report", str(study.records), "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    (study.out / "summary.json").write_text(done.stdout)
    found: dict[str, Any] = json.loads(done.stdout)
    print(page)
    return found


def without_fabric(study: Study, reason: str) -> int:
    """What works without namespaces: collectives over loopback, beside tiers of this machine."""
    say(f"error: the miniature fabric cannot be made here: {reason}")
    say("what works without it: all-reduces over loopback beside shm and a local folder")
    shutil.rmtree(study.records, ignore_errors=True)
    words = [
        "fabric",
        "allreduce",
        "--ranks",
        "2",
        "--out",
        str(study.records),
        "--backend",
        "gloo",
    ]
    study.out.mkdir(parents=True, exist_ok=True)
    words += ["--tier", "shm=shm", "--tier", f"local folder={study.out}", "--workers", "2"]
    words += ["--iterations", "40", "--warm-up", "20", "--window-ms", "50", "--samples-made", "256"]
    words += ["--note", f"Over loopback, without the miniature fabric: {reason}."]
    run([forebay(), *words], 600)
    report(study)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: done, targets met; 1: failed, or a target missed; 130: stopped."""
    options = parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)
    study = Study(options)
    try:
        reason = why_not()
        if reason is not None:
            return without_fabric(study, reason)
        began = time.perf_counter()
        study.prepare()
        try:
            study.measure()
        except NoFabric as error:
            return without_fabric(study, str(error))
        summary = report(study)
        say(f"done in {time.perf_counter() - began:.0f} s")
        return 0 if judge(summary) or options.quick else 1
    except (CommandError, OSError, subprocess.SubprocessError) as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("stopped")
        return 130
    finally:
        if not options.keep:
            for folder in (study.data, *study.out.glob("cache-*")):
                shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
