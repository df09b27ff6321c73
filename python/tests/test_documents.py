"""What the documents and the stubs list is what there is."""

from __future__ import annotations

import ast
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from node import Node
from tier import command
from worlds import World

import forebay

TREE = Path(__file__).parents[2]
DOCS = TREE / "docs"


def first_columns(document: str, heading: str) -> set[str]:
    """Names in backticks in the first column of the table under a heading row."""
    text = (DOCS / document).read_text(encoding="utf-8")
    table = text[text.index(heading) :].split("\n\n")[0].splitlines()[2:]
    return {name for row in table for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_the_table_of_counters_is_in_the_documents(node: Node, world: World) -> None:
    world.read_by(node.open(world.index))
    status = node.status()
    assert first_columns("METRICS.md", "| counter in `metrics` |") == set(status["metrics"])
    assert first_columns("METRICS.md", "| field |") == set(status)


def test_the_variables_in_the_documents_are_those_that_are_read() -> None:
    documented = set(
        re.findall(r"`(FOREBAY_\w+)`", (DOCS / "CONFIGURATION.md").read_text(encoding="utf-8"))
    )
    sources = [*TREE.glob("crates/*/src/**/*.rs"), *TREE.glob("python/forebay/**/*.py")]
    read = {
        name
        for source in sources
        for name in re.findall(r'"(FOREBAY_[A-Z_]+)"', source.read_text(encoding="utf-8"))
    }
    assert documented == read


def test_every_documented_variable_of_the_daemon_has_effect(
    node: Node, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    secret = tmp_path / "secret"
    secret.write_text("a secret of this test")
    secret.chmod(0o600)
    values = {
        "cache": str(node.cache),
        "capacity": "1 GiB",
        "free_floor": "1 MiB",
        "policy": "pin",
        "idle_exit_seconds": "77",
        "origin_reads": "3",
        "max_links": "9",
        "hedged_reads": "2",
        "look_ahead": "4 MiB",
        "look_ahead_seconds": "5",
        "look_ahead_rate": "2 GB",
        "members": f"127.0.0.1:{port},127.0.0.2:{port}*2",
        "listen": f"127.0.0.1:{port}",
        "secret_file": str(secret),
        "exports": "/a:/b",
        "dscp": "10",
        "peer_silence_ms": "700",
        "transport": "auto",
        "tclass": "bulk-data",
        "encrypt_links": "true",
    }
    text = (DOCS / "CONFIGURATION.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(--[\w-]+)` \| `(\w+)` \| `(\w+)` \|", text, re.MULTILINE)
    # Without an etcd there no daemon starts: `test_following.py` has one.
    assert {name for _, _, name in rows} == {*values, "names"}
    for flag, variable, name in rows:
        assert flag == "--" + name.replace("_", "-")
        assert variable == "FOREBAY_" + name.upper()
        if name in values:
            monkeypatch.setenv(variable, values[name])
    dataset = forebay.open(world.index)
    assert dataset.cache == node.cache
    plan = node.status()["plan"]
    assert plan["capacity_bytes"] == 1 << 30
    assert plan["free_floor_bytes"] == 1 << 20
    assert (plan["policy"], plan["idle_exit_seconds"]) == ("pin", 77)
    assert (plan["origin_reads"], plan["max_links"]) == (3, 9)
    assert (plan["hedged_reads"], plan["look_ahead_seconds"]) == (2, 5)
    assert plan["look_ahead_bytes"] == 4 << 20
    assert (plan["members"], plan["listen"]) == (values["members"], values["listen"])
    assert (plan["secret_file"], plan["exports"]) == (str(secret), ["/a", "/b"])
    assert (plan["dscp"], plan["peer_silence_ms"]) == (10, 700)
    assert (plan["transport"], plan["tclass"]) == ("auto", "bulk-data")
    assert (plan["encrypt_links"], plan["names"]) == (True, None)
    # The client passes its folder on.
    said = dict.fromkeys(values, "environment") | {"cache": "command-line", "names": "default"}
    assert plan["sources"] == said
    known = command("serve", "--help").stdout
    assert all(flag in known for flag, _, _ in rows)


def test_every_documented_argument_of_open_is_one() -> None:
    text = (DOCS / "CONFIGURATION.md").read_text(encoding="utf-8")
    table = text[text.index("| argument of `forebay.open` |") :].split("\n\n")[0].splitlines()[2:]
    documented = {name for row in table for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    signature = forebay.open.__kwdefaults__
    assert documented == set(signature)


@pytest.mark.parametrize(
    "line",
    [
        ["mypy", "--strict", "--no-error-summary", "-p", "forebay"],
        ["mypy.stubtest", "forebay._native"],
    ],
    ids=["mypy", "stubtest"],
)
def test_types_hold(line: list[str]) -> None:
    pytest.importorskip("mypy")
    done = subprocess.run(
        # Safe path: the installed module, and not the folder of its source.
        [sys.executable, "-P", "-m", *line],
        cwd=TREE / "python",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_public_is_documented() -> None:
    for name in forebay.__all__:
        if name != "__version__":
            assert getattr(forebay, name).__doc__, name
    modules = [*(TREE / "python/forebay").glob("**/*.py")]
    assert len(modules) > 8
    for module in modules:
        for item in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(item, ast.ClassDef) and not item.name.startswith("_"):
                is_protocol = any(getattr(base, "id", "") == "Protocol" for base in item.bases)
                assert ast.get_docstring(item) or is_protocol, (module, item.name)
