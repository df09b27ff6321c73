"""`python -m forebay.bench`: what `forebay bench` asks of Python.

rank RUN.JSON                   be a rank of a run; exit 0 pass, 1 fail
list --json [--module FILE]     print the benchmarks that Python has
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from forebay.bench import _rank, _registry
from forebay.bench._values import BenchError


def main(words: list[str] | None = None) -> int:
    """Run a command; errors go to stderr."""
    parser = argparse.ArgumentParser(prog="python -m forebay.bench")
    commands = parser.add_subparsers(dest="command", required=True)
    rank = commands.add_parser("rank", help="be a rank of a run")
    rank.add_argument("run_json", type=Path)
    listing = commands.add_parser("list", help="print the benchmarks that Python has")
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.add_argument("--module", action="append", default=[], help="a file with more of them")
    chosen = parser.parse_args(words)
    try:
        if chosen.command == "rank":
            # Whoever ends a run wants its folders removed and its manifest written.
            signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
            return _rank.run(chosen.run_json)
        _registry.load(chosen.module)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    found = [benchmark.described() for benchmark in _registry.all_benchmarks()]
    if chosen.json:
        print(json.dumps(found, indent=2))
    else:
        for one in found:
            print(f"{one['name']:28} {one['category']:14} {one['help']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
