"""One row of the summary: a measured ratio, what it was measured against, and its target."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Row:
    """One comparison.

    `spread` is the distance between the quartiles of the ratio over its `n` rounds. A row about
    added time has the time in `value`, and its ratio is that time over the time allowed.
    """

    name: str
    ratio: float
    target: float
    n: int
    baseline: str
    spread: float
    better: Literal["lower", "higher"] = "lower"
    value: float | None = None
    unit: str | None = None
    # Why it was not measured, if it was not: then no other figure means anything.
    skipped: str | None = None
    conditions: dict[str, Any] = field(default_factory=dict)

    @property
    def is_met(self) -> bool:
        """True if the ratio is on the good side of its target, or on it, or was not measured."""
        if self.skipped is not None:
            return True
        if self.better == "lower":
            return self.ratio <= self.target
        return self.ratio >= self.target

    def as_json(self) -> dict[str, Any]:
        """The row as it stands in `summary.json`."""
        row: dict[str, Any] = {
            "name": self.name,
            "ratio": self.ratio,
            "target": self.target,
            "better": self.better,
            "n": self.n,
            "baseline": self.baseline,
            "spread": self.spread,
            "conditions": self.conditions,
        }
        if self.skipped is not None:
            row["skipped"] = self.skipped
        if self.value is not None:
            row |= {"value": self.value, "unit": self.unit}
        return row


def skipped(name: str, reason: str) -> Row:
    """The row of what cannot be measured on this machine."""
    return Row(name, ratio=0.0, target=0.0, n=0, baseline="none", spread=0.0, skipped=reason)


def write(file: Path, rows: Iterable[Row]) -> None:
    """Write rows into the summary, complete or not at all; those of other names there stay."""
    written = [row.as_json() for row in rows]
    if file.exists():
        names = {row["name"] for row in written}
        old = json.loads(file.read_text())
        written = [row for row in old if row["name"] not in names] + written
    unfinished = file.with_name(f"{file.name}.unfinished")
    unfinished.write_text(json.dumps(written, indent=2) + "\n")
    unfinished.replace(file)


def table(rows: Iterable[Row]) -> str:
    """The rows for a terminal. Times are medians, in microseconds."""
    lines = [
        f"{'row':<26}{'ratio':>8}{'target':>9}  {'':<7}{'spread':>8}{'n':>7}"
        f"{'forebay':>10}{'baseline':>10}{'ping-pong':>11}  against"
    ]
    for row in rows:
        if row.skipped is not None:
            lines.append(f"{row.name:<26}{'skipped':>8}  {row.skipped}")
            continue
        limit = f"{'≤' if row.better == 'lower' else '≥'} {row.target:g}"
        times = [_time(row.conditions.get(name)) for name in TIMES]
        lines.append(
            f"{row.name:<26}{row.ratio:>8.3f}{limit:>9}  {'met' if row.is_met else 'MISSED':<7}"
            f"{row.spread:>8.3f}{row.n:>7}{times[0]:>10}{times[1]:>10}{times[2]:>11}  "
            f"{row.baseline}{_added(row)}"
        )
    return "\n".join(lines)


# The times of a row's conditions that its line of the table has.
TIMES = ("subject_us", "baseline_us", "ping_pong_us")


def _time(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _added(row: Row) -> str:
    return "" if row.value is None else f" ({row.value:.1f} {row.unit})"
