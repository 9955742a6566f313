"""The report page as text: what can be read without a browser (`make page-check` looks with one)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolkit.cli.report_facts import report_facts
from toolkit.forecast.wording import step_list_text
from toolkit.report.alike import alike_together
from toolkit.report.page.page import report_page, with_code
from toolkit.report.page.phases import Part, with_rest
from toolkit.report.written_text import written_text
from toolkit.schema.forecast import Question
from toolkit.schema.report import ReportFacts, WrittenReport

DATA = Path(__file__).parents[1] / "data"
FOUNDING = DATA / "kimi-k2.5-tp8"
_HEAD = "engine,hardware,target,tp_size,num_steps,topk,num_draft_tokens,batch_size,accept_length,cycle_ms"


def _facts(path: Path, **asked: object) -> ReportFacts:
    return report_facts([path], None, Question(**asked), ())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def founding() -> ReportFacts:
    return _facts(FOUNDING, accept_rate=0.36)


@pytest.fixture(scope="module")
def page(founding: ReportFacts) -> str:
    return report_page(founding)


def test_what_phases_leave_of_a_cycle_is_drawn_where_no_gap_was_measured() -> None:
    verify = Part(phase="verify", width=60.0)
    assert with_rest((verify,), 100.0) == (verify, Part(phase="rest", width=40.0))
    gap = Part(phase="gap", width=10.0)
    assert with_rest((verify, gap), 100.0) == (verify, gap)
    assert with_rest((verify,), 60.1) == (verify,)


def test_a_table_that_counts_no_cycles_is_not_said_to_hold_none(page: str) -> None:
    assert "; 0 cycles" not in page
    assert "Run kimi-k2.5-tp8 (table)." in page


def test_the_line_of_plain_decoding_is_explained_with_the_ratio_that_is_drawn(page: str) -> None:
    assert "a cycle of 2.50 × plain pays above 2.50 tokens a cycle" in page


def test_a_line_ends_between_flags_and_never_in_one(page: str) -> None:
    assert '<span class="word">--speculative-algorithm</span>' in page
    assert with_code("give --accept-rate <b>") == 'give <code class="word">--accept-rate</code> &lt;b&gt;'
    assert with_code("`a --b` and verify_us") == '<code>a --b</code> and <code class="word">verify_us</code>'


def test_many_groups_are_listed_behind_a_word_so_that_health_comes_first(tmp_path: Path) -> None:
    rows = [f"sglang,H200,m{group},1,{k},1,{k + 1},1,{1 + k},{10 + k}" for group in range(9) for k in (0, 1)]
    (tmp_path / "measurements.csv").write_text("\n".join([_HEAD, *rows]) + "\n", encoding="utf-8")
    text = report_page(_facts(tmp_path / "measurements.csv"))
    assert "<summary>9 groups and what pays for each</summary>" in text
    assert text.index("9 groups and what pays") < text.index('href="#g0"') < text.index('id="health"')


def test_the_terminal_says_of_each_group_what_the_page_says_in_80_columns(
    founding: ReportFacts, page: str
) -> None:
    report = WrittenReport(report="report.html", bytes=len(page), runs=1, groups=(), failed_checks=0)
    said = written_text(founding, report)
    assert max(map(len, said.splitlines())) <= 80
    assert "Turn speculation off (15.8% over 5 steps)" in said and "<strong>Turn speculation off" in page
    warnings = re.search(r"(\d+) warnings", said)
    assert warnings and f"0 failed; {warnings[1]} warnings." in page


def test_what_holds_for_many_runs_is_said_once_with_their_names() -> None:
    said = [f"r{place}: {place} of 9 cycles are left out" for place in range(6)]
    assert alike_together([*said, "r1: another thing"]) == [
        "r0: 0 of 9 cycles are left out; likewise r1; r2; r3 and 2 more",
        "r1: another thing",
    ]
    assert alike_together(["no name in 3 of 4", "no name in 5 of 6"]) == [
        "no name in 3 of 4",
        "no name in 5 of 6",
    ]


def test_step_counts_are_listed_as_a_sentence_lists_them() -> None:
    assert step_list_text([1, 2, 3, 4, 6, 7, 8]) == "1 to 4 and 6 to 8 steps"
    assert step_list_text([1, 2, 4, 5, 6]) == "1, 2 and 4 to 6 steps"
    assert step_list_text([0]) == "plain decoding"
    assert step_list_text([0, 1]) == "plain decoding and 1 step"
    assert step_list_text([1]) == "1 step"


def test_draft_tp_sizes_that_are_not_drawn_are_named() -> None:
    text = report_page(_facts(DATA / "draft-tp", accept_length=2.5, draft_tp=(1, 2, 4), draft_model="small"))
    assert "The draft at another TP" in text and "Not determined: draft at TP4." in text
