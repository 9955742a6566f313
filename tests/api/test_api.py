"""What notebooks call: light to import, and the same numbers as the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import toolkit
from tests.model.made_runs import sweep
from toolkit import check, fit, inspect, load_model, predict, predict_by_batch, read_runs, save_model
from toolkit.api import Question
from toolkit.errors import BadInputError, UndeterminedError, UsageError
from toolkit.schema.inspection import Inspection

RUN = "2026-11-30-sglang-llama-8b-shaped-dummy-tp1-k2-b1"
STRAIGHT = sweep((0, 2000.0), (1, 3000.0), (2, 3500.0), (4, 4500.0))


@pytest.fixture(scope="module")
def inspected(traces: Path) -> Inspection:
    return inspect(traces / RUN)


def loaded_by(program: str, repository: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        cwd=repository,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "program",
    ["import toolkit", "import toolkit.figures.drawings", "from toolkit.cli import inspect"],
    ids=["toolkit", "names of figures", "a command with --plot"],
)
def test_importing_loads_no_heavy_module(program: str, repository: Path) -> None:
    assert not loaded_by(program, repository) & {"numpy", "pandas", "matplotlib", "scipy", "toolkit.api"}


def test_asking_and_drawing_nothing_loads_neither_pandas_nor_matplotlib(repository: Path) -> None:
    program = (
        "from tests.api.test_api import STRAIGHT; from toolkit import fit, predict; "
        "predict(fit(STRAIGHT), accept_length=2.0, at_num_draft_tokens=3)"
    )
    assert not loaded_by(program, repository) & {"pandas", "matplotlib"}


def test_every_name_of_the_package_is_that_of_the_api() -> None:
    names = [name for name in toolkit.__all__ if name != "__version__"]
    assert all(getattr(toolkit, name) is getattr(toolkit.api, name) for name in names)
    assert set(names) <= set(dir(toolkit)) & set(toolkit.api.__all__)
    with pytest.raises(AttributeError, match="no attribute 'fits'"):
        getattr(toolkit, "fits")  # noqa: B009


def test_runs_are_a_path_paths_recordings_or_what_was_inspected(traces: Path, inspected: Inspection) -> None:
    path = traces / RUN
    assert inspect(str(path)) == inspect([path]) == inspect(read_runs([path])) == inspected
    assert len(read_runs(path)) == len(read_runs(str(path))) == 1
    assert inspect(inspected) is inspected


def test_paths_and_recordings_are_not_mixed(traces: Path) -> None:
    with pytest.raises(TypeError, match="not both at once"):
        inspect([traces / RUN, *read_runs([traces / RUN])])  # type: ignore[list-item]


def test_an_offline_accuracy_is_taken_with_recordings_too(data: Path) -> None:
    folder = data / "kimi-k2.5-tp8"
    by_path = inspect(folder, offline_accuracy=0.77)
    assert inspect(read_runs([folder]), offline_accuracy=0.77).runs == by_path.runs
    assert [audit.verdict for run in by_path.runs for audit in run.acceptance_audit] == ["fault"]


def test_a_question_is_a_record_or_its_fields() -> None:
    model = fit(STRAIGHT)
    by_fields = predict(model, accept_length=2.0, at_num_draft_tokens=3, batch_size=1)
    question = Question(accept_length=2.0, at_num_draft_tokens=3)
    assert predict(model, question, batch_size=1) == by_fields
    with pytest.raises(TypeError, match="accept_lenght"):
        predict(model, accept_lenght=2.0)


def test_a_model_is_kept_in_a_file_and_read_where_it_is_asked(tmp_path: Path) -> None:
    model, path = fit(STRAIGHT), tmp_path / "cost-model.json"
    save_model(model, path)
    assert load_model(path) == model
    asked = {"accept_length": 2.0, "at_num_draft_tokens": 3}
    assert predict(path, **asked) == predict(model, **asked)
    assert check(str(path), STRAIGHT).configurations == check(model, STRAIGHT).configurations
    with pytest.raises(UsageError, match="kept"):
        save_model(model, path)
    with pytest.raises(BadInputError, match="does not exist"):
        load_model(tmp_path / "none.json")


def test_a_question_by_batch_has_an_answer_for_each_batch_that_was_run() -> None:
    runs = (*STRAIGHT.runs, *sweep((0, 2100.0), (2, 3700.0), (4, 4900.0), batch=4).runs)
    model = fit(Inspection(runs=runs))
    asked = {"accept_length": 2.0, "at_num_draft_tokens": 3}
    found = predict_by_batch(model, **asked)
    assert [one.candidates[0].batch_size for one in found] == [1, 4]
    assert found[0] == predict(model, batch_size=1, **asked)
    assert [one.candidates[0].batch_size for one in predict_by_batch(model, (2,), **asked)] == [2]


def test_a_question_by_batch_that_none_answers_says_why() -> None:
    with pytest.raises(UndeterminedError, match="2 steps"):
        predict_by_batch(fit(sweep((0, 2000.0), (5, 5000.0))), accept_length=2.0, steps=(2,))


@pytest.mark.parametrize(
    "asked", [{"batch_size": 0}, {"steps": ()}, {"steps": (2, -1)}, {"topk": 0}, {"context_tokens": -5}]
)
def test_a_question_about_no_count_is_refused_in_a_sentence(asked: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(asked))} is .*; give whole numbers of at least [01]"):
        predict(fit(STRAIGHT), accept_length=2.0, at_num_draft_tokens=3, **asked)


def test_a_model_file_without_an_end_to_its_brackets_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(BadInputError, match="is no cost model"):
        load_model(tmp_path / "deep.json")
