"""The emulated slow tier as a context: mounted on entry, always gone on exit."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType

from demo.command import CommandError, captured, end_group, forebay

_MOUNT_SECONDS = 20.0
_UNMOUNT_SECONDS = 5.0
_STATUS_SECONDS = 20.0


def is_mounted(folder: Path) -> bool:
    """Whether something is mounted at `folder`, dead or alive. Never touches the file system."""
    wanted = str(folder.absolute())
    with open("/proc/self/mounts") as mounts:
        places = [line.split(" ")[1] for line in mounts]
    # The kernel writes blanks and backslashes in paths as octal escapes.
    escaped = (
        wanted.replace("\\", "\\134")
        .replace(" ", "\\040")
        .replace("\t", "\\011")
        .replace("\n", "\\012")
    )
    return escaped in places


def unmount(folder: Path) -> None:
    """Detach what is mounted at `folder`, even while files on it are open."""
    helper = shutil.which("fusermount3") or shutil.which("fusermount")
    ways = [["umount", "-l", str(folder)]]
    if helper is not None:
        ways.insert(0, [helper, "-u", "-z", str(folder)])
    for way in ways:
        if not is_mounted(folder):
            return
        subprocess.run(way, check=False, capture_output=True, timeout=_UNMOUNT_SECONDS)
    if is_mounted(folder):
        raise CommandError(f"cannot unmount `{folder}`: run `umount -l {folder}`")


class EmulatedTier:
    """`source` seen through `forebay emulate` at `mount`, as slow as `profile` times `scale`."""

    def __init__(
        self, source: Path, mount: Path, log: Path, profile: Path, scale: float, seed: int
    ) -> None:
        self._mount = mount
        self._log = log
        self._command = [
            forebay(),
            "emulate",
            str(source),
            str(mount),
            "--profile",
            str(profile),
            "--scale",
            str(scale),
            "--seed",
            str(seed),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Path:
        # A run that was killed may have left its mount.
        unmount(self._mount)
        self._mount.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            # A session of its own, so that Ctrl-C ends the readers first and the tier last.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait_until_mounted(self._process)
        except BaseException:
            self._stop()
            raise
        return self._mount

    def status(self) -> str:
        """What it has answered since it was mounted, as JSON."""
        return captured([forebay(), "emulate", "ctl", str(self._mount), "status"], _STATUS_SECONDS)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _wait_until_mounted(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _MOUNT_SECONDS
        while not is_mounted(self._mount):
            if process.poll() is not None:
                said = self._log.read_text(errors="replace").strip()
                raise CommandError(f"`{' '.join(self._command)}` ended early: {said}")
            if time.monotonic() > deadline:
                raise CommandError(
                    f"nothing is mounted at `{self._mount}` after {_MOUNT_SECONDS:g} s"
                )
            time.sleep(0.02)

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.terminate()
            process.wait(_UNMOUNT_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # Detached first, then killed: a reader that still waits gets an error and no hang.
            try:
                unmount(self._mount)
            finally:
                end_group(process)
