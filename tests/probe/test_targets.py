"""The table of hook targets against what the engines' releases contain (rebuilt by `make engine-facts`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toolkit_probe.targets import SGLANG, VLLM, release, targets_of

FACTS = Path(__file__).resolve().parent.parent / "data" / "engine-facts"
RELEASES = ("sglang-0.5.9", "sglang-0.5.15", "sglang-0.5.23", "vllm-0.22.0", "vllm-0.33.0")


def facts(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FACTS / f"{name}.json").read_text())
    return found


@pytest.mark.parametrize("name", RELEASES)
def test_every_target_of_a_release_is_in_its_sources(name: str) -> None:
    engine, version = name.split("-")
    known = {(one["module"], one["name"]): one["signature"] for one in facts(name)["targets"]}
    for target in targets_of(engine, version):
        assert known.get((target.module, target.name)), f"{target.dotted} is not in {name}; make engine-facts"


@pytest.mark.parametrize("name", RELEASES)
def test_facts_carry_version_and_hash_of_what_was_read(name: str) -> None:
    found = facts(name)
    assert f"{found['package']}-{found['version']}" == name
    assert all(len(one["sha256"]) == 64 and one["file"].endswith(".py") for one in found["targets"])


@pytest.mark.parametrize("name", RELEASES)
def test_a_hooked_method_takes_what_the_hook_reads_first(name: str) -> None:
    first = {"plain_cycle": "batch", "acceptance": "", "cycle": "", "replay": ""}
    for one in facts(name)["targets"]:
        if one["role"] == "plain_cycle":
            assert one["signature"].startswith(f"(self, {first['plain_cycle']}:")
        if one["name"].endswith("_resolve_spec_v2_tokens") or one["name"].endswith("overlap_token_ids"):
            assert one["signature"].split(", ")[1].startswith("result:")
        if one["name"].endswith("execute_model"):
            assert one["signature"].startswith("(self, scheduler_output:")
        if one["name"] == "Worker.__init__":
            assert "vllm_config:" in one["signature"] and " rank: int" in one["signature"]


@pytest.mark.parametrize("name", RELEASES)
def test_every_release_has_a_target_for_each_role_of_its_cycle(name: str) -> None:
    engine, version = name.split("-")
    roles = {target.role for target in targets_of(engine, version)}
    needed = {"rank", "cycle", "draft", "verify", "acceptance", "replay", "draft_forward"}
    assert needed <= roles


def test_a_release_in_between_gets_the_names_of_both_sides() -> None:
    names = {target.name for target in targets_of("sglang", "0.5.13")}
    assert {"EAGLEWorker.draft", "EagleDraftWorker.draft", "FullCudaGraphBackend.replay"} <= names


def test_an_unknown_version_gets_the_newest_names() -> None:
    assert targets_of("sglang", "") == tuple(one for one in SGLANG if one.before == "9999")
    assert targets_of("vllm", "1.2.3rc1") == tuple(one for one in VLLM if one.before == "9999")


@pytest.mark.parametrize(
    ("version", "numbers"), [("0.5.15.post1", (0, 5, 15)), ("0.33.0+cu130", (0, 33, 0)), ("dev", ())]
)
def test_a_version_is_compared_by_its_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert release(version) == numbers
