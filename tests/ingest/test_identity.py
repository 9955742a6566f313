"""Facts of one server come together from its files; files of two servers are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolkit.errors import BadInputError
from toolkit.ingest.identity import completed_info, require_one_server
from toolkit.schema.log import LogLine, ServerLog
from toolkit.schema.measurement import Measurement
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans, SpanCycle
from toolkit.schema.trace import Annotations, HostCalls, Kernels, RankTrace

RUN = Path("run")


def log(**server: Any) -> ServerLog:
    return ServerLog(source="run/server.log", lines=(), server=RunInfo(**server))


def trace(rank: int, world_size: int | None) -> RankTrace:
    ids, none = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    return RankTrace(
        source=f"trace-TP-{rank}",
        tp_rank=rank,
        world_size=world_size,
        names=(),
        kernels=Kernels(ids, none, none, none, none, none, none),
        host_calls=HostCalls(ids, none, none, none, none),
        annotations=Annotations(ids, none, none, none),
    )


def spans(*steps: int | None) -> RankSpans:
    cycles = tuple(SpanCycle(cycle=at, t_ns=at, num_steps=step) for at, step in enumerate(steps))
    return RankSpans(source="run/spans-TP-0.jsonl", tp_rank=0, clock="", dropped=0, cycles=cycles)


@pytest.mark.parametrize(
    ("given", "logged", "said"),
    [
        ({"engine": "vllm"}, {"engine": "sglang"}, "engine is vllm in run.json and sglang in server.log"),
        ({"num_steps": 3}, {"num_steps": 5}, "num_steps is 3 in run.json and 5 in server.log"),
        ({"tp_size": 1}, {"tp_size": 8}, "tp_size is 1 in run.json and 8 in server.log"),
    ],
)
def test_a_log_that_contradicts_run_json_is_refused(given: Any, logged: Any, said: str) -> None:
    with pytest.raises(BadInputError, match=f"run mixes two servers: {said}; make a run folder for each"):
        require_one_server(RUN, RunInfo(**given), log(**logged), ())


def test_traces_of_worlds_of_different_size_are_refused() -> None:
    with pytest.raises(BadInputError, match="2 ranks in trace-TP-0, 4 ranks in trace-TP-1"):
        require_one_server(RUN, RunInfo(), None, (trace(0, 2), trace(1, 4)))


def test_a_world_smaller_than_the_tensor_parallel_size_is_refused() -> None:
    with pytest.raises(BadInputError, match="trace-TP-0 is of 1 ranks, the run of tp_size 2"):
        require_one_server(RUN, RunInfo(), log(tp_size=2), (trace(0, 1),))
    require_one_server(RUN, RunInfo(tp_size=2), None, (trace(0, 4), trace(1, None)))  # two replicas of TP 2


def test_spans_of_another_step_count_than_the_runs_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"num_steps is 3 in run\.json and 5 in spans-TP-0\.jsonl"):
        require_one_server(RUN, RunInfo(num_steps=3), None, (), (spans(5, None, 5),))
    require_one_server(RUN, RunInfo(num_steps=3), None, (), (spans(3, None), spans()))
    require_one_server(RUN, RunInfo(), None, (), (spans(1, 5),))  # an adaptive server


def test_what_run_json_leaves_open_comes_from_the_log_then_from_the_table() -> None:
    rows = (
        Measurement(row=2, gpu="A", model="c", tp_size=2),
        Measurement(row=3, gpu="B", model="c", tp_size=2),
    )
    info = completed_info(RunInfo(model="a"), log(model="b", num_steps=3), rows)
    assert (info.model, info.num_steps, info.tp_size) == ("a", 3, 2)
    assert info.gpu is None  # the rows do not agree


def test_the_engine_is_that_of_the_lines_if_nothing_else_names_it() -> None:
    lines = (LogLine(engine="vllm", kind="spec_metrics"), LogLine(engine="sglang", kind="other"))
    assert completed_info(RunInfo(), ServerLog(source="x", lines=lines), ()).engine == "vllm"
