"""`--drive` and `--prompts` as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import BadInputError, UsageError
from toolkit.live.loads import RandomPrompts, TextPrompts, loads_of, read_prompts
from toolkit.schema.profile import Load


def test_every_combination_is_a_load() -> None:
    loads = loads_of("batch=1,4 tokens=512 context=256,4096", with_prompts=False)
    assert [(load.batch_size, load.output_tokens, load.prompt_tokens) for load in loads] == [
        (1, 512, 256),
        (4, 512, 256),
        (1, 512, 4096),
        (4, 512, 4096),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch=0", "batch=0"),
        ("batch=1.5", "batch=1.5"),
        ("batch=", "batch="),
        ("size=3", "'size=3'"),
        ("batch", "'batch'"),
        ("temperature=-1", "temperature=-1"),
        ("tokens=nan", "tokens=nan"),
        (f"batch={','.join(map(str, range(1, 66)))}", "65 loads"),
    ],
)
def test_a_word_that_cannot_be_read_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        loads_of(text, with_prompts=False)


@given(st.text(max_size=30))
def test_any_text_is_loads_or_a_usage_error(text: str) -> None:
    try:
        assert loads_of(text, with_prompts=False)
    except UsageError as error:
        assert "--drive" in str(error)


def test_prompts_of_a_file_have_their_own_context() -> None:
    assert loads_of("batch=2", with_prompts=True)[0].prompt_tokens is None
    with pytest.raises(UsageError, match="leave context= out"):
        loads_of("context=5", with_prompts=True)


def test_random_prompts_stay_in_the_vocabulary_and_never_repeat() -> None:
    prompts = RandomPrompts(300, seed=1)
    load = Load(batch_size=3, prompt_tokens=50)
    first, second = prompts.batch(load), prompts.batch(load)
    assert [len(ids) for ids in first] == [50, 50, 50]
    assert all(10 <= token < 300 for ids in first for token in ids)
    assert first != second
    assert RandomPrompts(300, seed=1).batch(load) == first


def test_prompts_are_lines_json_strings_or_objects(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_text('plain\n\n"a\\nb"\n{"prompt": "p"}\n{"text": "t"}\n{broken\n')
    assert read_prompts(path) == ["plain", "a\nb", "p", "t", "{broken"]
    assert TextPrompts(["x", "y"]).batch(Load(batch_size=3)) == ["x", "y", "x"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe\xff"])
def test_a_file_without_prompts_is_bad_input(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "prompts.txt"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=r"prompts\.txt"):
        read_prompts(path)
