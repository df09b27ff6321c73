"""An emulated slow tier, with faults."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebay._command import find_command


def command(*words: object) -> subprocess.CompletedProcess[str]:
    """Runs `forebay` to its end."""
    program = find_command()
    assert program is not None, "the `forebay` command is not installed"
    line = [program, *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)


@dataclass
class Tier:
    """A mounted tier. It has next to no latency: these tests are about faults."""

    root: Path
    process: subprocess.Popen[str]

    @classmethod
    def mount(cls, source: Path, root: Path) -> Tier:
        root.mkdir()
        program = find_command()
        assert program is not None, "the `forebay` command is not installed"
        line = [program, "emulate", source, root, "--profile", "nvme", "--scale", "0.01"]
        process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said.startswith("mounted on"), said
        return cls(root, process)

    def fault(self, kind: str, *options: object) -> None:
        self.control("fault", kind, *options)

    def clear(self) -> None:
        self.control("clear")

    def held(self) -> int:
        """Requests that hang now."""
        return int(self.control("status")["held"])

    def control(self, *words: object) -> dict[str, Any]:
        done = command("emulate", "ctl", self.root, *words)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def unmount(self) -> None:
        self.clear()
        self.process.terminate()
        assert self.process.wait(60) == 0
        assert self.process.stderr is not None
        self.process.stderr.close()
