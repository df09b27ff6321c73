"""The `forebay` command: data on stdout, words on stderr, and an exit code that can be relied on."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from node import Node, eventually
from tier import command
from worlds import World

import forebay
from forebay._command import find_command

COMMANDS = (
    "index",
    "flatten",
    "ls",
    "cat",
    "verify",
    "export",
    "serve",
    "run",
    "status",
    "stop",
    "doctor",
    "emulate",
    "report",
    "tiers",
)


def failed(done: subprocess.CompletedProcess[str], code: int = 1) -> str:
    """What a command that failed said."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "panicked" not in done.stderr
    return done.stderr


def test_help_lists_every_command_and_each_has_its_own() -> None:
    done = command("--help")
    assert done.returncode == 0
    listed = re.findall(r"^  (\w+) +\w", done.stdout, re.MULTILINE)
    assert set(COMMANDS) <= set(listed)
    for name in listed[: listed.index("help")]:
        own = command(name, "--help")
        assert own.returncode == 0
        assert "Usage: forebay " + name in own.stdout


def test_wrong_usage_ends_with_two_and_nothing_on_stdout() -> None:
    for words in ((), ("colour",), ("index",), ("index", "x"), ("serve", "--colour"), ("emulate",)):
        done = command(*words)
        assert done.returncode == 2, (words, done.stderr)
        assert done.stdout == ""
        assert done.stderr


def test_version_is_that_of_the_package() -> None:
    assert command("--version").stdout == f"forebay {forebay.__version__}\n"


def test_without_a_daemon_status_and_stop_fail_with_a_way_out(tmp_path: Path) -> None:
    said = failed(command("status", "--cache", tmp_path))
    assert f"no daemon serves cache folder `{tmp_path}`" in said
    assert "\nhint: " in said and "`forebay serve`" in said
    assert f"`{tmp_path}`" in failed(command("stop", "--cache", tmp_path))


def test_status_speaks_to_people_and_to_programs(node: Node, world: World) -> None:
    world.read_by(node.open(world.index))
    words = command("status", "--cache", node.cache)
    assert words.returncode == 0
    assert words.stderr == ""
    assert f"cache `{node.cache}`" in words.stdout
    assert f"data set `{world.index}`: 8 samples" in words.stdout
    status = json.loads(command("status", "--cache", node.cache, "--json").stdout)
    assert status.keys() == node.status().keys()
    plan = command("status", "--cache", node.cache, "--plan")
    lines = dict(line.split(" = ", 1) for line in plan.stdout.splitlines())
    assert lines["cache"] == f'"{node.cache}"  # command-line'
    assert lines["policy"] == '"plan"  # default'
    stopped = command("stop", "--cache", node.cache)
    assert (stopped.returncode, stopped.stdout) == (0, "")
    eventually("it stops", lambda: not node.daemons())


def test_a_second_daemon_of_a_folder_says_who_is_there(node: Node, world: World) -> None:
    node.open(world.index)
    done = command("serve", "--cache", node.cache)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(
        f"error: another daemon serves `{node.cache}` already\n\n"
        "hint: `forebay status` shows it, `forebay stop` ends it\n"
    )
    assert len(node.daemons()) == 1


def test_a_daemon_in_the_foreground_ends_well_on_a_signal(node: Node, world: World) -> None:
    program = find_command()
    assert program is not None
    line = [program, "serve", "--cache", str(node.cache), "--capacity", "1 GiB"]
    daemon = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert daemon.stderr is not None
    assert "capacity 1.00 GiB, policy plan" in daemon.stderr.readline()
    world.read_by(node.open(world.index))
    daemon.terminate()
    out, err = daemon.communicate(timeout=60)
    assert (daemon.returncode, out, err) == (0, "", "stopped\n")


def test_every_broken_rule_of_a_configuration_is_reported(tmp_path: Path) -> None:
    config = tmp_path / "forebay.toml"
    config.write_text(
        "[serve]\ncache = 'rel'\ncapacity = 'much'\npolicy = 'fifo'\norigin_reads = 0\n"
    )
    said = failed(command("serve", "--config", config), 2)
    for name in ("cache", "capacity", "policy", "origin_reads"):
        assert f"\n  `{name}` must be" in said
    config.write_text("[serve]\ncapasity = '1'\n")
    said = failed(command("serve", "--config", config), 2)
    assert "capasity" in said and "capacity" in said, "the unknown and the known"
    assert "nowhere.toml" in failed(command("serve", "--config", tmp_path / "nowhere.toml"))


def test_a_variable_that_is_no_number_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_MAX_LINKS", "many")
    said = failed(command("serve", "--cache", tmp_path), 2)
    assert "`FOREBAY_MAX_LINKS` must be a number: `many`" in said


def test_index_prints_words_for_people_and_json_for_programs(world: World, tmp_path: Path) -> None:
    words = command("index", world.root, "--output", tmp_path / "a.forebay")
    assert (words.returncode, words.stdout) == (0, "")
    assert "indexed 8 samples in 2 files" in words.stderr
    data = command("index", world.root, "--output", tmp_path / "b.forebay", "--json")
    assert data.returncode == 0
    summary = json.loads(data.stdout)
    assert summary["samples"] == 8
    assert summary["index"] == str(tmp_path / "b.forebay")
    assert len(data.stdout.splitlines()) == 1
    assert (tmp_path / "a.forebay").read_bytes() == (tmp_path / "b.forebay").read_bytes()
    flat = command("flatten", tmp_path / "a.forebay", "--output", tmp_path / "flat", "--json")
    assert flat.returncode == 0
    assert json.loads(flat.stdout)["samples"] == 8


def test_index_failures_name_the_file_and_leave_no_output(world: World, tmp_path: Path) -> None:
    output = tmp_path / "x.forebay"

    def index(*words: object) -> subprocess.CompletedProcess[str]:
        return command("index", *words, "--output", output)

    assert "`nothing/*`" in failed(index(world.root, "--sample", "nothing/*"))
    assert "nowhere.h5" in failed(index(tmp_path / "nowhere.h5"))
    assert failed(index(world.root, "--sample", ""), 2)
    assert failed(index(world.root, "--block-size", "5000"), 2)
    damaged = world.root / "damaged.h5"
    damaged.write_bytes((world.root / "part0.h5").read_bytes()[:3000])
    assert str(damaged) in failed(index(world.root))
    assert not output.exists()
    assert list(tmp_path.glob("*.forebay*")) == [world.index]


def test_a_sample_that_lacks_a_field_is_named_or_left_out(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name in ("a", "b", "c"):
            file[f"{name}/x"] = np.arange(3)
            if name != "b":
                file[f"{name}/y"] = np.arange(3)
    words = ("index", tmp_path / "x.h5", "--output", tmp_path / "x.forebay", "--sample", "*")
    said = failed(command(*words))
    assert "`b`" in said and "`y`" in said
    summary = json.loads(command(*words, "--skip-incomplete", "--json").stdout)
    assert (summary["samples"], summary["skipped"]) == (2, 1)


def test_report_refuses_what_is_no_record(tmp_path: Path) -> None:
    assert "nowhere" in failed(command("report", tmp_path / "nowhere"))
    (tmp_path / "records").write_text("not json\n")
    assert "records" in failed(command("report", tmp_path / "records"))


def test_emulate_refuses_what_cannot_be_mounted(tmp_path: Path) -> None:
    assert "nowhere" in failed(command("emulate", tmp_path / "nowhere", tmp_path))
    (tmp_path / "mount").mkdir()
    said = failed(command("emulate", tmp_path, tmp_path / "mount", "--profile", "floppy"))
    assert "floppy" in said and "lustre" in said


def test_python_indexes_as_the_command_does(world: World, tmp_path: Path) -> None:
    for name in ("data/cat/1", "data/dog/2"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"bytes")
    output = tmp_path / "x.forebay"
    made = forebay.index(tmp_path / "data", output, format="files", labels="folders")
    assert made["classes"] == ["cat", "dog"]
    every = [field["name"] for field in forebay.index(world.root, output)["fields"]]
    for fields in (every[0], every[:1]):
        made = forebay.index(world.root, output, fields=fields, block_size=8192)
        assert [field["name"] for field in made["fields"]] == every[:1]
    with pytest.raises(forebay.ForebayError, match="block size"):
        forebay.index(world.root, output, block_size=1000)


def test_a_command_that_cannot_be_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_COMMAND", "/nonexistent")
    with pytest.raises(forebay.UnavailableError, match="`/nonexistent`"):
        forebay.index(tmp_path, tmp_path / "x.forebay")
