"""Runs of Python benchmarks for tests: `run.json`, processes of ranks, their manifests."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Long enough for PyTorch on a busy machine; a hang ends before the test's own limit.
DEADLINE_S = 240


@dataclass
class Ended:
    """How the ranks of a run ended."""

    codes: list[int]
    manifests: list[dict[str, Any]]
    errors: list[str]

    def passed(self) -> Ended:
        """Itself, if every rank passed."""
        assert self.codes == [0] * len(self.codes), self.errors
        assert [one["status"] for one in self.manifests] == ["pass"] * len(self.codes)
        return self


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def write_spec(folder: Path, benchmark: str, **more: Any) -> Path:
    """A run's settings in a folder of its own."""
    folder.mkdir(parents=True)
    spec = {
        "schema": 1,
        "benchmark": benchmark,
        "run_id": f"{benchmark}-test",
        "argv": ["forebay", "bench", "run", benchmark],
        "params": {},
        "iterations": 2,
        "warmup": 1,
        "timeout_s": DEADLINE_S,
        "dataset_path": str(folder),
        "work_dir": str(folder / "work"),
    }
    path = folder / "run.json"
    path.write_text(json.dumps({**spec, **more}))
    return path


# PyTorch takes seconds to import, so one process is a rank of several runs in turn.
_IN_TURN = "import sys; from pathlib import Path; from forebay.bench import _rank; print(*[_rank.run(Path(path)) for path in sys.argv[1:]])"


def start(run_json: Path | list[Path], rank: int, ranks: int, port: int) -> subprocess.Popen[str]:
    """One rank of a run, or of several in turn."""
    environment = {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    words = [sys.executable, "-m", "forebay.bench", "rank", str(run_json)]
    if isinstance(run_json, list):
        words = [sys.executable, "-c", _IN_TURN, *map(str, run_json)]
    return subprocess.Popen(
        words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(run_json: Path, processes: list[subprocess.Popen[str]]) -> Ended:
    """Wait for the ranks, and read what they left."""
    try:
        errors = [process.communicate(timeout=DEADLINE_S)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    found = sorted(run_json.parent.glob("rank-*.json"))
    manifests = [json.loads(path.read_text()) for path in found]
    return Ended([process.returncode for process in processes], manifests, errors)


def run(folder: Path, benchmark: str, ranks: int = 1, **more: Any) -> Ended:
    """A whole run."""
    run_json, port = write_spec(folder, benchmark, **more), free_port()
    return finish(run_json, [start(run_json, rank, ranks, port) for rank in range(ranks)])


def run_in_turn(run_jsons: list[Path], ranks: int) -> list[Ended]:
    """Several runs, each after the one before, by the same processes."""
    processes = [start(run_jsons, rank, ranks, 0) for rank in range(ranks)]
    codes = []
    try:
        for process in processes:
            told, errors = process.communicate(timeout=DEADLINE_S)
            codes.append([int(code) for code in told.split()])
            assert process.returncode == 0, errors
    finally:
        for process in processes:
            process.kill()
            process.wait()
    ended = []
    for place, run_json in enumerate(run_jsons):
        found = sorted(run_json.parent.glob("rank-*.json"))
        manifests = [json.loads(path.read_text()) for path in found]
        ended.append(Ended([all[place] for all in codes], manifests, []))
    return ended
