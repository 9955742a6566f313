"""What the calibration measures, on this CPU: which forwards, how many collectives, and what is left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from toolkit.reference import collectives  # noqa: E402
from toolkit.reference.calibrating.collective_times import _joined  # noqa: E402
from toolkit.reference.calibrating.exchanging import counted, left_out, reduced_by  # noqa: E402
from toolkit.reference.calibrating.settings import Settings, argument_parser, settings_of  # noqa: E402
from toolkit.reference.calibrating.shards import CHAIN, Shard  # noqa: E402
from toolkit.reference.calibrating.timing import latency, timings_us  # noqa: E402
from toolkit.reference.collectives import Group  # noqa: E402
from toolkit.reference.errors import SettingError  # noqa: E402
from toolkit.reference.graphs import Graphs  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")
Measured = Callable[..., "subprocess.CompletedProcess[str]"]


def settings(*arguments: str) -> Settings:
    given, engine = argument_parser().parse_known_args(["--result", "r.json", *arguments])
    return settings_of(given, engine)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a calibration of two ranks on this CPU says."""
    result = tmp_path_factory.mktemp("calibration") / "r.json"
    done = measured(result, "--tp-sizes", "1,2,4,8", "--message-bytes", "1024,4096", "--repeats", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("progress 2 ranks have met\n")
    return dict(json.loads(result.read_text(encoding="utf-8")))


def measured(result: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toolkit.reference.calibrating", "--result", str(result), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def forwards(found: dict[str, Any], kind: str, **wanted: int) -> list[dict[str, Any]]:
    return [
        one
        for one in found["forwards"]
        if one["kind"] == kind and all(one[name] == value for name, value in wanted.items())
    ]


def test_every_forward_is_measured_at_every_size_that_divides_the_model(found: dict[str, Any]) -> None:
    for kind, tokens in (("draft_step", 1), ("draft_extend", 4), ("verify", 4), ("decode", 1)):
        rows = forwards(found, kind, num_tokens=tokens, context_tokens=256)
        assert {(one["tp_size"], one["batch_size"]) for one in rows} == {
            (size, batch) for size in (1, 2, 4) for batch in (1, 8)
        }
        assert all(one["compute_us"]["p10"] > 0 for one in rows)
    assert [one for one in found["skipped"] if "does not divide the 4 heads of tiny" in one]


def test_collectives_are_in_a_forward_only_where_the_host_has_the_ranks(found: dict[str, Any]) -> None:
    for one in found["forwards"]:
        with_them = one["total_us"] is not None
        assert with_them == (one["tp_size"] <= 2)
        assert one["algorithm"] == ("star" if one["tp_size"] == 2 else None)
        if one["tp_size"] == 1:
            assert one["total_us"] == one["compute_us"]
    verify = forwards(found, "verify", tp_size=2, batch_size=1)[0]
    assert verify["total_us"]["median"] > verify["compute_us"]["median"]


def test_collectives_of_a_forward_are_counted_with_their_bytes(found: dict[str, Any]) -> None:
    for size in (2, 4):
        verify = forwards(found, "verify", tp_size=size, batch_size=8)[0]
        assert (verify["all_reduces"], verify["all_gathers"]) == (
            2 * 4 + 1,
            1,
        )  # two a layer, the embedding's
        assert verify["all_reduce_bytes"] == 8 * 4 * 64 * 4  # requests, tokens, hidden, float32
        assert verify["all_gather_bytes"] == 8 * 4 * 256 * 4
        step = forwards(found, "draft_step", tp_size=size, batch_size=1)[0]
        assert (step["all_reduces"], step["all_reduce_bytes"]) == (3, 64 * 4)
    assert forwards(found, "decode", tp_size=1)[0]["all_reduces"] == 0


def test_a_shard_reads_its_share_of_the_weights(found: dict[str, Any]) -> None:
    one, two = (forwards(found, "verify", tp_size=size, batch_size=1)[0]["weight_bytes"] for size in (1, 2))
    norms = (2 * 4 + 1) * 64 * 4
    assert two - norms == (one - norms) // 2


def test_collectives_have_a_latency_for_every_operation_and_size(found: dict[str, Any]) -> None:
    of = {(one["op"], one["message_bytes"]) for one in found["collectives"]}
    assert of == {(op, size) for op in ("all_reduce", "all_gather", "broadcast") for size in (1024, 4096)}
    for one in found["collectives"]:
        assert (one["algorithm"], one["group_size"], one["in_graph"]) == ("star", 2, False)
        assert 0 < one["latency_us"]["p10"] <= one["latency_us"]["median"] <= one["latency_us"]["p90"]
    assert "collectives of 4 ranks: this host has 2" in found["skipped"]


def test_a_forward_without_its_collectives_has_the_shape_of_one_with_them() -> None:
    values, group = torch.ones(2, 3), Group(1, 4, None)
    with left_out():
        assert collectives.all_reduce(values, group, "layer") is values
        assert collectives.all_gather(values, group, "head").shape == (2, 12)
    assert collectives.all_gather(values, Group(), "head") is values


def test_exchanges_are_put_back_whatever_happens_inside() -> None:
    before = collectives.all_reduce, collectives.all_gather
    with pytest.raises(ZeroDivisionError), left_out(), counted():
        raise ZeroDivisionError
    assert (collectives.all_reduce, collectives.all_gather) == before


def test_one_shot_gets_the_messages_that_it_takes_and_no_others() -> None:
    class Small:
        def takes(self, values: Any) -> bool:
            return bool(values.numel() <= 2)

        def add(self, values: Any) -> None:
            values.fill_(7)

    group = Group(0, 2, None)
    with left_out(), reduced_by(Small()):  # type: ignore[arg-type]
        assert collectives.all_reduce(torch.ones(2), group, "small").tolist() == [7, 7]
        assert collectives.all_reduce(torch.ones(3), group, "large").tolist() == [1, 1, 1]


def test_a_timed_pass_leaves_the_requests_where_they_are() -> None:
    shard = Shard("draft", settings("--batch-sizes", "2"), Group(), CPU)
    for job in shard.jobs():
        state = job.passes.state
        with torch.no_grad():
            Graphs(job.passes, (2,), ()).run(job.phase, 2, job.context)
        assert state.length.tolist() == [256, 256]
        assert job.context >= 256 + job.forwards
    assert {job.forwards for job in shard.jobs() if job.kind == "draft_step"} == {CHAIN}


def test_a_repeat_lasts_as_long_as_on_its_slowest_rank() -> None:
    assert latency([[1.0, 5.0, 3.0], [2.0, 4.0, 1.0]]) == {"median": 3.0, "p10": 2.2, "p90": 4.6}


def test_a_collective_costs_what_the_longer_chain_takes_more() -> None:
    rows = [
        [{"op": "all_reduce", "name": "nccl", "times": {"1024": {"long": [340.0], "short": [100.0]}}}]
    ] * 2
    (record,) = _joined(rows, 2, True)
    assert record["latency_us"]["median"] == 10.0  # 240 us for 24 more


def test_neither_aligning_nor_what_comes_before_is_timed() -> None:
    order: list[str] = []
    times = timings_us(
        [lambda: order.append("work")], CPU, 2, lambda: order.append("align"), lambda: order.append("before")
    )
    assert order == ["work", "before", "align", "work", "before", "align", "work"]
    assert len(times[0]) == 2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--tp-sizes", "0"), "--tp-sizes 0 holds a number below 1"),
        (("--batch-sizes", "a"), "--batch-sizes a is not a list of numbers"),
        (("--context", "0"), "--context is 0"),
        (("--hidden", "30"), "a head of 7 is not even"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(SettingError, match=why):
        settings(*arguments)


def test_a_failing_rank_says_why_in_one_line(tmp_path: Path) -> None:
    done = measured(
        tmp_path / "missing" / "r.json", "--tp-sizes", "1", "--batch-sizes", "1", "--repeats", "1"
    )
    assert done.returncode == 1
    failed = [
        line for line in done.stderr.splitlines() if line.startswith("failed: rank 0: FileNotFoundError")
    ]
    assert len(failed) == 1


@pytest.mark.gpu
def test_on_gpus_everything_is_replayed_from_graphs(tmp_path: Path) -> None:
    gpus = torch.cuda.device_count()
    if not gpus:
        pytest.skip("no GPU")
    result = tmp_path / "r.json"
    done = measured(result, "--device", "cuda", "--dtype", "bfloat16", "--message-bytes", "4096")
    assert done.returncode == 0, done.stderr
    said = json.loads(result.read_text(encoding="utf-8"))
    assert (said["gpu_count"], len(said["memory"])) == (gpus, gpus)
    assert all(one["in_graph"] for one in (*said["collectives"], *said["forwards"]))
    totals = {(one["tp_size"], one["algorithm"]) for one in said["forwards"] if one["total_us"]}
    wanted = {(size, by) for size in (2, 4) if size <= gpus for by in ("nccl", "one_shot")}
    assert totals == {(1, None)} | wanted
    reduces = {(one["algorithm"], one["group_size"]) for one in said["collectives"]}
    assert reduces >= {(by, 2) for by in ("nccl", "one_shot", "two_shot") if gpus >= 2}


SUMMED = """
import sys, torch, torch.distributed as dist
from toolkit.reference.one_shot import OneShot
rank, device = int(sys.argv[1]), torch.device("cuda", int(sys.argv[1]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", init_method=sys.argv[2], rank=rank, world_size=2)
one_shot = OneShot(dist.group.WORLD, device)
for kind in (torch.float32, torch.bfloat16):
    for count in (64, 4096, 100_000):
        values = torch.arange(count, device=device).remainder(7).to(kind)
        expected, values = 2 * values + 1, values + rank
        assert one_shot.takes(values)
        one_shot.add(values)
        assert torch.equal(values, expected), (kind, count)
assert not one_shot.takes(torch.zeros(1 << 20, device=device))
assert not one_shot.takes(torch.zeros(3, device=device))
torch.cuda.synchronize()
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.gpu
def test_one_shot_sums_what_the_ranks_give(tmp_path: Path) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    meeting = (tmp_path / "meeting").as_uri()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
    ranks = [
        subprocess.Popen([sys.executable, "-c", SUMMED, str(rank), meeting], env=environment)
        for rank in (0, 1)
    ]
    assert [rank.wait(120) for rank in ranks] == [0, 0]
