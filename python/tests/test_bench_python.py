"""A Python function as a benchmark: its parameters, what is timed, and the manifest."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from bench_ranks import run

from forebay.bench import BenchError, _measure, _registry, benchable, measurable, measured
from forebay.bench._facts import file_system
from forebay.bench._measure import Recorder, statistics
from forebay.bench._spec import Place, place
from forebay.bench._values import convert

TREE = Path(__file__).parents[2]
SCHEMA = json.loads((TREE / "docs/schema/bench-manifest.json").read_text())


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(_registry, "_registry", dict(_registry._registry))
    yield
    _measure.use(None)


def module(folder: Path, text: str) -> str:
    path = folder / "ours.py"
    path.write_text(text)
    return str(path)


def example() -> str:
    """The first example of the document."""
    document = (TREE / "docs/BENCH_PYTHON.md").read_text()
    found = re.search(r"```python\n(.*?)```", document, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_worked_example_of_the_document_runs(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for i in range(7):
        (data / f"{i}.h5").write_bytes(b"x" * i)
    (data / "other").touch()
    ours = module(tmp_path, example())
    listed = subprocess.run(
        [sys.executable, "-m", "forebay.bench", "list", "--json", "--module", ours],
        capture_output=True,
        text=True,
        check=True,
    )
    (found,) = (one for one in json.loads(listed.stdout) if one["name"] == "read_all")
    assert found["help"] == "Read every file of a folder."
    (pattern,) = found["params"]
    assert (pattern["name"], pattern["type"], pattern["default"]) == ("pattern", "str", "*")
    params = {"pattern": "*.h5"}
    ended = run(tmp_path / "run", "read_all", module=ours, params=params, dataset_path=str(data))
    (manifest,) = ended.passed().manifests
    jsonschema.validate(manifest, SCHEMA)
    read = manifest["timing"]["read"]
    assert (read["count"], read["iteration"]) == (14, [7, 7])
    assert [one["warmup"] for one in manifest["iterations"]] == [True, False, False]
    assert manifest["params"]["pattern"] == "*.h5"
    lines = [json.loads(line) for line in ended.errors[0].splitlines()]
    assert [(line["iteration"], line["of"]) for line in lines] == [(0, 3), (1, 3), (2, 3)]


def test_parameters_are_those_of_the_signature() -> None:
    @dataclass(frozen=True)
    class Shape:
        rows: Annotated[int, "how many"] = 3
        wide: bool = False

    # Names in an annotation are looked up where the module's are.
    globals()["Shape"] = Shape

    @benchable(name="test_signature", category="Ours")
    def function(
        dataset_path: Path,
        seed: int,
        size: Annotated[int, "bytes"],
        shape: Shape,
        mode: Literal["a", "b"] = "a",
        sizes: list[int] | None = None,
    ) -> None: ...

    found = _registry.find("test_signature", "native")
    described = found.described()
    assert (described["category"], described["engine"]) == ("Ours", "python")
    params = {one["name"]: one for one in described["params"]}
    assert list(params) == ["size", "rows", "wide", "mode", "sizes"]
    assert (params["size"]["type"], params["size"]["required"]) == ("int", True)
    assert (params["rows"]["default"], params["rows"]["help"]) == (3, "how many")
    assert params["mode"]["choices"] == ["a", "b"]
    given = {"dataset_path": "/data", "seed": 4}
    arguments = found.arguments({"size": "4KiB", "wide": "true", "sizes": "1K,2"}, given)
    assert arguments == {
        "dataset_path": Path("/data"),
        "seed": 4,
        "size": 4096,
        "shape": Shape(3, True),
        "mode": "a",
        "sizes": [1024, 2],
    }


def test_values_are_read_as_their_types() -> None:
    for text, annotation, wanted in [
        ("7", int, 7),
        ("2GB", int, 2_000_000_000),
        (5, int, 5),
        ("0.5", float, 0.5),
        (1, float, 1.0),
        ("no", bool, False),
        (True, bool, True),
        ("a/b", Path, Path("a/b")),
        (["1", 2], list[int], [1, 2]),
        ("2", Literal[1, 2], 2),
        (None, int, None),
    ]:
        found = convert("name", text, annotation)
        assert (found, type(found)) == (wanted, type(wanted))


def test_what_does_not_fit_is_refused_by_name() -> None:
    @benchable(name="test_refuses")
    def function(size: int, flag: bool = True, mode: Literal["a", "b"] = "a") -> None: ...

    found = _registry.find("test_refuses", None)
    for params, words in [
        ({}, "`test_refuses` needs a value for `size`"),
        ({"colour": 1}, "has no parameter `colour`: it has size, flag, mode"),
        ({"size": "4QiB"}, "`size` must be a whole number"),
        ({"size": 1, "flag": "maybe"}, "`flag` must be `true` or `false`: `maybe`"),
        ({"size": 1, "mode": "c"}, "`mode` must be one of a, b: `c`"),
    ]:
        with pytest.raises(BenchError, match=re.escape(words)):
            found.values(params)
    with pytest.raises(BenchError, match="must name its parameters"):
        benchable(name="test_open")(lambda *sizes: None)
    with pytest.raises(BenchError, match="two benchmarks are named"):
        benchable(name="test_refuses")(lambda size: None)


def test_a_benchmark_of_no_name_or_interface_is_refused_with_those_there_are() -> None:
    _registry.load()
    with pytest.raises(BenchError, match="there is no benchmark `nothing` in Python: there are "):
        _registry.find("nothing", "native")
    with pytest.raises(BenchError, match="only with `--interface fsspec`"):
        _registry.find("list_files", "native")
    with pytest.raises(BenchError, match="there is no module"):
        _registry.load(["/nowhere/ours.py"])


def test_entry_points_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "of_a_package.py").write_text(
        "from forebay.bench import benchable\n@benchable\ndef of_a_package() -> None: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry = importlib.metadata.EntryPoint("ours", "of_a_package", "forebay.bench")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry])
    _registry.load()
    assert _registry.find("of_a_package", None).name == "of_a_package"
    broken = importlib.metadata.EntryPoint("ours", "not_there_at_all", "forebay.bench")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [broken])
    with pytest.raises(BenchError, match="not_there_at_all"):
        _registry.load()


def test_measurable_functions_may_call_each_other() -> None:
    @measurable(name="inner")
    def below() -> int:
        time.sleep(0.002)
        return 5

    @measurable
    def _outer() -> int:
        return below() + below()

    assert _outer() == 10
    recorder = Recorder()
    _measure.use(recorder)
    assert _outer() == 10
    recorder.begin()
    assert _outer() == 10
    with measured("block"):
        below()
    with pytest.raises(ValueError), measured("failed"):
        raise ValueError
    samples = recorder.end()
    assert {op: len(all) for op, all in samples.items()} == {"inner": 3, "outer": 1, "block": 1}
    assert samples["outer"][0] >= sum(samples["inner"][:2]) >= 4_000_000


def test_statistics_are_of_the_nearest_rank() -> None:
    found = statistics([[40, 10], [30, 20]])
    assert (found["p50"], found["p90"], found["min"], found["max"]) == (20, 40, 10, 40)
    assert (found["mean"], found["count"], found["iteration"]) == (25, 4, [2, 2])
    thousand = statistics([list(range(1, 1001))])
    assert (thousand["p99"], thousand["p999"]) == (990, 999)
    assert statistics([[]])["p50"] == 0


def test_only_the_timed_part_is_recorded(tmp_path: Path) -> None:
    ours = module(
        tmp_path,
        """
import time
from forebay.bench import benchable, count, measured, untimed, verified

@benchable
def parts(work_dir):
    with measured("set_up"):
        pass
    yield
    with measured("work"):
        time.sleep(0.001)
    with untimed(), measured("aside"):
        time.sleep(0.4)
    count(io_bytes=10, ops=2)
    yield
    with measured("after"):
        pass
    verified(3)
""",
    )
    (manifest,) = run(tmp_path / "run", "parts", module=ours).passed().manifests
    assert set(manifest["timing"]) == {"work", "barrier_wait"}
    assert manifest["verify"] == {"checked": 9, "bad": 0}
    for one in manifest["iterations"]:
        assert one["wall_ns"] >= 1_000_000
        assert (one["io_bytes"], one["ops"]) == (10, 2)
    # A busy machine makes some iterations long; the shortest shows that the pause is left out.
    assert min(one["wall_ns"] for one in manifest["iterations"]) < 400_000_000


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise OSError(28, 'No space left on device')", "No space left on device"),
        ("return False", "`ours` returned False in iteration 0"),
        ("verified(5, bad=2)", "6 of 15 things compared are wrong"),
        ("yield; yield; yield", "must `yield` twice at most"),
        ("if False: yield", "must `yield` before its timed part"),
    ],
)
def test_a_failing_benchmark_leaves_a_manifest_that_says_why(
    tmp_path: Path, body: str, words: str
) -> None:
    head = "from forebay.bench import benchable, verified\n@benchable\ndef ours(work_dir):\n"
    ours = module(tmp_path, head + f"    (work_dir / 'made').touch()\n    {body}\n")
    ended = run(tmp_path / "run", "ours", module=ours)
    assert ended.codes == [1]
    (manifest,) = ended.manifests
    jsonschema.validate(manifest, SCHEMA)
    assert manifest["status"] == "fail" and words in manifest["error"]
    assert not (tmp_path / "run" / "work").exists()


def test_nothing_but_what_the_run_made_is_removed(tmp_path: Path) -> None:
    ours = module(
        tmp_path,
        """
from forebay.bench import benchable
@benchable
def ours(work_dir, outside: str):
    link = work_dir / "link"
    if not link.is_symlink():
        link.symlink_to(outside)
""",
    )
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    work = tmp_path / "work"
    (work / "before").mkdir(parents=True)
    more: dict[str, Any] = {"module": ours, "params": {"outside": str(outside)}}
    run(tmp_path / "run", "ours", work_dir=str(work), **more).passed()
    assert (outside / "kept").exists()
    assert [path.name for path in work.iterdir()] == ["before"]
    # A folder of the rank's name that was there before is not the run's to use or remove.
    (work / "rank-00000").mkdir()
    ended = run(tmp_path / "again", "ours", work_dir=str(work), **more)
    assert ended.codes == [1] and "File exists" in ended.manifests[0]["error"]
    assert (work / "rank-00000").exists()


def test_a_rank_is_who_its_launcher_says() -> None:
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1"}
    assert place(slurm) == Place(3, 4, 1)
    assert place({**slurm, "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}) == Place(0, 2, 0)
    assert place({"PMI_RANK": "1", "PMI_SIZE": "2"}) == Place(1, 2, 1)
    assert place({}) == Place(0, 1, 0)
    with pytest.raises(BenchError, match="must be below"):
        place({"RANK": "2", "WORLD_SIZE": "2"})


def test_the_file_system_of_a_folder_is_found(tmp_path: Path) -> None:
    found = file_system(Path("/proc"))
    assert (found["mount"], found["fstype"]) == ("/proc", "proc")
    assert file_system(tmp_path)["statfs"]["total_bytes"] > 0
