"""What other processes have read, as the kernel counts it."""

from __future__ import annotations

import os
from pathlib import Path


def bytes_read_by_children() -> int | None:
    """Bytes that living child processes have read by system calls, `None` if not counted here.

    On the direct path all files that workers read lie on the origin. Bytes that pass through
    pipes count too: less than one in a thousand here.
    """
    total = 0
    try:
        for thread in Path(f"/proc/{os.getpid()}/task").iterdir():
            for child in (thread / "children").read_text().split():
                lines = Path(f"/proc/{child}/io").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("rchar"))
    except (OSError, StopIteration):
        return None
    return total
