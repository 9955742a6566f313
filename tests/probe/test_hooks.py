"""Wrapping: faults of the probe never reach the engine, the engine's own do, names are put back."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from toolkit_probe import complaints
from toolkit_probe.guard import FAULTS, Faults, awake_only, marking_only
from toolkit_probe.patching import Patches
from toolkit_probe.recorder import Recorder
from toolkit_probe.targets import INHERITED, Target


class Noting:
    """A hook that notes its calls, and raises where it is told to."""

    def __init__(self, raises: str = "") -> None:
        self.raises, self.calls = raises, []  # type: tuple[str, list[str]]

    def begin(self, args: Any, kwargs: Any) -> str:
        self._note("begin")
        return "token"

    def end(self, token: Any, args: Any, result: Any) -> None:
        self._note("end")

    def _note(self, what: str) -> None:
        self.calls.append(what)
        if what == self.raises:
            raise RuntimeError("a fault of the probe")


class Awake:
    awake = True


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what has been complained about."""
    monkeypatch.setattr(complaints, "_said", set())


def double(number: int) -> int:
    """The engine's function."""
    return 2 * number if number else 1 // number


def hooked(hook: Noting, gate: Any = Awake) -> tuple[Callable[..., Any], Faults]:
    faults = Faults(Recorder())
    return awake_only(double, "draft", hook, gate, faults), faults


def test_asleep_the_hook_is_not_called() -> None:
    hook, gate = Noting(), Recorder()
    call, _ = hooked(hook, gate)
    assert call(4) == 8 and hook.calls == []


def test_awake_it_is_called_around_the_engine() -> None:
    hook = Noting()
    call, _ = hooked(hook)
    assert call(number=4) == 8 and hook.calls == ["begin", "end"]


@pytest.mark.parametrize("where", ["begin", "end"])
def test_a_fault_of_the_hook_never_reaches_the_engine(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    call, _ = hooked(Noting(where))
    assert [call(4) for _ in range(10)] == [8] * 10
    assert capsys.readouterr().err == "toolkit probe: hook draft: RuntimeError: a fault of the probe\n"


def test_a_hook_that_goes_on_failing_is_left_out_and_says_why() -> None:
    hook = Noting("begin")
    call, faults = hooked(hook)
    for _ in range(10):
        call(4)
    assert len(hook.calls) == FAULTS
    assert faults.why == {"draft": "failed: RuntimeError: a fault of the probe"}


def test_an_exception_of_the_engine_passes_through_unchanged() -> None:
    hook = Noting()
    call, _ = hooked(hook)
    with pytest.raises(ZeroDivisionError):
        call(0)
    assert hook.calls == ["begin"]


def test_a_fault_while_marking_never_reaches_the_engine() -> None:
    recorder = Recorder()
    recorder.marks = object()  # has no begin
    call = marking_only(double, "draft_forward", lambda args: True, recorder, Faults(recorder))
    assert call(4) == 8


def test_a_hook_keeps_name_and_signature() -> None:
    call, _ = hooked(Noting())
    assert (call.__name__, call.__doc__) == ("double", "The engine's function.")


def test_complaints_fill_no_log(capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(1000):
        complaints.complain(f"place {number}", "a\nb")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 50 and lines[0] == "toolkit probe: place 0: a b"


ENGINE = """
class Base:
    def inherited(self): return "base"
class Worker(Base):
    def run(self): return "run"
    kind = int
def free(): return "free"
raise_later = False
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of an engine's module that is not imported yet."""
    (tmp_path / "made_up_engine.py").write_text(ENGINE)
    (tmp_path / "made_up_broken.py").write_text("1 // 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield "made_up_engine"
    sys.modules.pop("made_up_engine", None)
    assert sys.meta_path == before


def louder(target: Target, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: original(*args).upper()


def test_a_module_is_hooked_when_the_engine_imports_it_and_its_names_come_back(engine: str) -> None:
    patches = Patches()
    run, free = Target("draft", engine, "Worker.run"), Target("verify", engine, "free")
    patches.install([run, free], louder)
    assert engine not in sys.modules
    assert patches.states[run] == f"missing: {engine}.Worker.run (its module is not imported)"
    module = importlib.import_module(engine)
    assert (module.Worker().run(), module.free()) == ("RUN", "FREE")
    assert set(patches.states.values()) == {"ok"}
    assert type(module.__loader__).__name__ == type(module.__spec__.loader).__name__ == "SourceFileLoader"
    patches.undo()
    assert (module.Worker().run(), module.free()) == ("run", "free")


def test_a_module_that_is_there_already_is_hooked_at_once(engine: str) -> None:
    module = importlib.import_module(engine)
    patches = Patches()
    patches.install([Target("draft", engine, "Worker.run")], louder)
    assert module.Worker().run() == "RUN"
    patches.undo()
    assert module.Worker().run() == "run"


def test_a_name_that_somebody_else_replaced_later_is_not_put_back(engine: str) -> None:
    module = importlib.import_module(engine)
    patches = Patches()
    patches.install([Target("draft", engine, "Worker.run")], louder)
    module.Worker.run = lambda self: "theirs"
    patches.undo()
    assert module.Worker().run() == "theirs"


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("Worker.gone", "missing: made_up_engine.Worker.gone"),
        ("Gone.run", "missing: made_up_engine.Gone.run"),
        ("Worker.inherited", "missing: made_up_engine.Worker.inherited"),
        ("Worker.kind", "failed: made_up_engine.Worker.kind is no function"),
    ],
)
def test_what_cannot_be_hooked_is_named(engine: str, name: str, state: str) -> None:
    importlib.import_module(engine)
    patches, target = Patches(), Target("draft", engine, name)
    patches.install([target], louder)
    assert patches.states[target] == state
    patches.undo()


@pytest.mark.parametrize("role", sorted(INHERITED))
def test_where_a_class_may_inherit_a_name_the_base_class_is_left_alone(engine: str, role: str) -> None:
    module = importlib.import_module(engine)
    patches = Patches()
    patches.install([Target(role, engine, "Worker.inherited")], louder)
    assert (module.Worker().inherited(), module.Base().inherited()) == ("BASE", "base")
    patches.undo()
    assert module.Worker().inherited() == "base" and "inherited" not in vars(module.Worker)


def test_a_function_is_not_hooked_twice(engine: str) -> None:
    module = importlib.import_module(engine)
    first, second, target = Patches(), Patches(), Target("draft", engine, "Worker.run")
    first.install([target], louder)
    second.install([target], lambda target, original: lambda *args: original(*args) + "!")
    assert module.Worker().run() == "RUN"
    first.undo()


def test_a_module_that_fails_to_import_fails_as_without_the_probe(engine: str) -> None:
    patches = Patches()
    patches.install([Target("draft", "made_up_broken", "run")], louder)
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("made_up_broken")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("made_up_absent")
    patches.undo()


def test_a_hook_that_cannot_be_made_is_reported(engine: str) -> None:
    module = importlib.import_module(engine)

    def broken(target: Target, original: Any) -> Any:
        raise RuntimeError("no hook today")

    patches, target = Patches(), Target("draft", engine, "Worker.run")
    patches.install([target], broken)
    assert patches.states[target] == "failed: no hook today" and module.Worker().run() == "run"
    patches.undo()
