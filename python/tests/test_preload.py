"""Programs as they are, under the preload library: the same output, and bytes from the cache."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from mounted import Mounted
from node import Node
from staged import Staged, compiled, library, python
from tier import command

from forebay._command import find_command

SIZE = 700_000


def _noise(path: Path, size: int = SIZE) -> None:
    path.write_bytes(np.random.default_rng(size).bytes(size))


def _hdf5(root: Path) -> None:
    rng = np.random.default_rng(3)
    for version in ("earliest", "v110", "latest"):
        with h5py.File(root / f"{version}.h5", "w", libver=version) as file:
            for name, options in {
                "plain": {},
                "gzip": {"compression": "gzip", "shuffle": True},
                "lzf": {"compression": "lzf", "fletcher32": True},
                "chunked": {"chunks": (20, 3)},
            }.items():
                file.create_dataset(f"group/{name}", data=rng.integers(0, 99, (400, 30)), **options)
            file["text"] = "words"
            file.attrs["of"] = version


def _fill(root: Path, outside: Path) -> None:
    _noise(root / "noise.bin")
    _noise(root / "small.bin", 5000)
    (root / "empty").touch()
    (root / "tree" / "below").mkdir(parents=True)
    for number in range(5):
        text = "".join(f"line {n} of {number}: needle {n % 7}\n" for n in range(4000))
        (root / "tree" / "below" / f"{number}.txt").write_text(text)
    connection = sqlite3.connect(root / "table.sqlite")
    connection.execute("create table t (a integer, b text)")
    connection.executemany(
        "insert into t values (?, ?)", ((n, f"row {n % 13}") for n in range(9000))
    )
    connection.commit()
    connection.close()
    np.save(root / "array.npy", np.random.default_rng(2).standard_normal((300, 100)))
    _hdf5(root)
    (outside / "foreign.txt").write_text("this is no staged file\n" * 3)


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    folder = tmp_path_factory.mktemp("preload")
    root = folder / "root"
    root.mkdir()
    _fill(root, folder)
    made = Staged(root, Node(folder / "cache"), folder / "files.forebay")
    made.take()
    yield made
    made.node.stop()


def same_with_and_without(staged: Staged, line: list[object], cwd: Path | None = None) -> bytes:
    """Runs a program directly, then served and cold or not, then served while the origin has other
    bytes. Returns what it prints every time."""
    plain = staged.run(line, face=False, cwd=cwd)
    assert plain != b""
    assert staged.run(line, face=True, cwd=cwd) == plain
    with staged.taken_away():
        assert staged.run(line, face=True, cwd=cwd) == plain
    return plain


def tools(root: Path, out: Path) -> dict[str, list[object]]:
    noise, tree = root / "noise.bin", root / "tree"
    return {
        "cat": ["cat", noise, root / "small.bin", root / "empty"],
        "dd": ["dd", f"if={noise}", "bs=70001", "skip=2", "status=none"],
        "head": ["head", "-c", "123456", noise],
        "tail": ["tail", "-c", "77777", noise],
        "md5sum": ["md5sum", noise, root / "small.bin"],
        "cp": ["sh", "-c", f"cp {noise} {out}/copy && cp -r {tree} {out}/tree && "
               f"LD_PRELOAD= cat {out}/copy {out}/tree/below/*; rm -r {out}/copy {out}/tree"],
        "tar": ["tar", "cf", "-", "-C", root, "noise.bin", "tree"],
        "git": ["git", "hash-object", noise, root / "small.bin"],
        "grep": ["grep", "-r", "--count", "needle 3", tree],
        "sort": ["sort", "-n", tree / "below" / "3.txt"],
        "sqlite3": ["sqlite3", "-readonly", root / "table.sqlite",
                    "select b, count(*), sum(a) from t group by b"],
        "h5dump": ["h5dump", "-d", "/group/gzip", root / "earliest.h5"],
        "ncdump": ["ncdump", root / "netcdf.nc"],
    }  # fmt: skip


@pytest.mark.parametrize("name", [*tools(Path(), Path())])
def test_tools_print_what_they_print_without_it(staged: Staged, tmp_path: Path, name: str) -> None:
    line = tools(staged.root, tmp_path)[name]
    if shutil.which(str(line[0])) is None:
        pytest.skip(f"there is no `{line[0]}`")
    if name == "ncdump":
        netcdf = pytest.importorskip("netCDF4")
        with netcdf.Dataset(staged.root / "netcdf.nc", "w") as file:
            file.createDimension("x", 5000)
            file.createVariable("v", "f4", ("x",), zlib=True)[:] = np.arange(5000)
        staged.take()
    plain = same_with_and_without(staged, line)
    with staged.taken_away():
        assert staged.run(line, face=False, code=None) != plain, "without, the other bytes are seen"


PYTHON: dict[str, str] = {
    "read": "data = open(sys.argv[1] + '/noise.bin', 'rb').read()",
    "raw": "file = os.open(sys.argv[1] + '/noise.bin', 0); "
    "data = os.pread(file, 5000, 100) + os.read(file, 9) + os.lseek(file, 0, 1).to_bytes(4)",
    "mmap": "import mmap; file = open(sys.argv[1] + '/noise.bin', 'rb'); "
    "data = bytes(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))",
    "shutil": "import shutil; shutil.copyfile(sys.argv[1] + '/noise.bin', sys.argv[2] + '/c'); "
    "data = open(sys.argv[2] + '/c', 'rb').read()",
    "subprocess": "import subprocess; file = open(sys.argv[1] + '/noise.bin', 'rb'); file.seek(9); "
    "data = subprocess.run(['cat'], stdin=file, stdout=-1).stdout * 0 + open(file.name, 'rb').read()",
    "fromfile": "import numpy; data = numpy.fromfile(sys.argv[1] + '/noise.bin', 'u1', offset=70)",
    "memmap": "import numpy; data = numpy.memmap(sys.argv[1] + '/noise.bin', 'u1', 'r')[10:]",
    "load": "import numpy; data = numpy.load(sys.argv[1] + '/array.npy')",
    "load mapped": "import numpy; data = numpy.load(sys.argv[1] + '/array.npy', mmap_mode='r')",
    "torch": "import torch; name = sys.argv[1] + '/model.pt'; "
    "data = torch.load(name)['w'].numpy().tobytes() + torch.load(name, mmap=True)['w'].numpy().data",
    "safetensors": "from safetensors.numpy import load_file; "
    "data = load_file(sys.argv[1] + '/model.safetensors')['w']",
    "pyarrow": "import pyarrow.parquet as pq; name = sys.argv[1] + '/table.parquet'; "
    "data = pq.read_table(name)['x'].to_numpy().tobytes() "
    "+ pq.read_table(name, memory_map=True)['x'].to_numpy().tobytes()",
    "PIL": "from PIL import Image; data = Image.open(sys.argv[1] + '/image.png').tobytes()",
    "netCDF4": "import netCDF4; data = netCDF4.Dataset(sys.argv[1] + '/earliest.h5')"
    "['group/gzip'][:].tobytes()",
    **{
        version: f"import h5py; file = h5py.File(sys.argv[1] + '/{version}.h5'); "
        "data = b''.join(v[:].tobytes() for v in file['group'].values()) + file['text'][()]"
        for version in ("earliest", "v110", "latest")
    },
}


def _more(root: Path, name: str) -> None:
    """Files of packages that take a while to load."""
    values = np.random.default_rng(9).standard_normal(90_000).astype("f4")
    if name == "torch":
        import torch

        torch.save({"w": torch.from_numpy(values)}, root / "model.pt")
    elif name == "safetensors":
        from safetensors.numpy import save_file

        save_file({"w": values}, root / "model.safetensors")
    elif name == "pyarrow":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"x": values}), root / "table.parquet")
    elif name == "PIL":
        from PIL import Image

        Image.fromarray((values[:60_000].reshape(200, 300) * 50).astype("u1")).save(
            root / "image.png"
        )


@pytest.mark.parametrize("name", PYTHON)
def test_python_programs_read_what_they_read_without_it(
    staged: Staged, tmp_path: Path, name: str
) -> None:
    if name in ("torch", "safetensors", "pyarrow", "PIL", "netCDF4"):
        pytest.importorskip(name)
        _more(staged.root, name)
        staged.take()
    say = "import hashlib; print(len(bytes(data)), hashlib.sha256(bytes(data)).hexdigest())"
    code = f"import os, sys\n{PYTHON[name]}\n{say}"
    same_with_and_without(staged, python(code, staged.root, tmp_path))


@pytest.mark.parametrize(
    "how", ["calls", "kernel", "streams", "threads", "forks", "numbers", "signals"]
)
def test_a_c_program_finds_no_difference(
    staged: Staged, tmp_path_factory: pytest.TempPathFactory, how: str
) -> None:
    program = compiled("reader.c", tmp_path_factory.mktemp("c"))
    foreign = staged.root.parent / "foreign.txt"
    line = [program, how, staged.root / "noise.bin", foreign]
    plain = staged.run(line, face=False)
    assert staged.run(line, face=True) == plain
    if how == "signals":
        # What a handler reads that interrupts a read is the origin's: one decision at a time.
        return
    with staged.taken_away():
        served = staged.run(line, face=True)
    if how == "forks":
        # The last line is of a program that got the descriptor and never opened the file: by the
        # kernel's word it reads the origin.
        served, plain = (said.rsplit(b"\n", 2)[0] for said in (served, plain))
    assert served == plain


def test_handlers_that_interrupt_malloc_may_read_what_is_absent(tmp_path: Path, node: Node) -> None:
    root = tmp_path / "cold"
    root.mkdir()
    # So large that 400 reads of it, block by block, do not make it all resident.
    _noise(root / "noise.bin", 40_000_000)
    cold = Staged(root, node, tmp_path / "cold.forebay")
    cold.take()
    foreign = tmp_path / "foreign.bin"
    foreign.hardlink_to(root / "noise.bin")
    program = compiled("reader.c", tmp_path)
    # A handler that waits for the lock of malloc waits for ever.
    line = [program, "allocations", root / "noise.bin", foreign]
    assert cold.run(line, face=True) == b"allocations\n"
    assert cold.node.status()["metrics"]["origin_bytes"] > 0, "the cache was asked"


def test_a_static_program_reads_the_origin_here_and_the_cache_on_the_mount(
    tmp_path: Path, node: Node
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    _noise(root / "noise.bin")
    staged = Staged(root, node, tmp_path / "files.forebay")
    staged.take()
    program = compiled("reader.c", tmp_path, "-static")
    plain = staged.run([program, "calls", root / "noise.bin"], face=True)
    mounted = Mounted.make(root, tmp_path / "mount", node.cache)
    try:
        line = [program, "calls", mounted.root / "noise.bin"]
        assert staged.run(line, face=False) == plain
        with staged.taken_away():
            assert staged.run(line, face=False) == plain
            assert staged.run([program, "calls", root / "noise.bin"], face=True) != plain
    finally:
        mounted.end()


def test_a_cpp_program_finds_no_difference(staged: Staged, tmp_path: Path) -> None:
    program = compiled("reader.cc", tmp_path)
    same_with_and_without(staged, [program, staged.root / "tree" / "below" / "1.txt"])


@pytest.mark.parametrize(
    "path", ["noise.bin", "tree/../noise.bin", "./tree//below/../../noise.bin"]
)
def test_relative_paths_are_followed(staged: Staged, path: str) -> None:
    same_with_and_without(staged, ["cat", path], cwd=staged.root)
    same_with_and_without(staged, ["cat", f"root/{path}"], cwd=staged.root.parent)
    same_with_and_without(staged, ["cat", f"../{path}"], cwd=staged.root / "tree")
    same_with_and_without(staged, ["cat", f"{staged.root}/{path}"])


def test_links_are_followed(staged: Staged, tmp_path: Path) -> None:
    link = staged.root / "link"
    link.symlink_to("tree/below")
    try:
        same_with_and_without(staged, ["cat", link / "2.txt"])
    finally:
        link.unlink()


def test_writes_go_to_the_origin(staged: Staged) -> None:
    code = """
import os, sys
path = sys.argv[1] + '/written.txt'
with open(path, 'w') as file: file.write('first')
with open(path, 'r+') as file:
    assert file.read() == 'first'
    file.write(' second')
with open(path, 'a') as file: file.write(' third')
file = os.open(path, os.O_RDONLY)
print(open(path).read(), os.read(file, 99))
os.truncate(path, 5)
print(os.pread(file, 99, 0), os.path.getsize(path))
os.unlink(path)
"""
    wanted = b"first second third b'first second third'\nb'first' 5\n"
    assert staged.run(python(code, staged.root), face=True) == wanted


def test_nothing_is_different_where_nothing_is_staged(staged: Staged, tmp_path: Path) -> None:
    foreign = staged.root.parent / "foreign.txt"
    for line in (
        ["cat", foreign],
        ["ls", "-l", staged.root.parent],
        ["md5sum", foreign],
        ["stat", "-c", "%s %Y %i %a", staged.root / "noise.bin", foreign],
        ["sh", "-c", "exec 3</dev/null; cat <&3; echo done"],
    ):
        assert staged.run(line, face=True) == staged.run(line, face=False)
    for roots in ("", ":", "relative", "/nonexistent", f"{tmp_path}=/nonexistent", "=" * 500):
        environment = {"FOREBAY_ROOTS": roots, "LD_PRELOAD": str(library())}
        done = subprocess.run(["cat", foreign], env=environment, capture_output=True, check=True)
        assert (done.stdout, done.stderr) == (foreign.read_bytes(), b"")


LOADER = """
import sys, hashlib
import h5py, torch

class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.file = None
    def __len__(self):
        return 400
    def __getitem__(self, at):
        self.file = self.file or h5py.File(sys.argv[1] + '/latest.h5')
        group = self.file['group']
        return torch.from_numpy(group['gzip'][at]), torch.from_numpy(group['plain'][at])

loader = torch.utils.data.DataLoader(
    Rows(), batch_size=16, shuffle=True, num_workers=4, generator=torch.Generator().manual_seed(1))
for epoch in range(2):
    found = hashlib.sha256()
    for batch in loader:
        for field in batch:
            found.update(field.numpy().tobytes())
    print(epoch, found.hexdigest())
"""


def test_workers_of_a_loader_read_h5py_files(staged: Staged) -> None:
    pytest.importorskip("torch")
    same_with_and_without(staged, python(LOADER, staged.root))


def test_run_brings_everything_up_itself(staged: Staged, tmp_path: Path) -> None:
    cache, noise = tmp_path / "cache", staged.root / "noise.bin"
    link = tmp_path / "link"
    link.symlink_to(staged.root)
    look = "sha256sum $1/noise.bin $2/noise.bin; $3 status --cache $FOREBAY_CACHE --json"
    words = ("run", "--cache", cache, "--capacity", "1GiB", "--preload", "--roots", link)
    done = command(*words, "--", "sh", "-c", look, "sh", staged.root, link, find_command())
    assert done.returncode == 0, done.stderr
    *sums, status = done.stdout.split("\n", 2)
    wanted = subprocess.run(["sha256sum", noise], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in sums] == [wanted.stdout.split()[0]] * 2
    read = json.loads(status)["metrics"]["origin_bytes"]
    assert read == SIZE, "the file was read once, under both names"


def test_run_says_what_it_lacks(tmp_path: Path) -> None:
    def said(*words: object) -> tuple[int, str]:
        done = command("run", "--cache", tmp_path / "cache", *words, "--", "true")
        return done.returncode, done.stderr

    code, words = said("--preload")
    assert (code, "--roots" in words) == (2, True)
    code, words = said("--preload", "--roots", tmp_path / "nowhere")
    assert (code, f"`{tmp_path}/nowhere`" in words) == (1, True)
    code, words = said("--roots", tmp_path)
    assert (code, "--preload" in words) == (2, True)


def test_an_index_of_samples_will_do(staged: Staged, tmp_path: Path) -> None:
    import forebay

    index = tmp_path / "samples.forebay"
    forebay.index(staged.root / "latest.h5", index, sample="rows:/group/plain", root=staged.root)
    line: list[Any] = ["md5sum", staged.root / "latest.h5"]
    of_samples = Staged(staged.root, staged.node, index)
    plain = of_samples.run(line, face=True)
    with staged.taken_away():
        assert of_samples.run(line, face=True) == plain
