"""Only windows of steady decoding are taken from a log."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.analysis.cells.log_cells import log_cells
from toolkit.analysis.cells.log_windows import LogWindow, steady_windows
from toolkit.ingest.logs.server_log import read_log_line
from toolkit.schema.log import LogLine, Ranks, ServerLog
from toolkit.schema.run import RunInfo

VLLM = (
    "INFO 06-06 14:20:{second:02d} [loggers.py:116] Engine 000: Avg prompt throughput: {prompt} tokens/s, "
    "Avg generation throughput: {tok_s} tokens/s, Running: {running} reqs, Waiting: 0 reqs, "
    "GPU KV cache usage: 9.5%, Prefix cache hit rate: 0.5%"
)
METRICS = (
    "INFO 06-06 14:20:{second:02d} [metrics.py:96] SpecDecoding metrics: Mean acceptance length: 2.50, "
    "Accepted throughput: 60.00 tokens/s, Drafted throughput: 120.00 tokens/s, Accepted: 600 tokens, "
    "Drafted: 1200 tokens, Per-position acceptance rate: 0.800, 0.500, 0.200, "
    "Avg Draft acceptance rate: 50.0%"
)


def decode(tok_s: float | None = 100.0, running: int = 1, length: float | None = 2.0, **said: Any) -> LogLine:
    return LogLine(
        engine="sglang", kind="decode", running_req=running, accept_length=length, tok_s=tok_s, **said
    )


PREFILL = LogLine(engine="sglang", kind="prefill")


def rates(*lines: LogLine, plain: bool | None = None) -> list[float]:
    return [window.tok_s for window in steady_windows(lines, plain)]


def test_a_cycle_is_running_requests_times_length_over_throughput() -> None:
    (window,) = steady_windows([decode(tok_s=400.0, running=4, length=2.0)], None)
    assert window.cycle_us == 20_000.0
    assert window.request_cycles == 160  # a line every 40 cycles


def test_a_window_that_a_prefill_touched_is_left_out() -> None:
    assert rates(decode(100.0), PREFILL, decode(60.0), decode(101.0)) == [100.0, 101.0]


def test_a_window_in_which_requests_came_or_went_is_left_out() -> None:
    lines = [decode(100.0), decode(150.0, running=2), decode(200.0, running=2), decode(120.0), decode(101.0)]
    assert rates(*lines) == [100.0, 200.0, 101.0]


def test_the_window_after_an_idle_one_is_left_out() -> None:
    assert rates(decode(100.0), decode(0.0, running=0), decode(70.0), decode(101.0)) == [100.0, 101.0]


def test_windows_of_a_profiled_server_are_left_out() -> None:
    started, stopped = LogLine(profiler=True), LogLine(profiler=False)
    lines = [decode(100.0), started, decode(60.0), decode(61.0), stopped, decode(40.0), decode(101.0)]
    assert rates(*lines) == [100.0, 101.0]


def test_sglang_says_when_its_profiler_runs() -> None:
    said = ("Profiling starts. Traces will be saved to: x", "Stop profiling...", "Profiling done. Traces are")
    lines = [read_log_line(f"[2026-11-30 03:06:26 TP0] {text}") for text in (*said, "Capture graph begin")]
    assert [line.profiler for line in lines] == [True, False, False, None]
    assert lines[0].ranks == Ranks(tp=0)


def test_a_window_far_longer_than_its_peers_held_a_pause() -> None:
    assert rates(*[decode(100.0)] * 5, decode(40.0)) == [100.0] * 5


def test_a_cut_line_without_throughput_does_no_harm() -> None:
    assert rates(decode(100.0), decode(None, length=None), decode(101.0)) == [100.0, 101.0]


def test_lengths_below_one_are_no_lengths() -> None:
    assert rates(decode(100.0, length=0.5), decode(101.0)) == [101.0]


def test_ranks_that_log_side_by_side_do_not_disturb_each_other() -> None:
    lines = [
        decode(100.0 + rank, running=1 + rank, ranks=Ranks(dp=rank)) for _ in range(3) for rank in (0, 1)
    ]
    assert sorted(rates(*lines)) == [100.0] * 3 + [101.0] * 3


def vllm(second: int, tok_s: float = 100.0, prompt: float = 0.0, running: int = 1) -> list[LogLine]:
    texts = (
        VLLM.format(second=second, prompt=prompt, tok_s=tok_s, running=running),
        METRICS.format(second=second),
    )
    return [read_log_line(text) for text in texts]


def vllm_windows(*pairs: list[LogLine]) -> list[LogWindow]:
    return steady_windows([line for pair in pairs for line in pair], None)


def test_vllms_statistics_and_metrics_of_one_moment_are_one_window() -> None:
    (window,) = vllm_windows(vllm(10))
    assert (window.accept_length, window.cycle_us, window.request_cycles) == (2.5, 25_000.0, 400)
    assert window.accept_by_position == (0.8, 0.5, 0.2)


def test_vllms_windows_with_prompt_tokens_held_a_prefill() -> None:
    windows = vllm_windows(vllm(10, 60.0, prompt=31.9), vllm(20, 100.0), vllm(30, 99.0))
    assert [window.tok_s for window in windows] == [100.0, 99.0]
    assert read_log_line(VLLM.format(second=1, prompt=31.9, tok_s=1.0, running=1)).prompt_tok_s == 31.9


def test_statistics_and_metrics_on_one_line_are_one_window() -> None:
    text = VLLM.format(second=1, prompt=0.0, tok_s=100.0, running=1) + " " + METRICS.format(second=1)[36:]
    (window,) = steady_windows([read_log_line(text)], None)
    assert (window.accept_length, window.cycle_us) == (2.5, 25_000.0)


def test_a_line_without_a_length_in_a_speculative_log_is_not_plain_decoding() -> None:
    lines = (decode(100.0), decode(101.0, length=None))
    cells = log_cells(ServerLog(source="x", lines=lines), RunInfo())
    assert {cell.num_steps for cell in cells.values()} == {None}


@pytest.mark.parametrize(("num_steps", "steps"), [(None, 0), (0, 0)])
def test_a_log_without_any_length_is_plain_decoding(num_steps: int | None, steps: int) -> None:
    lines = (decode(100.0, length=None), decode(101.0, length=None))
    (cell,) = log_cells(ServerLog(source="x", lines=lines), RunInfo(num_steps=num_steps)).values()
    assert cell.num_steps == steps
    assert cell.cycle_us is not None
    assert cell.cycle_us.median == pytest.approx(9950.5, abs=0.1)
