"""The conditions of the study, what they are to show, and what they do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Condition:
    """Storage traffic in one class or its own, read directly or through Forebay."""

    tiers: tuple[str, ...]
    shape: str
    kind: str

    @property
    def is_staged(self) -> bool:
        """Whether Forebay reads."""
        return self.kind == "forebay"


SHARED = "same class, direct"
HALF = "own class 50/50, direct"
TENTH = "own class 90/10, direct"
COLD, WARM = "Forebay, cold", "Forebay, warm"
CONDITIONS = (
    Condition(("no storage on the fabric (shm)",), "shared", "shm"),
    Condition((SHARED,), "shared", "web"),
    Condition((HALF,), "50/50", "web"),
    Condition((TENTH,), "90/10", "web"),
    Condition((COLD, WARM), "90/10", "forebay"),
)

NOT_SHOWN = (
    "Slingshot: here queues drop their tail and TCP recovers, there credits run out. Which conditions "
    "interfere carries over, and the size of the factors does not: queue, rate and streams set it.",
    "GPUs and their collectives: the all-reduce is gloo over TCP on a CPU, and computing is sleeping.",
    "Other jobs' traffic: the slow reads of the storage server are drawn, a share of them as set.",
    "A reshuffled epoch: each host keeps its share of the samples, so that the warm pass needs "
    "nothing of others.",
    "Hosts with cores of their own: all share this machine's, so a factor holds its scheduling too.",
)


# For each condition: least and greatest factor by median and by max, greatest share over the window.
TARGETS: dict[str, tuple[tuple[float, float], tuple[float, float], float | None]] = {
    SHARED: ((10, 1e9), (20, 1e9), None),
    COLD: ((0, 1.10), (0, 1.5), 0.001),
    WARM: ((0, 1.02), (0, 1.1), 0.0),
}


def judge(summary: dict[str, Any]) -> bool:
    """Say of each target whether it is met; a factor that was refused meets none."""
    good = True
    for row in summary["allreduce"]:
        target = TARGETS.get(row["tier"])
        if target is None:
            continue
        median, longest, most_over = target
        ratios = (row["median"]["ratio"], row["max"]["ratio"])
        over = row["waits"]["over_window_share"] if row["waits"] else None
        met = all(
            ratio is not None and least <= ratio <= most
            for ratio, (least, most) in zip(ratios, (median, longest), strict=True)
        )
        met = met and (most_over is None or (over is not None and over <= most_over))
        good = good and met
        own = row["baseline_drift"], row["baseline_max_drift"]
        said = ", ".join("none" if ratio is None else f"{ratio:.2f}x" for ratio in ratios)
        spread = ", ".join("none" if each is None else f"{each:.2f}x" for each in own)
        share = "none" if over is None else f"{over:.2%}"
        print(
            f"{row['tier']}: median, max {said} (n {row['median']['loaded_n']}; the baseline's own "
            f"rounds {spread}); waits over the window {share}: "
            f"{'as expected' if met else 'NOT as expected'}"
        )
    return good
