"""A mounted folder gives programs what the folder gives them, from the node's cache."""

from __future__ import annotations

import errno
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mounted import Mounted, is_mounted, need_fuse
from node import Node, eventually
from tier import Tier, command

import forebay
from forebay._command import find_command

# Larger than what shares a file of the cache with others, and not a whole number of blocks.
LARGE = (5 << 20) + 12_345


def fill(root: Path) -> None:
    """A folder with everything that a tree of files can have."""
    rng = random.Random(1)
    (root / "sub/deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / ".hidden").mkdir()
    for name, size in {
        "large.bin": LARGE,
        "small.bin": 300_000,
        "sub/a.bin": 70_000,
        "sub/deep/b.bin": 65_536,
        "nothing": 0,
        ".hidden/file": 10,
    }.items():
        (root / name).write_bytes(rng.randbytes(size))
    words = "".join(f"{n} turbine {rng.random()}\n" for n in range(5000))
    (root / "sub/words with spaces.txt").write_text(words)
    (root / "run.sh").write_text("#!/bin/sh\necho ran $0\n")
    (root / "run.sh").chmod(0o755)
    (root / "secret").write_text("s")
    (root / "secret").chmod(0o600)
    (root / "link").symlink_to("sub/a.bin")
    (root / "link-to-folder").symlink_to("sub")
    (root / "dangling").symlink_to("/nowhere/at/all")
    os.utime(root / "small.bin", ns=(1, 1_234_567_890_123_456_789))


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    root = tmp_path / "origin"
    root.mkdir()
    fill(root)
    return root


MakeMount = Callable[..., Mounted]


@pytest.fixture
def mounts(tmp_path: Path, node: Node) -> Iterator[MakeMount]:
    """Makes mounts, which end with the test."""
    need_fuse()
    made: list[Mounted] = []

    def make(source: Path, *options: object) -> Mounted:
        root = tmp_path / f"mount{len(made)}"
        made.append(Mounted.make(source, root, node.cache, *options))
        return made[-1]

    yield make
    for mounted in made:
        mounted.end()


def files(root: Path) -> list[Path]:
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path.relative_to(root) for path in found)


def output(line: list[str | Path], cwd: Path) -> bytes:
    done = subprocess.run(line, cwd=cwd, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def both(line: list[str | Path], origin: Path, mounted: Mounted) -> None:
    """One program, run in the origin and in the mount, says the same; folders have no order."""
    here, there = (output(line, root).splitlines() for root in (mounted.root, origin))
    if line[0] in ("find", "grep"):
        here, there = sorted(here), sorted(there)
    assert here == there, line


def test_names_and_attributes_are_those_of_the_folder(origin: Path, mounts: MakeMount) -> None:
    mounted = mounts(origin)
    both(["ls", "-lAR", "--time-style=full-iso"], origin, mounted)
    both(["find", ".", "-printf", "%p %y %m %U %G %s %n %b %T@ %C@ %l\\n"], origin, mounted)
    assert mounted.said["files"] == len(files(origin))
    for name in ["missing", "sub/missing", "nothing/x", "small.bin/x"]:
        assert not (mounted.root / name).exists(), name


def test_programs_read_the_same_cold_and_warm(origin: Path, mounts: MakeMount) -> None:
    mounted = mounts(origin)
    for _ in range(2):
        for name in files(origin):
            both(["cat", name], origin, mounted)
        both(["md5sum", *files(origin)], origin, mounted)
        both(["head", "-c", "1000", "large.bin"], origin, mounted)
        both(["tail", "-c", "70001", "large.bin"], origin, mounted)
        both(["dd", "if=large.bin", "bs=4097", "skip=17", "count=50"], origin, mounted)
        both(["grep", "-rn", "499. turbine", "."], origin, mounted)
        both(["wc", "-l", "sub/words with spaces.txt"], origin, mounted)
        both(["tar", "--sort=name", "-cf", "-", "."], origin, mounted)
        both(["./run.sh"], origin, mounted)
    served = mounted.end()
    assert served["passthrough_opens"] > 0
    assert served["direct_bytes"] == served["failed_reads"] == 0


def test_copies_are_the_folder(origin: Path, mounts: MakeMount, tmp_path: Path) -> None:
    mounted = mounts(origin)
    output(["cp", "-a", mounted.root, tmp_path / "copy"], tmp_path)
    output(["diff", "-r", "--no-dereference", origin, tmp_path / "copy"], tmp_path)
    assert (tmp_path / "copy/run.sh").stat().st_mode & 0o777 == 0o755


def test_a_repository_and_a_database_are_usable(tmp_path: Path, mounts: MakeMount) -> None:
    for program in ("git", "sqlite3"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    root = tmp_path / "work"
    root.mkdir()
    for number in range(30):
        (root / f"f{number}.txt").write_text(f"the forebay of turbine {number}\n" * 50)
    git: list[str | Path] = ["git", "-c", "safe.directory=*", "-c", "user.name=n"]
    git += ["-c", "user.email=e"]
    output([*git, "init", "-q", "."], root)
    output([*git, "add", "."], root)
    output([*git, "commit", "-qm", "all"], root)
    rows = "".join(f"insert into t values ({n}, '{n * n}');" for n in range(2000))
    output(["sqlite3", "x.db", f"create table t(a, b); begin; {rows} commit;"], root)
    mounted = mounts(root)
    both([*git, "grep", "-c", "turbine 1"], root, mounted)
    both([*git, "log", "--stat", "--format=%H %s"], root, mounted)
    both([*git, "fsck", "--strict"], root, mounted)
    query = "select count(*), sum(a), max(length(b)) from t"
    both(["sqlite3", "file:x.db?mode=ro&immutable=1", query], root, mounted)


def test_reads_at_every_edge_are_those_of_a_file(origin: Path, mounts: MakeMount) -> None:
    mounted = mounts(origin, "--no-passthrough")
    for _ in range(2):
        for name in ("large.bin", "small.bin", "nothing"):
            here, there = ((root / name).open("rb", 0) for root in (mounted.root, origin))
            size = (origin / name).stat().st_size
            for at in (0, 1, 65_535, 65_536, size - 70_000, size - 1, size, size + 1, 1 << 40):
                for length in (1, 4096, 65_537, 1_300_000):
                    if at >= 0:
                        wanted = os.pread(there.fileno(), length, at)
                        assert os.pread(here.fileno(), length, at) == wanted, (name, at, length)
            here.close()
            there.close()
    assert mounted.end()["passthrough_opens"] == 0


@pytest.mark.parametrize("passthrough", [True, False])
def test_mapped_files_show_their_bytes(origin: Path, mounts: MakeMount, passthrough: bool) -> None:
    mounted = mounts(origin, *([] if passthrough else ["--no-passthrough"]))
    for _ in range(2):
        for name in ("large.bin", "small.bin"):
            with (mounted.root / name).open("rb") as file:
                for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
                    with mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ) as view:
                        assert view[:] == (origin / name).read_bytes()


def test_a_file_stays_what_it_was_until_its_last_close(origin: Path, mounts: MakeMount) -> None:
    mounted = mounts(origin)
    large, wanted = mounted.root / "large.bin", (origin / "large.bin").read_bytes()
    with large.open("rb", 0) as cold:
        assert cold.read(100) == wanted[:100]
        assert large.read_bytes() == wanted, "resident by now, but open as it was"
    # Closing is told to the mount a moment later.
    eventually("the kernel reads it itself", lambda: _opened_by_kernel(large, mounted))
    with large.open("rb", 0) as one, large.open("rb", 0) as two:
        one.seek(LARGE - 10)
        assert (one.read(), two.read(10), large.read_bytes()[-5:]) == (
            wanted[-10:],
            wanted[:10],
            wanted[-5:],
        )
        assert os.pread(one.fileno(), 100, LARGE) == b"", "nothing behind its end"


def _opened_by_kernel(path: Path, mounted: Mounted) -> bool:
    """Whether reads of the file pass the mount's process by: it stands still meanwhile."""
    with path.open("rb", 0) as file:
        mounted.process.send_signal(signal.SIGSTOP)
        try:
            reader = threading.Thread(target=file.read, args=(4096,), daemon=True)
            reader.start()
            reader.join(0.5)
            passed = not reader.is_alive()
        finally:
            mounted.process.send_signal(signal.SIGCONT)
        reader.join()
    return passed


def test_what_the_kernel_reads_itself_is_not_evicted(
    tmp_path: Path, node: Node, mounts: MakeMount
) -> None:
    root = tmp_path / "many"
    root.mkdir()
    contents = {f"{n}.bin": random.Random(n).randbytes(6 << 20) for n in range(6)}
    for name, content in contents.items():
        (root / name).write_bytes(content)
    mounted = mounts(root, "--capacity", "20MiB")
    first = mounted.root / "0.bin"
    assert first.read_bytes() == contents["0.bin"]
    with first.open("rb", 0) as held:
        for name, content in contents.items():
            assert (mounted.root / name).read_bytes() == content, name
        assert held.read() == contents["0.bin"]
        for name, content in reversed(contents.items()):
            assert (mounted.root / name).read_bytes() == content, name
        held.seek(0)
        assert held.read() == contents["0.bin"]
    assert mounted.end()["failed_reads"] == 0
    assert node.status()["used_bytes"] <= 20 << 20


def test_nothing_can_be_written(origin: Path, mounts: MakeMount) -> None:
    mounted = mounts(origin)
    root = mounted.root
    refused: list[Callable[[], object]] = [
        lambda: (root / "new").write_bytes(b"x"),
        lambda: (root / "small.bin").open("r+b"),
        lambda: (root / "small.bin").unlink(),
        lambda: (root / "small.bin").rename(root / "other"),
        lambda: (root / "folder").mkdir(),
        lambda: (root / "empty").rmdir(),
        lambda: (root / "small.bin").chmod(0o777),
        lambda: os.utime(root / "small.bin"),
        lambda: os.truncate(root / "small.bin", 0),
        lambda: (root / "hard").hardlink_to(root / "small.bin"),
        lambda: (root / "soft").symlink_to("x"),
        lambda: os.setxattr(root / "small.bin", "user.x", b"y"),
    ]
    for number, write in enumerate(refused):
        with pytest.raises(OSError) as caught:
            write()
        assert caught.value.errno == errno.EROFS, number


def test_listing_and_resident_bytes_do_not_touch_the_origin(
    origin: Path, tmp_path: Path, mounts: MakeMount
) -> None:
    tier = Tier.mount(origin, tmp_path / "slow")
    try:
        mounted = mounts(tier.root)
        wanted = {name: (origin / name).read_bytes() for name in files(origin)}
        for name, content in wanted.items():
            assert (mounted.root / name).read_bytes() == content

        def asked() -> tuple[int, int]:
            status = tier.control("status")
            return status["metadata"]["ok"], status["read"]["ok"]

        before = asked()
        for _ in range(3):
            output(["ls", "-lR"], mounted.root)
            output(["find", ".", "-newer", "nothing"], mounted.root)
            for name, content in wanted.items():
                assert (mounted.root / name).read_bytes() == content
        assert asked() == before
        mounted.end()
    finally:
        tier.unmount()


def test_a_changed_origin_is_stale_and_never_mixed(origin: Path, mounts: MakeMount) -> None:
    mounted = mounts(origin)
    old = (origin / "small.bin").read_bytes()
    with (mounted.root / "small.bin").open("rb", 0) as file:
        assert file.read(1000) == old[:1000]
    (origin / "small.bin").write_bytes(bytes(300_000))
    (origin / "sub/a.bin").unlink()
    for name in ("small.bin", "sub/a.bin"):
        with pytest.raises(OSError) as caught:
            (mounted.root / name).read_bytes()
        assert caught.value.errno == errno.ESTALE, name
    with (mounted.root / "small.bin").open("rb", 0) as file:
        assert file.read(1000) == old[:1000], "what is resident is what was indexed"
    served = mounted.end()
    assert served["failed_reads"] >= 2
    assert "small.bin" in mounted.words and "changed" in mounted.words


@pytest.mark.parametrize("leave", ["kill", "stop"])
def test_it_survives_the_end_of_the_daemon(
    origin: Path, node: Node, mounts: MakeMount, leave: str
) -> None:
    mounted = mounts(origin)
    assert (mounted.root / "small.bin").read_bytes() == (origin / "small.bin").read_bytes()
    for name in ("small.bin", "large.bin", "sub/deep/b.bin"):
        node.kill() if leave == "kill" else node.stop()
        assert (mounted.root / name).read_bytes() == (origin / name).read_bytes()
        if not node.daemons():
            # All was resident: the next read that needs a daemon starts one.
            node.open(Path(mounted.said["index"]))
    assert node.status()["metrics"]["corrupt_blocks"] == 0
    assert mounted.end()["failed_reads"] == 0


@pytest.mark.parametrize("options", [["--capacity", "64KiB"], ["--no-daemon"]])
def test_without_room_or_daemon_bytes_come_from_the_origin(
    origin: Path, mounts: MakeMount, options: list[str]
) -> None:
    mounted = mounts(origin, *options)
    for name in files(origin):
        both(["cat", name], origin, mounted)
    assert mounted.end()["direct_bytes"] > 0


def test_an_origin_that_hangs_ends_at_the_deadline_and_holds_up_nobody_else(
    origin: Path, tmp_path: Path, mounts: MakeMount
) -> None:
    tier = Tier.mount(origin, tmp_path / "slow")
    try:
        mounted = mounts(tier.root, "--deadline", "2")
        (mounted.root / "small.bin").read_bytes()
        tier.fault("hang", "--path", "a.bin")
        failed = []

        def read() -> None:
            try:
                (mounted.root / "sub/a.bin").read_bytes()
            except OSError as error:
                failed.append(error.errno)

        readers = [threading.Thread(target=read) for _ in range(12)]
        for reader in readers:
            reader.start()
        assert (mounted.root / "small.bin").read_bytes() == (origin / "small.bin").read_bytes()
        output(["ls", "-lR"], mounted.root)
        for reader in readers:
            reader.join()
        assert failed == [errno.ETIMEDOUT] * 12
        tier.clear()
        assert (mounted.root / "sub/a.bin").read_bytes() == (origin / "sub/a.bin").read_bytes()
        mounted.end()
    finally:
        tier.unmount()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_unmount_although_files_are_open(
    origin: Path, mounts: MakeMount, number: signal.Signals
) -> None:
    mounted = mounts(origin)
    with (mounted.root / "small.bin").open("rb", 0) as file:
        assert len(file.read(10)) == 10
        served = mounted.end(number)
        assert served["opens"] == 1
        with pytest.raises(OSError):
            os.pread(file.fileno(), 10, 200_000)
    assert not any(mounted.root.iterdir()), "the folder is as it was"


def test_an_unmount_from_outside_ends_it(origin: Path, mounts: MakeMount) -> None:
    mounted = mounts(origin)
    output(["umount", mounted.root], origin)
    mounted.process.wait(60)
    assert mounted.end()["opens"] == 0


def test_it_stays_in_the_background(origin: Path, node: Node, tmp_path: Path) -> None:
    need_fuse()
    root = tmp_path / "behind"
    root.mkdir()
    done = command("mount", origin, root, "--cache", node.cache, "--detach")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"mounted on {root}: {len(files(origin))} files")
    try:
        assert (root / "small.bin").read_bytes() == (origin / "small.bin").read_bytes()
        again = command("mount", origin, root, "--cache", node.cache, "--detach")
        assert (again.returncode, again.stdout) == (1, "")
        assert "already" in again.stderr
    finally:
        output(["umount", root], tmp_path)
    assert not is_mounted(root)
    eventually("its process ends", lambda: "unmounted: " in (node.cache / "daemon.log").read_text())


def test_wrong_places_are_refused_in_words(origin: Path, node: Node, tmp_path: Path) -> None:
    need_fuse()
    for source, root, words in [
        (origin, origin / "empty", "inside the source"),
        (origin, origin / "small.bin", "not a folder"),
        (origin, tmp_path / "missing", "make the folder first"),
        (tmp_path / "missing", tmp_path, "No such file"),
        (origin / "small.bin", tmp_path / "cache", "not a Forebay index"),
        ("s3://bucket/x", tmp_path / "cache", "forebay index --files"),
    ]:
        node.cache.mkdir(exist_ok=True)
        done = command("mount", source, root, "--cache", node.cache)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert words in done.stderr, done.stderr


def test_an_index_is_mounted_without_its_folder(
    origin: Path, tmp_path: Path, node: Node, mounts: MakeMount
) -> None:
    index = tmp_path / "files.forebay"
    forebay.index(origin, index, files=True)
    mounted = mounts(index)
    shown = files(mounted.root)
    assert Path("sub/a.bin") in shown and Path("link") in shown
    assert not (mounted.root / ".hidden").exists()
    for name in shown:
        assert (mounted.root / name).read_bytes() == (origin / name).read_bytes(), name
        here, there = (mounted.root / name).stat(), (origin / name).stat()
        assert (here.st_size, here.st_mtime_ns) == (there.st_size, there.st_mtime_ns), name
        assert here.st_mode & 0o777 == 0o444
    mounted.end()


def test_a_manifest_that_is_kept_is_used_again(
    origin: Path, tmp_path: Path, mounts: MakeMount
) -> None:
    manifest = tmp_path / "kept.forebay"
    first = mounts(origin, "--manifest", manifest)
    assert first.said["walk_seconds"] is not None
    first.end()
    (origin / "later").write_text("not in the manifest")
    second = mounts(origin, "--manifest", manifest)
    assert second.said["walk_seconds"] is None
    assert not (second.root / "later").exists()
    both(["cat", "link"], origin, second)
    second.end()
    third = mounts(origin)
    assert (third.root / "later").read_text() == "not in the manifest"


def test_permissions_hold_for_other_users(origin: Path, node: Node) -> None:
    script = (
        "import os, sys\nos.setgid(65534); os.setuid(65534)\n"
        "print(len(open(sys.argv[1] + '/small.bin', 'rb').read()))\n"
        "try:\n    open(sys.argv[1] + '/secret')\n"
        "except PermissionError:\n    print('refused')\n"
    )
    # The folders of tests are for their user alone.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        mounted = Mounted.make(origin, Path(folder) / "mount", node.cache, "--allow-other")
        try:
            found = output([sys.executable, "-c", script, mounted.root], Path("/"))
        finally:
            mounted.end()
    assert found == b"300000\nrefused\n"


def test_who_may_not_let_the_kernel_read_reads_all_the_same(origin: Path) -> None:
    need_fuse()
    for program in ("setpriv", "fusermount3"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    with tempfile.TemporaryDirectory() as folder:
        root, shown, cache = (Path(folder) / name for name in ("origin", "mount", "cache"))
        shutil.copytree(origin, root, symlinks=True)
        program = shutil.copy(find_command() or "forebay", folder)
        shown.mkdir()
        cache.mkdir()
        for path in (Path(folder), *Path(folder).rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
        line = [*nobody, program, "mount", root, shown, "--cache", cache, "--json"]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["files"] == len(files(root))
            for _ in range(2):
                found = output([*nobody, "cat", shown / "large.bin"], Path("/"))
                assert found == (root / "large.bin").read_bytes()
        finally:
            process.terminate()
            served = json.loads(process.communicate(timeout=60)[0].splitlines()[-1])
            subprocess.run([*nobody, program, "stop", "--cache", cache], check=True)
        assert (served["opens"], served["passthrough_opens"], served["failed_reads"]) == (2, 0, 0)
