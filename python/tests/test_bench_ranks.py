"""Several ranks of Python benchmarks: how they meet, how they fail, what twins of native ones do."""

from __future__ import annotations

import json
import time
from pathlib import Path

import jsonschema
import pytest
from bench_ranks import finish, free_port, run, start, write_spec

from forebay.bench._cache import Cache, CacheError, resident_bytes

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs/schema/bench-manifest.json").read_text(encoding="utf-8")
)

MEETS = """
import os, time
from forebay.bench import barrier, benchable, current

@benchable
def meets(work_dir, rank: int, lost: int = -1):
    current().shared.joinpath(f"{rank}-{current().iteration}").touch()
    yield
    if rank == lost:
        os._exit(9)
    barrier()
    yield
    names = [path.name for path in current().shared.iterdir()]
    assert all(f"{other}-{current().iteration}" in names for other in range(3)), names
"""


@pytest.fixture
def meets(tmp_path: Path) -> str:
    path = tmp_path / "meets.py"
    path.write_text(MEETS)
    return str(path)


@pytest.mark.parametrize("init", ["env", "file"])
def test_ranks_meet_at_a_port_and_in_a_folder(tmp_path: Path, meets: str, init: str) -> None:
    dist_init = "env" if init == "env" else f"file:{tmp_path / 'meet'}"
    more = {"dist_init": dist_init, "started_unix_ns": time.time_ns()}
    ended = run(tmp_path / "run", "meets", 3, module=meets, **more).passed()
    for rank, manifest in enumerate(ended.manifests):
        jsonschema.validate(manifest, SCHEMA)
        assert (manifest["dist"]["rank"], manifest["dist"]["world_size"]) == (rank, 3)
        # One within the timed part, one after it, of each measured iteration.
        assert manifest["timing"]["barrier_wait"]["count"] == 4
        assert manifest["timing"]["gang_start"]["count"] == 1
    assert not (tmp_path / "run" / "work").exists()


@pytest.mark.parametrize("init", ["env", "file"])
def test_the_others_end_when_a_rank_fails(tmp_path: Path, meets: str, init: str) -> None:
    dist_init = "env" if init == "env" else f"file:{tmp_path / 'meet'}"
    broken = tmp_path / "broken.py"
    broken.write_text(MEETS.replace("os._exit(9)", "raise RuntimeError('lost')"))
    more = {"module": str(broken), "dist_init": dist_init, "params": {"lost": 1}}
    ended = run(tmp_path / "run", "meets", 3, **more)
    assert ended.codes == [1, 1, 1]
    assert "lost" in ended.manifests[1]["error"]
    assert "rank" in ended.manifests[2]["error"]


def test_the_others_end_when_a_rank_dies(tmp_path: Path, meets: str) -> None:
    ended = run(tmp_path / "run", "meets", 3, module=meets, params={"lost": 1})
    assert ended.codes == [1, 9, 1]
    assert [one["dist"]["rank"] for one in ended.manifests] == [0, 2]
    assert all(one["status"] == "fail" and one["error"] for one in ended.manifests)


def test_a_rank_that_never_comes_ends_the_wait(tmp_path: Path, meets: str) -> None:
    run_json = write_spec(tmp_path / "run", "meets", module=meets, timeout_s=2)
    port = free_port()
    ended = finish(run_json, [start(run_json, rank, 3, port) for rank in (0, 2)])
    assert ended.codes == [1, 1]
    assert "until the run's time was over" in ended.manifests[0]["error"]


TWINS = {
    "create_files": ["close", "file_total", "fsync", "open", "write"],
    "list_files": ["list_total", "readdir", "stat"],
    "move_files": ["rename"],
    "delete_files": ["unlink"],
    "md5_check": ["close", "file_total", "hash", "open", "read"],
}


@pytest.mark.parametrize("benchmark", TWINS)
def test_twins_through_fsspec_do_the_same_work(tmp_path: Path, benchmark: str) -> None:
    params = {"num_copies": 20, "file_size": 5000}
    if benchmark == "md5_check":
        params["pattern"] = "random"
    more = {"interface": "fsspec", "fsync": "file", "drop_cache": "fadvise"}
    ended = run(tmp_path / "run", benchmark, 2, params=params, **more).passed()
    for manifest in ended.manifests:
        jsonschema.validate(manifest, SCHEMA)
        assert sorted(manifest["timing"]) == sorted([*TWINS[benchmark], "barrier_wait"])
        one = TWINS[benchmark][-1]
        files = manifest["timing"][one]["count"]
        assert files == (2 if one == "list_total" else 40)
        assert manifest["verify"]["checked"] == 60
        assert manifest["params"]["interface"] == "fsspec"


def test_a_wrong_digest_fails_the_run(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.dat").write_bytes(b"right")
    (data / "b.dat").write_bytes(b"wrong")
    right = "37dd5a2e3fd33cf34afdb4bd2dfa8b7b"
    listed = [{"path": name, "bytes": 5, "md5": right} for name in ("a.dat", "b.dat")]
    import hashlib

    listed[0]["md5"] = hashlib.md5(b"right").hexdigest()
    (data / "files.jsonl").write_text("".join(json.dumps(one) + "\n" for one in listed))
    params = {"dataset": str(data)}
    ended = run(tmp_path / "run", "md5_check", params=params, interface="fsspec")
    assert ended.codes == [1]
    assert ended.manifests[0]["verify"] == {"checked": 6, "bad": 3}


def test_dropped_files_are_out_of_the_page_cache_and_kept_ones_are_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 300_000)
    path.read_bytes()
    if resident_bytes(path, 300_000) != 300_000:
        pytest.skip("residency is not measured on this file system")
    looked = Cache("none")
    looked.drop([path])
    assert looked.described()["resident_before_bytes"] == 300_000
    assert looked.described()["not_cold"][0] == "file data"
    dropped = Cache("verify")
    dropped.drop([path])
    assert dropped.described()["cold"] == ["file data"]
    assert resident_bytes(path, 300_000) == 0
    import mmap

    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[::4096]) > 0
        with pytest.raises(CacheError, match="stay in the page cache"):
            Cache("verify").drop([path])


def test_a_run_that_is_ended_cleans_up_and_says_so(tmp_path: Path) -> None:
    ours = tmp_path / "ours.py"
    ours.write_text(
        "import time\nfrom forebay.bench import benchable\n@benchable\n"
        "def waits(work_dir):\n    (work_dir / 'here').touch()\n    time.sleep(300)\n"
    )
    run_json = write_spec(tmp_path / "run", "waits", module=str(ours))
    process = start(run_json, 0, 1, 0)
    here = tmp_path / "run" / "work" / "rank-00000" / "here"
    deadline = time.monotonic() + 120
    while not here.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.terminate()
    ended = finish(run_json, [process])
    assert ended.codes == [143]
    assert ended.manifests[0]["status"] == "fail" and "143" in ended.manifests[0]["error"]
    assert not here.parent.exists()


def test_a_folder_that_is_there_is_listed_with_all_below_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "deep/er").mkdir(parents=True)
    (data / "deep/er/a").write_bytes(b"123")
    (data / "b").write_bytes(b"12")
    (data / "link").symlink_to("b")
    params = {"dataset": str(data)}
    ended = run(tmp_path / "run", "list_files", params=params, interface="fsspec").passed()
    timing = ended.manifests[0]["timing"]
    assert (timing["readdir"]["count"], timing["stat"]["count"]) == (2 * 3, 2 * 5)
    assert ended.manifests[0]["verify"] == {"checked": 15, "bad": 0}
    absent = {"dataset": str(tmp_path / "absent")}
    ended = run(tmp_path / "absent-run", "list_files", params=absent, interface="fsspec")
    assert ended.codes == [1]
    assert f"there is no folder `{tmp_path}/absent`" in ended.manifests[0]["error"]
