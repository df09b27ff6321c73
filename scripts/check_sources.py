"""Check rules of the house that no linter knows: purity, unsafe code, sizes, unfinished work.

- Pure crates touch no file, socket, thread or clock.
- `unsafe` stands only in modules named `sys`, in `preload` and in the Python module's FFI file.
- A file has at most 600 lines, a function at most 70.
- Nothing is left as a reminder to finish it.

Code under test (`tests.rs`, `tests/`, `benches/`, a trailing `mod tests`) is exempt from the
first two. Functions are found by the indentation that rustfmt gives them.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PURE_CRATES = ["dataset", "wire", "analysis", "darshan"]
IMPURE = re.compile(
    r"\bstd::(fs|net|thread|process|env|os::(fd|unix))\b"
    r"|\bstd::\{[^}]*\b(fs|net|thread|process|env)\b"
    r"|\b(Instant|SystemTime)\b"
)
UNSAFE = re.compile(r"\bunsafe(\s*(\{|$)|\s+(fn|impl|trait|extern)\b|\()")
UNSAFE_ALLOWED = re.compile(r"(^|/)(sys|ffi)\.rs$|/(sys|ffi)/|^crates/preload/|^python/src/")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b|\b(todo|unimplemented)!")

FILE_LINES = 600
FUNCTION_LINES = 70

TEST_PATH = re.compile(r"(^|/)(tests|benches|examples|fuzz)(/|\.rs$)|_tests?\.rs$")
TEST_MODULE = re.compile(r"^#\[cfg\((all\()?test\b")
FUNCTION = re.compile(
    r"^(?P<indent> *)(pub(\([^)]*\))? )?(const |async |unsafe |extern \"C\" )*fn "
)
# Checks of reminders would find themselves here.
SELF = "scripts/check_sources.py"


def tracked_files() -> list[Path]:
    """Files that git has or would take, which exist."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = (Path(name) for name in listed.split("\0") if name)
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def without_comments(lines: list[str]) -> list[str]:
    """The code of each line. Strings stay, but for those that hold `//`."""
    return [re.sub(r"//.*", "", line) for line in lines]


def without_tests(lines: list[str]) -> list[str]:
    """The lines before a trailing test module."""
    for at, line in enumerate(lines):
        after = lines[at + 1] if at + 1 < len(lines) else ""
        if TEST_MODULE.match(line) and after.startswith("mod ") and after.rstrip().endswith("{"):
            return lines[:at]
    return lines


def rust_faults(path: Path, lines: list[str]) -> Iterator[str]:
    name = path.as_posix()
    if not TEST_PATH.search(name):
        code = without_comments(without_tests(lines))
        pure = any(name.startswith(f"crates/{crate}/src/") for crate in PURE_CRATES)
        for number, line in enumerate(code, 1):
            if pure and (found := IMPURE.search(line)):
                yield f"{name}:{number}: `{found[0]}` in a pure crate"
            if UNSAFE.search(line) and not UNSAFE_ALLOWED.search(name):
                yield f"{name}:{number}: `unsafe` outside `sys.rs`"
    for start, length in rust_functions(lines):
        if length > FUNCTION_LINES:
            yield f"{name}:{start}: a function of {length} lines, at most {FUNCTION_LINES}"


def rust_functions(lines: list[str]) -> Iterator[tuple[int, int]]:
    """First line and length of each function with a body of more than one line."""
    for at, line in enumerate(lines):
        head = FUNCTION.match(line)
        if not head or line.rstrip().endswith(("}", ";")):
            continue
        for end in range(at + 1, len(lines)):
            text = lines[end].rstrip()
            if text.startswith(head["indent"] + "}"):
                yield at + 1, end - at + 1
            # The head of a function ends so when it is declared without a body.
            declared = text.endswith(";") and text.startswith(head["indent"] + ")")
            if declared or text.startswith(head["indent"] + "}"):
                break


def python_faults(path: Path, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text, path.as_posix())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES:
                yield (
                    f"{path}:{node.lineno}: `{node.name}` has {length} lines, "
                    f"at most {FUNCTION_LINES}"
                )


def file_faults(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) > FILE_LINES:
        yield f"{path}: {len(lines)} lines, at most {FILE_LINES}"
    for number, line in enumerate(lines, 1):
        if path.as_posix() != SELF and (found := UNFINISHED.search(line)):
            yield f"{path}:{number}: `{found[0]}`: finish it or write an issue"
    if path.suffix == ".rs":
        yield from rust_faults(path, lines)
    else:
        yield from python_faults(path, text)


def faults(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        if path.suffix in {".rs", ".py", ".pyi"}:
            yield from file_faults(path)


def main() -> int:
    found = list(faults(tracked_files()))
    for fault in found:
        print(f"check_sources: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
