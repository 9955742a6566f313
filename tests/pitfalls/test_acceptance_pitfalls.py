"""Ways to be wrong about acceptance (docs/pitfalls.md), on made data whose truth is known."""

from __future__ import annotations

import json
from itertools import accumulate
from operator import mul
from pathlib import Path

import numpy as np
import pytest

from tests.model.made_answers import at, near
from tests.model.made_runs import acceptance, configuration, inspection, run, sweep
from toolkit.analysis.acceptance import from_requests
from toolkit.analysis.inspect_run import inspect_recording
from toolkit.api import inspect_runs, read_runs
from toolkit.model.acceptance_curve import accept_lengths
from toolkit.model.fit import fit_cost_model
from toolkit.schema.client import ClientResult, RequestCount
from toolkit.schema.cost import AcceptanceCurve, CostModel
from toolkit.schema.inspection import AcceptanceReport, DominantRequest
from toolkit.schema.recording import Recording
from toolkit.schema.run import RunInfo
from toolkit.schema.spans import RankSpans, SpanCycle

FLAT = sweep((0, 10_000.0), (1, 10_500.0), (3, 11_500.0), (5, 12_500.0), (7, 13_500.0))


def survival(hazards: tuple[float, ...]) -> tuple[float, ...]:
    """Return S_1, S_2, ... of the chances to keep a draft when the one before was kept."""
    return tuple(accumulate(hazards, mul))


def geometric(alpha: float, steps: int) -> float:
    """Return the accept length of one chance for every position."""
    return sum(alpha**position for position in range(steps + 1))


def alpha_of(length: float, steps: int) -> float:
    """Return the one chance whose geometric series has that accept length."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if geometric(middle, steps) < length else (low, middle)
    return low


def server_log(
    folder: Path, *, steps: int, tok_s: float, lines: tuple[tuple[float, float], ...] = ()
) -> Path:
    """Write a run of an SGLang server whose decode lines print these lengths and rates."""
    folder.mkdir()
    named = {"engine": "sglang", "model": "m", "gpu": "g", "tp_size": 1, "num_steps": steps, "topk": 1}
    told = {"schema": "toolkit.run/1", **named, "num_draft_tokens": steps + 1, "acceptance": "real"}
    (folder / "run.json").write_text(json.dumps(told))
    spoken = [f"accept len: {length:.2f}, accept rate: {rate:.2f}, " for length, rate in lines] or [""] * 3
    text = "[2026-01-01 10:00:{:02d}] Decode batch. #running-req: 1, #token: 500, token usage: 0.01, {}"
    text += "cuda graph: True, gen throughput (token/s): {:.2f}, #queue-req: 0, \n"
    (folder / "server.log").write_text("".join(text.format(i, s, tok_s) for i, s in enumerate(spoken)))
    return folder


# the printed pairs of one length, before and after the rate of SGLang changed its meaning
OLD_LINES = ((2.16, 0.36), (2.22, 0.37), (2.10, 0.35))
NEW_LINES = ((2.60, 0.32), (2.50, 0.30), (2.70, 0.34))


@pytest.mark.parametrize(("lines", "length"), [(OLD_LINES, 2.16), (NEW_LINES, 2.60)])
def test_the_rate_of_an_sglang_log_is_not_taken_as_the_chance_of_a_token(
    tmp_path: Path, lines: tuple[tuple[float, float], ...], length: float
) -> None:
    """Pitfall 1: break-even lies between the length and what its rate gives as the chance of a token."""
    plain_tok_s, break_even = 100.0, 1.8
    cycle_s = break_even / plain_tok_s
    folders = [
        server_log(tmp_path / "spec", steps=5, tok_s=length / cycle_s, lines=lines),
        server_log(tmp_path / "plain", steps=0, tok_s=plain_tok_s),
    ]
    model = fit_cost_model(inspect_runs(read_runs(folders)), draws=100)
    naive = geometric(lines[0][1], 5)
    assert naive < break_even < length
    for asked in ({"accept_rate": lines[0][1], "at_num_draft_tokens": 6}, {}):
        answer = near(model, steps=(0, 5), **asked)
        assert answer.acceptance.accept_length == pytest.approx(length, abs=0.01)
        assert answer.recommendation.action == "use"
    assert near(model, steps=(0, 5), accept_length=naive, at_num_draft_tokens=6).recommendation.action == (
        "turn speculation off"
    )


def known_to_three_steps(hazards: tuple[float, ...]) -> CostModel:
    """Fit cheap steps and a long run of 3 steps that measured these three chances."""
    shares = survival(hazards)
    told = acceptance(1 + sum(shares), accept_by_position=shares, cycles=1_000_000, se=1e-3)
    runs = [one for one in FLAT.runs if one.run != "k3b1"]
    made = run("k3", configuration(3, 11_500.0, acceptance=told), acceptance_kind="real")
    return fit_cost_model(inspection(*runs, made), draws=100)


def test_a_head_that_decays_is_not_continued_as_a_geometric_series() -> None:
    """Pitfall 2: the true best is 3 steps; one chance for all positions of the same length says 5 or more."""
    truth = (0.8, 0.6, 0.45, 0.34, 0.25, 0.19, 0.14, 0.1)
    model = known_to_three_steps(truth[:3])
    true = [1.0, *(1 + sum(survival(truth)[:steps]) for steps in range(1, 9))]
    speed = [length / (10.0 + 0.5 * steps) for steps, length in enumerate(true)]
    assert speed.index(max(speed)) == 3
    alpha = alpha_of(true[3], 3)
    naive = near(model, accept_by_position=survival((alpha,) * 8)).recommendation
    assert naive.candidate is not None and naive.candidate >= 5
    answer = near(model)
    assert answer.recommendation.candidate == 3
    eight = at(answer, 8).accept_length or 0.0
    assert abs(eight / true[8] - 1) < 0.05 < abs(geometric(alpha, 8) / true[8] - 1)


def test_a_pooled_hazard_that_rises_stays_as_measured_and_does_not_rise_on() -> None:
    """Pitfall 2, the converse: a decay fitted to these three would be negative."""
    rising = (0.6, 0.66, 0.72)
    shares = survival(rising)
    before = (1.0, *shares[:-1])
    curve = AcceptanceCurve(
        at_risk=tuple(1e6 * share for share in before),
        kept=tuple(1e6 * share for share in shares),
        design_effect=1.0,
        runs=("r",),
    )
    made = accept_lengths(curve, None, 8, 1, 400, 0)
    assert made.values[1:4] == pytest.approx(np.cumsum(shares) + 1, rel=1e-6)
    kept = np.diff(made.values)
    hazards = kept[1:] / kept[:-1]
    assert (hazards[2:] <= rising[-1] + 1e-9).all()
    on = survival((*rising, *(0.72 + 0.06 * further for further in range(1, 5))))
    assert made.values[7] < 1 + sum(on) - 0.1
    held = survival((*rising, *[rising[-1]] * 5))
    assert made.values[8] <= 1 + sum(held)
    assert np.quantile(made.draws[:, 8], 0.05) < made.values[8] < np.quantile(made.draws[:, 8], 0.95)


def adaptive_spans(hazards: tuple[float, ...], caps: tuple[int, ...]) -> RankSpans:
    """Return cycles of a server that changes its step count: each keeps drafts up to its cap."""
    rng = np.random.default_rng(1)
    cycles = []
    for number, cap in enumerate(caps):
        kept = 0
        while kept < cap and rng.random() < hazards[kept]:
            kept += 1
        cycles.append(
            SpanCycle(
                cycle=number,
                t_ns=number * (10_000_000 + 500_000 * cap),
                batch_size=1,
                num_steps=cap,
                num_draft_tokens=cap + 1,
                correct_drafts=(kept,),
            )
        )
    return RankSpans(source="spans", tp_rank=0, clock="host", dropped=0, cycles=tuple(cycles))


def test_cycles_of_a_server_that_adapts_its_steps_are_at_risk_only_up_to_their_own_cap() -> None:
    """Pitfall 3: 80 % of the cycles could not keep more than 3 drafts; the mean over all is not tau(7)."""
    hazards = (0.75, 0.72, 0.7, 0.68, 0.65, 0.62, 0.6)
    true = 1 + sum(survival(hazards))
    spans = adaptive_spans(hazards, (3,) * 8000 + (7,) * 2000)
    info = RunInfo(engine="sglang", model="m", gpu="g", tp_size=1, topk=1, acceptance="real")
    made = inspect_recording(Recording(name="r", source="r", info=info, spans=(spans,)))
    plain = run("plain", configuration(0, 10_000.0))
    model = fit_cost_model(inspection(made, plain), draws=50)
    naive = 1 + sum(cycle.correct_drafts[0] for cycle in spans.cycles if cycle.correct_drafts) / 10_000
    assert naive < 0.9 * true
    assert at(near(model), 7).accept_length == pytest.approx(true, rel=0.02)


def test_a_request_that_runs_away_is_named_beside_the_length_of_each_request_once() -> None:
    """Pitfall 5: of 20 requests one repeats itself for 600 cycles of 5 tokens; the others keep 1.2 drafts."""
    usual = [RequestCount(verify_cycles=20, num_correct_drafts=20 + at % 9) for at in range(19)]
    looping = RequestCount(verify_cycles=600, num_correct_drafts=2400)
    found = from_requests([*usual[:6], looping, *usual[6:]])
    assert found is not None and found.accept_length is not None and found.dominant is not None
    assert found.accept_length > 3.8
    assert (found.dominant.number, found.dominant.accept_length) == (7, 5.0)
    assert found.dominant.others_accept_length == pytest.approx(2.19, abs=0.01)
    assert found.accept_length_by_request == pytest.approx(2.33, abs=0.01)
    client = ClientResult(batch_size=1, requests=(*usual[:6], looping, *usual[6:]))
    info = RunInfo(engine="sglang", num_steps=5, topk=1, num_draft_tokens=6)
    report = inspect_recording(Recording(name="r", source="r", info=info, client=client))
    (warning,) = [text for text in report.warnings if "request 7 of 20" in text]
    assert "61% of the cycles at 5.00 tokens a cycle, the others have 2.19" in warning
    assert "with each request counted once it is 2.33" in warning
    alike = from_requests([*usual, RequestCount(verify_cycles=600, num_correct_drafts=720)])
    assert alike is not None and alike.dominant is None  # long, but its acceptance is the others'


def test_a_fit_on_the_acceptance_of_one_request_says_so() -> None:
    dominant = DominantRequest(number=1, cycles_share=0.8, accept_length=5.0, others_accept_length=2.0)
    told = acceptance(3.4, accept_by_position=(0.9, 0.8), requests=9, dominant=dominant)
    made = run("k3", configuration(3, 11_500.0, acceptance=told), acceptance_kind="real")
    model = fit_cost_model(inspection(*FLAT.runs, made), draws=20)
    assert any("k3: request 1 of 9 has 80% of the cycles" in text for text in model.groups[0].warnings)


def test_a_trace_of_nine_steps_read_at_fewer_keeps_a_doubt_that_no_count_removes() -> None:
    """Pitfall 4: chances depend a little on the step count, so a cut curve was 1 to 4.5 % low in public."""
    shares = survival((0.6,) * 9)
    curve = AcceptanceCurve(
        at_risk=tuple(1e12 * share for share in (1.0, *shares[:-1])),
        kept=tuple(1e12 * share for share in shares),
        design_effect=1.0,
        runs=("r",),
    )
    cut = accept_lengths(curve, None, 5, 1, 400, 0)
    for steps in (3, 5):
        high = float(np.quantile(cut.draws[:, steps], 0.95)) / cut.values[steps]
        assert 1.02 < high < 1.06


def of_requests(*histograms: tuple[int, ...]) -> AcceptanceReport:
    """Return what counters of these requests say: histogram[i] cycles kept i drafts."""
    made = from_requests(
        [
            RequestCount(
                verify_cycles=sum(histogram),
                num_correct_drafts=sum(kept * times for kept, times in enumerate(histogram)),
                correct_drafts_histogram=histogram,
            )
            for histogram in histograms
        ]
    )
    assert made is not None
    return made


def test_cycles_of_one_request_do_not_count_as_independent() -> None:
    """Pitfall 5: the same cycles, dealt to requests that are alike and to requests of two kinds."""
    alike = of_requests(*[(450, 100, 450)] * 20)
    clustered = of_requests(*[(900, 100, 0)] * 10, *[(0, 100, 900)] * 10)
    assert alike.accept_by_position == clustered.accept_by_position
    widths, effects = [], []
    for told in (alike, clustered):
        made = run("k2", configuration(2, 11_000.0, acceptance=told), acceptance_kind="real")
        model = fit_cost_model(inspection(made, run("k0", configuration(0, 10_000.0))), draws=200)
        curve = model.groups[0].curve
        assert curve is not None
        effects.append(curve.design_effect)
        two = accept_lengths(curve, None, 2, 1, 400, 0)
        widths.append(float(np.ptp(np.quantile(two.draws[:, 2], [0.05, 0.95]))))
    assert effects[0] == 1.0 and effects[1] > 100
    assert widths[1] > 3 * widths[0]
    # 20 requests of 1000 cycles: as independent cycles the error is 0.0067, of requests about 0.2
    assert clustered.se == pytest.approx(0.9 / 19**0.5, rel=1e-6)
