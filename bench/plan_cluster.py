"""A plan of 1,024 nodes with 8 GPUs each: how long its simulation takes."""

from __future__ import annotations

import json
import os
import subprocess
import time

import numpy as np

from bench.rounds import centre
from bench.row import Row
from bench.setting import Setting
from forebay._command import find_command

_ALLOWED_S = 60.0
_NODES = 1024
_GPUS = 8
_SAMPLES = 100_000_000


def measure(setting: Setting) -> list[Row]:
    """The row `plan_cluster`."""
    command = find_command()
    if command is None:
        raise FileNotFoundError("the `forebay` command is not installed")
    rounds = setting.size(3, 1)
    samples = setting.size(_SAMPLES, _SAMPLES // 100)
    line = [command, "tiers", "plan", "--origin", "lustre", "--window", "0.176", "--json"]
    line += ["--nodes", str(_NODES), "--gpus", str(_GPUS)]
    line += ["--samples", str(samples), "--sample-bytes", "286 KB"]
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        done = subprocess.run(line, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
        json.loads(done.stdout)
    value, spread = centre(np.array(times))
    return [
        Row(
            name="plan_cluster",
            ratio=value / _ALLOWED_S,
            target=1.0,
            n=rounds,
            baseline=f"{_ALLOWED_S:g} s, two epochs of {samples} samples, direct and through Forebay",
            spread=spread / _ALLOWED_S,
            value=value,
            unit="s",
            conditions={
                "ranks": _NODES * _GPUS,
                "load_average": round(os.getloadavg()[0], 1),
                "cpus": os.cpu_count(),
            },
        )
    ]
