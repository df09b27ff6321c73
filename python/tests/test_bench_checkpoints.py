"""Checkpoints of real PyTorch by two ranks: written, read back, compared; damage is found."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from bench_ranks import Ended, run_in_turn, write_spec
from tier import command

from forebay.bench._models import Model, checksum
from forebay.bench._values import BenchError

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs/schema/bench-manifest.json").read_text(encoding="utf-8")
)
# Dimensions that two ranks cannot divide evenly.
SMALL = {"layers": 3, "input_dim": 16, "hidden_dim": 33, "batch_per_rank": 2}

GPT2 = {
    "model_type": "gpt2",
    "n_layer": 2,
    "n_embd": 32,
    "n_head": 2,
    "vocab_size": 101,
    "n_positions": 64,
}

OPS = {
    "ddp_save": ["fsync", "open", "rename", "save_total", "train_iter", "write"],
    "ddp_load": ["deserialize", "load_total", "open", "read", "train_iter"],
    "fsdp_save": ["fsync", "metadata", "plan", "save_total", "train_iter", "write"],
    "fsdp_load": ["load_total", "read_metadata", "read_shards", "train_iter"],
    "rl_load": ["consolidate", "read_metadata", "read_shards", "rl_total"],
}


def spec(folder: Path, benchmark: str, *, keep_data: bool = False, **params: Any) -> Path:
    """A run of a benchmark in a folder of its own, whose ranks meet in a folder."""
    return write_spec(
        folder,
        benchmark,
        params={**SMALL, **params},
        engine="torch",
        backend="gloo",
        fsync="file",
        drop_cache="fadvise",
        keep_data=keep_data,
        dist_init=f"file:{folder / 'meet'}",
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def by_two(folder: Path) -> dict[str, Ended]:
    """Runs of two ranks: both kinds of checkpoint are kept, and loaded in each way."""
    config = folder / "config.json"
    config.write_text(json.dumps(GPT2))
    ddp, fsdp = kept(folder)
    whole = {"consolidate": "read_all", "dtype": "bfloat16", "optimizer": "none"}
    specs = {
        "ddp_save": spec(folder / "ddp_save", "ddp_save", keep_data=True),
        "fsdp_save": spec(folder / "fsdp_save", "fsdp_save", keep_data=True),
        "ddp_load": spec(folder / "ddp_load", "ddp_load", checkpoint=ddp),
        "fsdp_load": spec(folder / "fsdp_load", "fsdp_load", checkpoint=fsdp),
        "rl_load": spec(folder / "rl_load", "rl_load", checkpoint=fsdp),
        "whole": spec(folder / "whole", "rl_load", **whole),
        "gpt2": spec(folder / "gpt2", "fsdp_save", model_name=f"config:{config}"),
        "local": spec(folder / "local", "ddp_load", model_name=str(saved_gpt2(folder))),
        "shifted": spec(folder / "shifted", "fsdp_load", checkpoint=fsdp, reader_shift=1),
        "resharded": spec(folder / "resharded", "fsdp_load", reshard_to=1, full_state_dict=True),
    }
    return dict(zip(specs, run_in_turn(list(specs.values()), 2), strict=True))


def saved_gpt2(folder: Path) -> Path:
    """A model in a folder, as Hugging Face leaves it there."""
    import transformers

    config = transformers.AutoConfig.for_model(**GPT2)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder / "saved")
    return folder / "saved"


def kept(folder: Path) -> tuple[str, str]:
    """Where the save benchmarks leave their checkpoints: DDP's file, and FSDP's last folder."""
    ddp = folder / "ddp_save" / "work" / "shared" / "ckpt.pt"
    return str(ddp), str(folder / "fsdp_save" / "work" / "shared" / "fsdp-2")


@pytest.mark.parametrize("benchmark", OPS)
def test_checkpoints_are_saved_and_loaded_by_two_ranks(
    by_two: dict[str, Ended], benchmark: str
) -> None:
    ended = by_two[benchmark].passed()
    first = ended.manifests[0]
    assert sorted(first["timing"]) == sorted([*OPS[benchmark], "barrier_wait"])
    for manifest in ended.manifests:
        jsonschema.validate(manifest, SCHEMA)
        assert manifest["dist"]["backend"] == "gloo"
        assert manifest["host"]["torch"] == torch.__version__
        if benchmark.endswith("_load"):
            assert manifest["cache"]["resident_before_bytes"] == 0
            assert manifest["verify"] == {"checked": 18, "bad": 0}
    assert first["verify"]["checked"] > 0
    moved = sum(one["iterations"][-1]["io_bytes"] for one in ended.manifests)
    assert moved > 4 * Model(**SMALL).parameters()


def test_a_checkpoint_that_is_made_is_read_whole_by_each_rank(
    folder: Path, by_two: dict[str, Ended]
) -> None:
    ended = by_two["whole"].passed()
    assert {one["verify"]["checked"] for one in ended.manifests} == {18}
    assert not (folder / "whole" / "work").exists()


def test_a_hugging_face_model_is_made_without_a_network(by_two: dict[str, Ended]) -> None:
    ended = by_two["gpt2"].passed()
    assert all(one["verify"]["checked"] > 20 for one in ended.manifests)


def test_a_model_of_a_local_folder_is_trained_and_loaded(by_two: dict[str, Ended]) -> None:
    ended = by_two["local"].passed()
    assert all(one["verify"]["checked"] > 20 for one in ended.manifests)


def test_each_rank_reads_the_shard_of_another(folder: Path, by_two: dict[str, Ended]) -> None:
    ended = by_two["shifted"].passed()
    checkpoint = Path(kept(folder)[1])
    shards = [json.loads(checkpoint.with_suffix(f".{n}-of-2.json").read_text()) for n in (0, 1)]
    assert shards[0] != shards[1], "they differ, so that a rank that read its own would show"
    assert {one["verify"]["checked"] for one in ended.manifests} == {18}
    # What a rank reads now is what the other read.
    own = [one["iterations"][-1]["io_bytes"] for one in by_two["fsdp_load"].manifests]
    assert [one["iterations"][-1]["io_bytes"] for one in ended.manifests] == own[::-1]
    assert own[0] != own[1]


def test_a_state_of_two_ranks_is_loaded_for_one(by_two: dict[str, Ended]) -> None:
    reader, other = by_two["resharded"].passed().manifests
    assert reader["verify"] == {"checked": 18, "bad": 0}
    assert "consolidate" in reader["timing"]
    assert other["verify"]["checked"] == 0
    assert "load_total" not in other["timing"]
    whole = sum(one["iterations"][-1]["io_bytes"] for one in by_two["fsdp_load"].manifests)
    assert reader["iterations"][-1]["io_bytes"] == pytest.approx(whole, rel=0.2)
    assert other["iterations"][-1]["io_bytes"] == 0


class Downloads:
    """What stands for transformers where one must not ask the network."""

    def __init__(self, rank: Any) -> None:
        self.rank = rank
        self.AutoModelForCausalLM = self

    def from_pretrained(self, name: str, *, cache_dir: str | None, **more: Any) -> str:
        self.rank.events.append((name, cache_dir, more.get("local_files_only", False)))
        return "a model"


class Waiting:
    """A rank, and what it does in order."""

    def __init__(self, number: int) -> None:
        self.place = self.group = self
        self.rank = number
        self.events: list[Any] = []

    def barrier(self) -> None:
        self.events.append("barrier")


def test_the_first_rank_downloads_while_the_others_wait() -> None:
    from forebay.bench._models import _loaded

    model = Model(model_name="someone/model", cache_dir="kept")
    for number, wanted in [
        (0, [("someone/model", "kept", False), "barrier"]),
        (1, ["barrier", ("someone/model", "kept", True)]),
    ]:
        rank: Any = Waiting(number)
        assert _loaded(Downloads(rank), model, rank) == "a model"
        assert rank.events == wanted


def test_a_rank_without_a_gpu_of_its_own_is_refused() -> None:
    from forebay.bench._meet import MeetError, _gpu
    from forebay.bench._spec import Place

    # All GPUs of the node seen by each of its ranks, or each its own.
    assert [_gpu(Place(rank, 8, rank % 4), 4) for rank in (3, 4, 7)] == [3, 0, 3]
    assert _gpu(Place(3, 4, 3), 1) == 0
    with pytest.raises(MeetError, match="rank 2 of this node has none of its 2: start fewer"):
        _gpu(Place(2, 3, 2), 2)
    with pytest.raises(MeetError, match="has none of its 0"):
        _gpu(Place(0, 1, 0), 0)


@pytest.fixture(scope="module")
def by_one(folder: Path, by_two: dict[str, Ended]) -> dict[str, Ended]:
    """Runs of one rank, with what two ranks left."""
    ddp, fsdp = kept(folder)
    damaged = folder / "damaged.pt"
    state = torch.load(ddp, weights_only=True)
    state["model"]["0.bias"][0] += 1
    torch.save(state, damaged)
    damaged.with_suffix(".json").write_text(Path(ddp).with_suffix(".json").read_text())
    specs = {
        "damaged": spec(folder / "by-one-ddp", "ddp_load", checkpoint=str(damaged)),
        "fsdp_load": spec(folder / "by-one-fsdp", "fsdp_load", checkpoint=fsdp),
        "too-many": spec(folder / "by-one-too-many", "fsdp_load", reshard_to=2),
        "absent": spec(folder / "by-one-absent", "fsdp_load", checkpoint=str(folder)),
    }
    return dict(zip(specs, run_in_turn(list(specs.values()), 1), strict=True))


def test_a_checkpoint_is_loaded_by_another_number_of_ranks(by_one: dict[str, Ended]) -> None:
    ended = by_one["fsdp_load"].passed()
    assert ended.manifests[0]["verify"] == {"checked": 18, "bad": 0}


def test_a_damaged_checkpoint_fails_the_run(by_one: dict[str, Ended]) -> None:
    ended = by_one["damaged"]
    assert ended.codes == [1]
    assert ended.manifests[0]["verify"] == {"checked": 18, "bad": 18}
    assert "18 of 18 things compared are wrong" in ended.manifests[0]["error"]
    ended = by_one["absent"]
    assert ended.codes == [1]
    assert "it has no `.metadata`" in ended.manifests[0]["error"]


def test_more_readers_than_ranks_are_refused(by_one: dict[str, Ended]) -> None:
    ended = by_one["too-many"]
    assert ended.codes == [1]
    assert "`reshard_to` must be at most the number of ranks" in ended.manifests[0]["error"]


def test_the_command_runs_two_ranks_of_pytorch(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    where = ("--dataset-path", tmp_path / "data", "--output-dir", tmp_path / "out")
    sizes = ("--layers", 3, "--input-dim", 16, "--hidden-dim", 33, "--iterations", 1)
    more = ("--ranks", 2, "--backend", "gloo", "--reader-shift", 1, "--json")
    done = command("bench", "run", "fsdp_load", *where, *sizes, *more)
    assert done.returncode == 0, done.stderr
    (ended,) = json.loads(done.stdout)["runs"]
    assert ended["summary"]["verify"] == {"checked": 2 * 2 * 6, "bad": 0}
    assert ended["summary"]["params"]["engine"] == "torch"
    assert not list((tmp_path / "data").iterdir())


def test_the_checksum_is_of_names_in_order_and_raw_bytes() -> None:
    import hashlib

    tensors = {"b": torch.tensor([1, 258], dtype=torch.int16), "a": torch.tensor([1.0])}
    wanted = hashlib.sha256(bytes.fromhex("0000803f") + bytes.fromhex("01000201")).hexdigest()
    assert checksum(tensors) == wanted
    assert checksum({**tensors, "c": torch.empty(0)}) == wanted
    half = {"a": torch.tensor([1.0], dtype=torch.bfloat16)}
    assert checksum(half) == hashlib.sha256(bytes.fromhex("803f")).hexdigest()
    assert checksum({"a": torch.arange(6).reshape(2, 3).T}) == checksum(
        {"a": torch.tensor([[0, 3], [1, 4], [2, 5]])}
    )


def test_the_model_has_the_parameters_that_its_shape_says() -> None:
    from forebay.bench._models import _synthetic

    for shape in (SMALL, {**SMALL, "layers": 2}):
        model = Model(**shape)
        made, _ = _synthetic(model)
        assert sum(one.numel() for one in made.parameters()) == model.parameters()
    with pytest.raises(BenchError, match="at least 2 layers"):
        _synthetic(Model(layers=1))


def test_without_transformers_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from forebay.bench._models import plain_model

    monkeypatch.setitem(sys.modules, "transformers", None)
    rank: Any = None
    with pytest.raises(BenchError, match="pip install transformers"):
        plain_model(Model(model_name="gpt2"), rank)
