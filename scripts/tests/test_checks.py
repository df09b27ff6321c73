"""The checks of this folder find what they are for: each is shown one fault and one clean case."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import check_claims
import check_dependencies
import check_sources


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("MIT/Apache-2.0", True),
        ("GPL-3.0 OR MIT", True),
        ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("GPL-3.0", False),
        ("MIT AND GPL-3.0", False),
        ("(MIT OR Apache-2.0) AND GPL-3.0", False),
        ("GPL-3.0 AND (MIT OR GPL-3.0)", False),
        ("MIT GPL-3.0", False),
        ("(MIT", False),
        ("", False),
    ],
)
def test_a_licence_expression_is_met_only_by_the_list(expression: str, allowed: bool) -> None:
    assert check_dependencies.licence_allowed(expression) is allowed


def workspace(arrows: dict[str, list[str]], *, dev: str = "") -> check_dependencies.Graph:
    """A workspace whose packages are the keys; those with a `/` in them are its members."""

    def kinds(name: str) -> list[dict[str, Any]]:
        return [{"kind": "dev" if name == dev else None}]

    metadata: dict[str, Any] = {
        "workspace_members": [name for name in arrows if "/" in name],
        "packages": [
            {
                "id": name,
                "name": name.replace("crates/", "forebay-"),
                "license": "MIT",
                "manifest_path": f"/{name}/Cargo.toml",
                "version": "1.0.0",
            }
            for name in arrows
        ],
        "resolve": {
            "nodes": [
                {"id": name, "deps": [{"pkg": to, "dep_kinds": kinds(to)} for to in below]}
                for name, below in arrows.items()
            ]
        },
    }
    return check_dependencies.Graph(metadata)


def test_an_arrow_against_the_direction_is_found() -> None:
    graph = workspace({"crates/dataset": ["crates/cache"], "crates/cache": []})
    assert "`dataset` uses `cache`" in next(check_dependencies.direction_faults(graph))
    for_tests = workspace(
        {"crates/dataset": ["crates/cache"], "crates/cache": []}, dev="crates/cache"
    )
    assert list(check_dependencies.direction_faults(for_tests)) == []


def test_a_crate_without_a_rule_is_found() -> None:
    graph = workspace({"crates/novel": []})
    assert "`novel` is not in MAY_USE" in next(check_dependencies.direction_faults(graph))


def test_an_async_runtime_deep_under_the_client_is_found() -> None:
    graph = workspace({"crates/client": ["between"], "between": ["tokio"], "tokio": []})
    (fault,) = check_dependencies.ban_faults(graph)
    assert "forebay-client -> between -> tokio" in fault
    graph = workspace({"crates/service": ["tokio"], "tokio": []})
    assert list(check_dependencies.ban_faults(graph)) == []


def faults_in(name: str, text: str) -> list[str]:
    return list(check_sources.rust_faults(Path(name), text.splitlines()))


def test_pure_crates_are_held_pure_but_for_their_tests() -> None:
    text = "use std::fs::File;\n"
    assert "`std::fs` in a pure crate" in faults_in("crates/dataset/src/lib.rs", text)[0]
    assert faults_in("crates/cache/src/lib.rs", text) == []
    assert faults_in("crates/dataset/src/index/tests.rs", text) == []
    assert faults_in("crates/dataset/src/lib.rs", f"#[cfg(test)]\nmod tests {{\n{text}}}\n") == []
    assert faults_in("crates/dataset/src/lib.rs", f"// {text}") == []


def test_unsafe_is_held_to_its_place() -> None:
    text = "let x = unsafe { read(p) };\n"
    assert "outside `sys.rs`" in faults_in("crates/cache/src/block.rs", text)[0]
    assert faults_in("crates/cache/src/sys.rs", text) == []
    assert faults_in("crates/cache/src/lib.rs", "#![deny(unsafe_code)]\n") == []


def test_a_long_function_is_found_and_a_declaration_is_not_one() -> None:
    long = "    pub fn f(\n        x: u8,\n    ) -> u8 {\n" + "        x;\n" * 70 + "    }\n"
    declared = "    fn g(\n        x: u8,\n    ) -> u8;\n"
    found = faults_in("crates/cache/src/lib.rs", declared + long)
    assert found == ["crates/cache/src/lib.rs:4: a function of 74 lines, at most 70"]


def test_a_reminder_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("# {}: later\n".format("TO" + "DO"))
    assert len(list(check_sources.file_faults(path))) == 1


def test_claims_are_read_from_text_and_tests_from_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("One.\n*(test: `a::b`)* and *(tests: c,\n`d`)*\n")
    assert list(check_claims.claims(page)) == [(2, "a::b"), (2, "c"), (2, "d")]
    page.write_text(
        "*(test: `x::held`)*, *(test: gone)*, [a](page.md#b), [c](away.md), [d](http:e)\n"
    )
    assert list(check_claims.faults(page, {"held": [{"x", "y"}]})) == [
        f"{page}:1: no test `gone`",
        f"{page}: link to `away.md`, which is not there",
    ]
    code = "#[test]\n#[ignore]\nfn one() {}\nfn helper() {}\n/// Words.\n#[test]\nfn two() {}\n"
    assert check_claims.RUST_TEST.findall(code) == ["one", "two"]
