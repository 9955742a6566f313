"""The last cycle of a request may be cut by its end: that is no rejection."""

from __future__ import annotations

from itertools import accumulate
from operator import mul

import numpy as np
import pytest

from toolkit.analysis.acceptance import from_requests
from toolkit.analysis.inspect_run import inspect_recording
from toolkit.analysis.request_ends import ends_cut, shares_kept, shares_kept_censored
from toolkit.schema.client import ClientRepeat, ClientResult, RequestCount
from toolkit.schema.recording import Recording
from toolkit.schema.run import RunInfo

HAZARDS = (0.8, 0.7, 0.6, 0.5, 0.4)
TRUE = tuple(accumulate(HAZARDS, mul))


def requests(number: int, limit: int, *, whole: bool) -> list[RequestCount]:
    """Return requests that end at `limit` tokens; `whole`: their counters count beyond the end."""
    random = np.random.default_rng(7)
    made = []
    for _ in range(number):
        output, histogram = 1, [0] * (len(HAZARDS) + 1)
        while output < limit:
            kept = 0
            while kept < len(HAZARDS) and random.random() < HAZARDS[kept]:
                kept += 1
            within = min(kept, limit - output - 1)
            histogram[kept if whole else within] += 1
            output += 1 + within
        made.append(
            RequestCount(
                output_tokens=output,
                verify_cycles=sum(histogram),
                num_correct_drafts=sum(kept * times for kept, times in enumerate(histogram)),
                correct_drafts_histogram=tuple(histogram),
            )
        )
    return made


@pytest.mark.parametrize("limit", [8, 30])
def test_cut_cycles_are_censored_and_not_rejections(limit: int) -> None:
    """Pitfall 3: taken as rejections, the cut cycles of short texts cost up to a tenth of the length."""
    made = requests(3000, limit, whole=False)
    assert ends_cut(made) is True
    found = from_requests(made)
    assert found is not None and found.cut_ends == 3000
    assert found.accept_by_position == pytest.approx(TRUE, abs=0.015)
    naive = shares_kept([one.correct_drafts_histogram for one in made])
    assert sum(naive) < sum(TRUE) - 0.05
    assert found.accept_length == pytest.approx(1 + sum(naive))  # as counted: it makes the throughput


def test_counters_that_count_beyond_the_end_are_taken_as_they_are() -> None:
    made = requests(3000, 8, whole=True)
    assert ends_cut(made) is False
    found = from_requests(made)
    assert found is not None and found.cut_ends == 0
    assert found.accept_by_position == shares_kept([one.correct_drafts_histogram for one in made])


def test_without_output_tokens_nothing_tells_and_short_requests_are_said() -> None:
    bare = RequestCount(verify_cycles=4, num_correct_drafts=6, correct_drafts_histogram=(1, 1, 1, 1))
    found = from_requests([bare, bare])
    assert found is not None and found.cut_ends is None
    assert said(bare, bare) == [
        "requests have 4 cycles each and nothing tells whether their ends cut the last one: then it counts "
        "as a rejection; drive longer outputs"
    ]


def test_the_shares_of_a_cut_run_are_said_beside_the_length_as_counted() -> None:
    (note,) = said(*requests(200, 8, whole=False))
    assert "right-censored" in note and note.endswith("tokens a cycle, not 2.47")


def test_a_single_request_of_one_cycle_gives_its_length_and_no_more() -> None:
    assert shares_kept_censored([(0, 0, 1)]) == pytest.approx((1.0, 1.0))
    assert shares_kept_censored([]) == ()
    assert shares_kept_censored([(3,)]) == ()


def said(*counted: RequestCount) -> list[str]:
    client = ClientResult(
        batch_size=1, repeats=(ClientRepeat(seconds=1.0, output_tokens=10),), requests=counted
    )
    info = RunInfo(engine="sglang", num_steps=5, topk=1, num_draft_tokens=6)
    (cell,) = inspect_recording(Recording(name="r", source="r", info=info, client=client)).configurations
    return list(cell.notes)
