"""What the commands of the study take."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
# Longest message, so that a slip of the unit does not take the memory of a node.
_LONGEST_MESSAGE = 16 << 30


@dataclass(frozen=True)
class TierName:
    """`NAME=WHERE` as it was given."""

    name: str
    where: str


@dataclass(frozen=True)
class Options:
    """Checked options of `allreduce` and `train`."""

    command: str
    tiers: tuple[TierName, ...]
    out: Path
    ranks: int | None
    backend: str
    meet: Path | None
    iterations: int
    warm_up: int
    rounds: int
    workers: int
    prefetch: int
    window_s: float
    samples_made: int
    keep: bool
    root: str | None
    cache: Path | None
    dscp: int | None
    seed: int
    timeout_s: float
    note: tuple[str, ...]
    gate_s: float | None
    order: str
    use: int | None
    # Of `allreduce`.
    messages: tuple[int, ...] = ()
    io: str = "paced"
    samples: int = 8
    # Of `train`.
    batch: int = 64
    width: int = 22
    layers: int = 6
    atoms: int | None = None

    def inputs(self) -> dict[str, object]:
        """What the records say of them."""
        hidden = {"out", "meet", "keep", "note", "command", "ranks", "backend"}
        hidden |= _OF["train" if self.command == "allreduce" else "allreduce"]
        named = {name: value for name, value in vars(self).items() if name not in hidden}
        named["tiers"] = {tier.name: tier.where for tier in self.tiers}
        return {
            name: str(value) if isinstance(value, Path) else value for name, value in named.items()
        }


# Options that only one of the commands has.
_OF = {
    "allreduce": {"messages", "io", "samples"},
    "train": {"batch", "width", "layers", "atoms"},
}


def size(text: str) -> int:
    """Bytes, with a unit or without."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None:
        raise argparse.ArgumentTypeError(f"`{text}` is no size: write 76KB or 64 KiB")
    return int(float(found[1]) * unit)


def _messages(text: str) -> list[int]:
    sizes = [size(part) for part in text.split(",")]
    for each in sizes:
        if not 4 <= each <= _LONGEST_MESSAGE:
            raise argparse.ArgumentTypeError(f"`{text}`: a message has 4 bytes to 16 GiB")
    return sizes


def _tier(text: str) -> TierName:
    name, equals, where = text.partition("=")
    if not equals or not name.strip() or not where or len(name.encode()) > 200:
        raise argparse.ArgumentTypeError(
            f"`{text}` must be NAME=PATH, NAME=INDEX.forebay or NAME=shm"
        )
    return TierName(name.strip(), where)


def _whole(least: int, most: int = 10**9) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"`{text}` must be a whole number from {least} to {most}"
            )
        return int(text)

    return read


def _seconds(unit: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= most:
            raise argparse.ArgumentTypeError(f"`{text}` must be a number from 0 to {most:g}")
        return value * unit

    return read


def _common(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--tier",
        dest="tiers",
        type=_tier,
        action="append",
        required=True,
        metavar="NAME=WHERE",
        help="a tier: a folder, an index of Forebay (.forebay), a folder of a web server (http://), or `shm`; repeat it",
    )
    add(
        "--out",
        type=Path,
        default=Path("forebay-fabric"),
        help="folder for the records (forebay-fabric)",
    )
    add(
        "--ranks",
        type=_whole(1, 4096),
        help="start so many ranks on this node [default: as launched, or 2]",
    )
    add(
        "--backend",
        choices=["auto", "gloo", "nccl"],
        default="auto",
        help="of collectives (NCCL or RCCL with GPUs, else gloo)",
    )
    add(
        "--meet",
        type=Path,
        help="folder on a shared file system where ranks meet, new for each run, where the launcher names no address",
    )
    add(
        "--rounds",
        type=_whole(1, 1000),
        default=4,
        help="how often baseline and loaded phases take turns (4)",
    )
    add("--prefetch", type=_whole(1, 64), help="batches ahead for each worker")
    add(
        "--samples-made",
        type=_whole(1),
        default=2048,
        help="samples made on a tier that has none, 286 KB each (2048)",
    )
    add("--keep", action="store_true", help="keep samples that were made")
    _of_reading(parser)


def _of_reading(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--order",
        choices=["reshuffled", "kept"],
        default="reshuffled",
        help="samples of each rank: drawn anew from all in each epoch, or a share that it keeps",
    )
    add("--use", type=_whole(1), help="read only so many of a tier's samples")
    add("--root", help="folder or URL of an index's origin files, if not the one in the index")
    add("--cache", type=Path, help="cache folder of Forebay tiers")
    add("--dscp", type=_whole(0, 63), help="traffic class of reads from web servers")
    add(
        "--gate-ms",
        dest="gate_s",
        type=_seconds(1e-3, 1e4),
        help="hold up staging ahead of need from so many ms before each collective to its end; in "
        "training during the backward pass",
    )
    add("--seed", type=_whole(0), default=7, help="of samples, order and placement (7)")
    add(
        "--timeout",
        dest="timeout_s",
        type=_seconds(1, 1e5),
        default=300.0,
        help="seconds after which a rank or worker that says nothing is lost (300)",
    )
    add("--note", action="append", default=[], help="a condition that the report is to say")


def parser() -> argparse.ArgumentParser:
    """The command line of `forebay fabric`."""
    main = argparse.ArgumentParser(
        prog="forebay fabric",
        description="Measure what storage traffic does to collectives and to training.",
    )
    commands = main.add_subparsers(dest="command", required=True)
    _allreduce(commands)
    _train(commands)
    _data(commands)
    return main


def _allreduce(commands: Any) -> None:
    one = commands.add_parser("allreduce", help="all-reduces without and with I/O beside them")
    _common(one)
    one.add_argument(
        "--message",
        dest="messages",
        type=_messages,
        default=[76_000],
        metavar="SIZE[,SIZE]",
        help="bytes of an all-reduce (76KB)",
    )
    one.add_argument(
        "--warm-up",
        type=_whole(0),
        default=200,
        help="iterations before those measured, over all rounds (200)",
    )
    one.add_argument(
        "--iterations",
        type=_whole(1),
        default=100,
        help="measured iterations without I/O, and with it (100)",
    )
    one.add_argument(
        "--io",
        choices=["paced", "tight"],
        default="paced",
        help="as a loader reads, or as fast as it goes",
    )
    one.add_argument(
        "--workers", type=_whole(1, 256), default=8, help="loader workers of each rank (8)"
    )
    one.add_argument(
        "--samples",
        type=_whole(1, 100_000),
        default=8,
        help="samples that each worker reads in a cycle (8)",
    )
    one.add_argument(
        "--window-ms",
        dest="window_s",
        type=_seconds(1e-3, 1e7),
        default=0.176,
        help="time that an iteration computes, in ms (176)",
    )


def _train(commands: Any) -> None:
    two = commands.add_parser("train", help="the stages of a real training loop")
    _common(two)
    two.add_argument(
        "--warm-up",
        type=_whole(0),
        default=20,
        help="iterations before those measured, over all rounds (20)",
    )
    two.add_argument(
        "--iterations", type=_whole(1), default=200, help="measured iterations of each tier (200)"
    )
    two.add_argument(
        "--workers", type=_whole(0, 256), default=8, help="loader workers of each rank (8)"
    )
    two.add_argument(
        "--batch", type=_whole(1, 100_000), default=64, help="samples of each rank in a batch (64)"
    )
    two.add_argument(
        "--width",
        type=_whole(1, 4096),
        default=22,
        help="width of the model: 22 has 19,433 parameters, 320 has 4 million",
    )
    two.add_argument("--layers", type=_whole(1, 64), default=6, help="layers of the model (6)")
    two.add_argument(
        "--atoms",
        type=_whole(1, 840),
        help="atoms of a sample that the model sees [default: all on a GPU, 40 on a CPU]",
    )
    two.add_argument(
        "--window-ms",
        dest="window_s",
        type=_seconds(1e-3, 1e7),
        default=0.0,
        help="least time that an iteration computes, in ms: it sleeps where a GPU would (0)",
    )


def _data(commands: Any) -> None:
    three = commands.add_parser("data", help="make the samples in a folder")
    three.add_argument("folder", type=Path)
    three.add_argument(
        "--samples", dest="samples_made", type=_whole(1), default=2048, help="286 KB each (2048)"
    )
    three.add_argument("--seed", type=_whole(0), default=7)


def parse(words: Sequence[str]) -> Options | argparse.Namespace:
    """The options of a command line; those of `data` as they are.

    Raises:
        SystemExit: wrong usage, said on stderr.
    """
    main = parser()
    found = main.parse_args(words)
    if found.command == "data":
        return found
    names = [tier.name for tier in found.tiers]
    if len(set(names)) < len(names):
        main.error("each --tier must have a name of its own")
    if found.iterations < found.rounds:
        main.error(f"--iterations {found.iterations} are fewer than --rounds {found.rounds}")
    values = dict(vars(found))
    if found.prefetch is None:
        # An all-reduce's cycle is one batch of each worker, read while the one before is used.
        values["prefetch"] = 1 if found.command == "allreduce" else 2
    values["tiers"], values["note"] = tuple(found.tiers), tuple(found.note)
    if "messages" in values:
        values["messages"] = tuple(found.messages)
    return Options(**values)
