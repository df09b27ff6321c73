"""Check that every test a document names exists, and every file that it links to.

A claim names the test that holds it as `*(test: name)*`, with or without backticks and with several
names parted by commas. A Rust name may be given with modules (`semantics::no_mixed_versions`), a
Python one with its file (`test_sampler::test_resume`); each part before the last must then be the
name of the file, of a folder above it, or of a module in it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

# A claim that begins with a backtick is about claims.
CLAIM = re.compile(r"(?<!`)\*\(tests?:\s*(?P<names>[^)]*)\)\*")
RUST_TEST = re.compile(
    r"#\[(?:\w+::)*test(?:\([^)]*\))?\](?:\s*(?:#\[[^\n]*\]|//[^\n]*))*\s*(?:pub )?fn (\w+)"
)
PYTHON_TEST = re.compile(r"^ *def (test_\w+)", re.MULTILINE)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
MODULE = re.compile(r"\bmod (\w+)")


def tracked_files(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    listed = subprocess.run([*command, *patterns], capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.split("\0") if name and (path := Path(name)).is_file()]


def tests_of_tree() -> dict[str, list[set[str]]]:
    """For each test, the names it may be qualified with: one set a file that has such a test."""
    tests: dict[str, list[set[str]]] = defaultdict(list)
    for path in tracked_files("*.rs", "*.py"):
        text = path.read_text(encoding="utf-8")
        pattern = RUST_TEST if path.suffix == ".rs" else PYTHON_TEST
        places = {path.stem, *path.parent.parts, *MODULE.findall(text)}
        places |= {f"forebay_{folder}" for folder in path.parent.parts}
        for name in pattern.findall(text):
            tests[name].append(places)
    return tests


def claims(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of every test that a document names. A claim may run over a line's end."""
    text = path.read_text(encoding="utf-8")
    for claim in CLAIM.finditer(text):
        line = text.count("\n", 0, claim.start()) + 1
        for name in claim["names"].replace("`", "").split(","):
            yield line, name.strip()


def faults(path: Path, tests: dict[str, list[set[str]]]) -> Iterator[str]:
    for line, name in claims(path):
        *modules, test = re.split(r"::|\.", name)
        if not any(places.issuperset(modules) for places in tests.get(test, [])):
            yield f"{path}:{line}: no test `{name}`"
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if not (path.parent / link).exists():
            yield f"{path}: link to `{link}`, which is not there"


def main() -> int:
    tests = tests_of_tree()
    found = [fault for path in tracked_files("*.md") for fault in faults(path, tests)]
    for fault in found:
        print(f"check_claims: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
