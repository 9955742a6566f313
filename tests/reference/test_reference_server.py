"""The reference engine as its clients see it: processes, ranks, HTTP."""

from __future__ import annotations

import os
import select
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolkit.ingest.logs.server_args import read_server_args
from toolkit.ingest.logs.server_log import read_log_line
from toolkit.ingest.traces.chrome import read_trace

Serve = Callable[..., Any]
PROMPTS = [[3, 1, 4, 1, 5], list(range(10, 40)), [200, 100]]


@pytest.fixture
def plain_tokens(serve: Serve) -> list[list[int]]:
    """Return what one rank says without speculation."""
    server = serve("--plain")
    found = server.outputs(PROMPTS, 25)
    server.end()
    return list(found)


def test_ranks_and_drafts_change_no_greedy_token(serve: Serve, plain_tokens: list[list[int]]) -> None:
    for tp, draft_tp in ((2, 1), (2, 2), (4, 2)):
        server = serve("--tp", tp, "--draft-tp", draft_tp, "--steps", 3)
        found = server.generate(PROMPTS, 25)
        assert [answer["output_ids"] for answer in found] == plain_tokens
        assert sum(answer["meta_info"]["spec_num_correct_drafts"] for answer in found) > 0
        server.end()


def test_simulated_acceptance_comes_out_as_asked_over_http(serve: Serve) -> None:
    server = serve("--steps", 3, "--accept-by-position", "0.7,0.5,0.3", "--context", 2048)
    metas = [answer["meta_info"] for answer in server.generate([[5, 6]] * 8, 700)]
    histogram = Counter[int]()
    for meta in metas:
        assert meta["completion_tokens"] == 700
        assert meta["spec_num_proposed_drafts"] == 3 * meta["spec_verify_ct"]
        histogram.update(dict(enumerate(meta["spec_correct_drafts_histogram"])))
    cycles = sum(meta["spec_verify_ct"] for meta in metas)
    shares = [sum(histogram[kept] for kept in range(place, 4)) / cycles for place in (1, 2, 3)]
    assert cycles == sum(histogram.values()) > 2000
    assert shares == pytest.approx([0.7, 0.5, 0.3], abs=0.05)


def test_more_requests_than_rows_are_served_in_turn(serve: Serve) -> None:
    server = serve("--steps", 2, "--max-batch", 2)
    one = server.outputs([[7, 8, 9]], 12)[0]
    assert server.outputs([[7, 8, 9]] * 5, 12) == [one] * 5


def test_prompts_of_one_call_run_in_one_batch(serve: Serve) -> None:
    server = serve("--steps", 1, "--accept-by-position", "0", "--decode-log-interval", 1)
    server.generate([[7, 8, 9]] * 4, 6)
    server.end()
    lines = [read_log_line(line) for line in server.log.read_text(encoding="utf-8").splitlines()]
    assert [line.running_req for line in lines if line.kind == "decode"] == [4] * 5


def test_a_delay_slows_each_all_reduce_down(serve: Serve) -> None:
    server = serve("--tp", 2, "--plain", "--layers", 2, "--allreduce-delay-us", 4000)
    server.generate([[1]], 1)
    start = time.monotonic()
    server.generate([[1]], 11)
    assert time.monotonic() - start > 11 * 5 * 0.004  # one for the embedding and two for each layer


def test_a_single_prompt_is_answered_by_a_single_object(serve: Serve) -> None:
    server = serve("--plain")
    answer = server.call("/generate", {"input_ids": [5], "sampling_params": {"max_new_tokens": 1}})
    assert len(answer["output_ids"]) == 1 and answer["meta_info"]["prompt_tokens"] == 1
    assert "spec_verify_ct" not in answer["meta_info"]


def test_what_cannot_be_served_is_refused_in_one_sentence(serve: Serve) -> None:
    server = serve("--plain", "--context", 64)
    sampling = {"sampling_params": {"max_new_tokens": 60}}
    assert "not in the vocabulary" in server.refusal("/generate", {"input_ids": [999]})
    assert "context of 64" in server.refusal("/generate", {"input_ids": [1] * 5, **sampling})
    warm = {"temperature": 1, "max_new_tokens": 5}
    assert "greedily" in server.refusal("/generate", {"input_ids": [1], "sampling_params": warm})
    assert "input_ids" in server.refusal("/generate", {"text": "hello"})
    assert server.call("/health") == {"status": "ok"}


def test_every_rank_writes_a_trace_with_the_names_of_the_phases(serve: Serve, tmp_path: Path) -> None:
    server = serve("--tp", 2, "--steps", 3)
    asked = {"output_dir": str(tmp_path / "out"), "num_steps": 4, "activities": ["CPU", "GPU"]}
    server.call("/start_profile", {**asked, "with_stack": False})
    assert "is running" in server.refusal("/start_profile", asked)
    server.generate([[5, 6, 7]], 60)
    server.call("/stop_profile", {})
    files = sorted((tmp_path / "out").iterdir())
    assert [path.name.partition("-")[2] for path in files] == [f"TP-{rank}.trace.json.gz" for rank in (0, 1)]
    for rank, trace in enumerate(map(read_trace, files)):
        names = Counter(trace.names[name] for name in trace.annotations.name)
        assert (trace.tp_rank, trace.world_size, trace.with_stack, trace.damage) == (rank, 2, False, ())
        assert names["step[TARGET_VERIFY bs=1]"] == names["draft"] == names["draft_extend"] == 4
    assert server.generate([[5, 6, 7]], 5)


def test_a_profile_without_a_count_runs_until_it_is_stopped(serve: Serve, tmp_path: Path) -> None:
    server = serve("--plain")
    server.call("/start_profile", {"output_dir": str(tmp_path / "out"), "with_stack": False})
    server.generate([[5]], 6)
    file = Path(server.call("/stop_profile", {})["file"])
    trace = read_trace(file)
    names = Counter(trace.names[name] for name in trace.annotations.name)
    assert names["step[DECODE bs=1]"] == 5  # the first token is the prefill's


def test_the_log_is_read_as_one_of_sglang(serve: Serve) -> None:
    server = serve("--steps", 3, "--accept-by-position", "1,1,0", "--decode-log-interval", 5)
    server.generate([[5, 6], [7, 8]], 40)
    server.end()
    text = server.log.read_text(encoding="utf-8")
    info = read_server_args(text)
    assert info and (info.tp_size, info.num_steps, info.num_draft_tokens) == (1, 3, 4)
    lines = [line for line in map(read_log_line, text.splitlines()) if line.kind == "decode"]
    assert lines and {(line.running_req, line.accept_length, line.accept_rate) for line in lines} == {
        (2, 3.0, 0.67)
    }
    assert all(line.tok_s and line.graph is False and not line.truncated for line in lines)
    assert any(read_log_line(line).kind == "prefill" for line in text.splitlines())


def test_the_end_of_a_rank_ends_the_server(serve: Serve) -> None:
    server = serve("--tp", 2, "--steps", 2)
    ranks = server.call("/server_info")["ranks"]
    assert [rank["tp_rank"] for rank in ranks] == [0, 1]
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    assert server.process.wait(20) == 1
    assert "rank 1 ended with code -9" in server.log.read_text(encoding="utf-8")
    assert not Path(f"/proc/{ranks[0]['pid']}").exists()


def test_ranks_end_with_a_launcher_that_was_killed(serve: Serve) -> None:
    server = serve("--tp", 2, "--steps", 2)
    ranks = [rank["pid"] for rank in server.call("/server_info")["ranks"]]
    handles = [os.pidfd_open(pid) for pid in ranks]
    server.process.kill()
    for handle in handles:
        with os.fdopen(handle, "rb"):
            assert ended_within(handle, 10)


def test_the_next_start_removes_what_killed_servers_left_and_nothing_of_running_ones(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    killed, running = serve("--plain"), serve("--plain")
    assert len(list(tmp_path.glob("toolkit-reference-*"))) == 2
    killed.process.kill()
    killed.process.wait(20)
    assert len(list(tmp_path.glob("toolkit-reference-*"))) == 2
    other = serve("--plain")
    assert len(list(tmp_path.glob("toolkit-reference-*"))) == 2
    assert running.outputs([[20]], 2) == other.outputs([[20]], 2)
    for server in (running, other):
        server.end()
    assert list(tmp_path.glob("toolkit-reference-*")) == []


def ended_within(handle: int, seconds: float) -> bool:
    return bool(select.select([handle], [], [], seconds)[0])


def test_asked_to_end_a_server_ends_with_code_0(serve: Serve) -> None:
    server = serve("--plain")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == 0


def test_a_failing_plugin_is_logged_and_the_others_load(serve: Serve, tmp_path: Path) -> None:
    info = tmp_path / "site" / "made_plugins-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-plugins\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[toolkit.reference.plugins]\nbad = made_plugins:bad\ngood = made_plugins:good\n"
    )
    (tmp_path / "site" / "made_plugins.py").write_text(
        "def bad():\n    raise RuntimeError('on purpose')\n\n\ndef good():\n    pass\n"
    )
    server = serve("--plain", python_path=tmp_path / "site")
    assert server.call("/server_info")["plugins"] == ["good"]
    assert "on purpose" in server.log.read_text(encoding="utf-8")
