"""What a manifest says about the machine and the file system."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any


def host() -> dict[str, Any]:
    """The machine. What an import would cost seconds for is told only where it is loaded."""
    torch = sys.modules.get("torch")
    cuda = gpu = None
    if torch is not None:
        cuda = torch.version.cuda
        if torch.cuda.is_available():
            gpu = torch.cuda.get_device_name()
    return {
        "hostname": platform.node(),
        "kernel": platform.release(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "mem_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "python": platform.python_version(),
        "torch": None if torch is None else str(torch.__version__),
        "cuda": cuda,
        "gpu": gpu,
    }


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def file_system(path: Path) -> dict[str, Any]:
    """The file system that a folder lies on."""
    real = path.resolve()
    mount = _mount(real)
    found = os.statvfs(real)
    return {
        "path": str(path),
        **mount,
        "statfs": {
            "block_bytes": found.f_frsize,
            "total_bytes": found.f_blocks * found.f_frsize,
            "free_bytes": found.f_bavail * found.f_frsize,
            "files": found.f_files,
            "free_files": found.f_ffree,
        },
    }


def _mount(path: Path) -> dict[str, str]:
    """The last mount of the longest path above the folder."""
    best = {"mount": "", "source": "", "fstype": "", "options": ""}
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return best
    for line in lines:
        # 36 35 98:0 /root /mount options shared:1 - type source superoptions
        fields, _, rest = line.partition(" - ")
        words, others = fields.split(" "), rest.split(" ")
        if len(words) < 6 or len(others) < 3:
            continue
        mount = _plain(words[4])
        if path.is_relative_to(mount) and len(mount) >= len(best["mount"]):
            best = {
                "mount": mount,
                "source": _plain(others[1]),
                "fstype": others[0],
                "options": f"{words[5]},{others[2]}",
            }
    return best


def _plain(text: str) -> str:
    """Without the octal escapes that the kernel gives to blanks and backslashes."""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text
