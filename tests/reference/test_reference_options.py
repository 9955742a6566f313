"""What the command line of the reference engine takes and refuses; no torch is needed for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolkit.reference.__main__ import main
from toolkit.reference.errors import SettingError
from toolkit.reference.options import read_options

CONFIG = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
    "eos_token_id": [7, 8],
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_sizes_come_from_a_config_as_published(config: Path) -> None:
    target = read_options(["--config", str(config)]).target
    assert (target.hidden, target.layers, target.heads, target.kv_heads) == (128, 6, 8, 4)
    assert (target.head_dim, target.vocab, target.padded_vocab, target.eos) == (16, 1000, 1024, 7)


def test_sizes_of_a_decoder_among_others_are_its_own(tmp_path: Path) -> None:
    nested = tmp_path / "nested.json"
    nested.write_text(json.dumps({"model_type": "sees", "eos_token_id": 3, "text_config": CONFIG}))
    target = read_options(["--config", str(nested)]).target
    assert (target.hidden, target.layers, target.vocab, target.dtype) == (128, 6, 1000, "bfloat16")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{}", "says no hidden_size"),
        (json.dumps({**CONFIG, "num_hidden_layers": None}), "says no num_hidden_layers;"),
        (json.dumps({"text_config": {**CONFIG, "hidden_size": 64.5}}), "hidden_size is 64.5"),
        ("[" * 100_000, "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_a_config_without_sizes_is_refused_and_none_is_made_up(
    tmp_path: Path, content: str, named: str
) -> None:
    file = tmp_path / "config.json"
    file.write_text(content)
    with pytest.raises(SettingError) as caught:
        read_options(["--config", str(file)])
    message = str(caught.value)
    assert named in message and str(file) in message and "; " in message


def test_a_draft_has_one_layer_unless_told(config: Path) -> None:
    draft = read_options(["--config", str(config), "--steps", "2"]).draft
    assert draft and (draft.layers, draft.hidden) == (1, 128)


def test_a_draft_vocabulary_may_be_smaller(config: Path, tmp_path: Path) -> None:
    small = tmp_path / "draft.json"
    small.write_text(json.dumps({**CONFIG, "num_hidden_layers": 2, "draft_vocab_size": 320}))
    found = read_options(["--config", str(config), "--draft-config", str(small), "--steps", "2"])
    assert found.draft and (found.draft.layers, found.draft_vocab, found.draft.vocab) == (2, 320, 1000)


def test_plain_wins_over_steps() -> None:
    found = read_options(["--steps", "3", "--plain"])
    assert (found.num_steps, found.num_draft_tokens, found.draft) == (0, 1, None)


def test_batches_are_padded_to_powers_of_two_up_to_the_largest() -> None:
    assert read_options(["--max-batch", "6"]).capture_sizes == (1, 2, 4, 6)
    assert read_options(["--max-batch", "6", "--capture-sizes", "3"]).capture_sizes == (3, 6)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--tp", "4", "--draft-tp", "3"], "--draft-tp 3"),
        (["--tp", "3"], "--tp 3"),
        (["--steps", "-1"], "--steps is -1"),
        (["--max-batch", "0"], "--max-batch is 0"),
        (["--capture-sizes", "x"], "--capture-sizes x"),
        (["--config", "nowhere.json"], "nowhere.json"),
        (["--steps", "1", "--accept-by-position", "0.1,0.2"], "rises"),
        (["--hidden", "6", "--heads", "2"], "head of 3"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(arguments: list[str], named: str) -> None:
    with pytest.raises(SettingError) as caught:
        read_options(arguments)
    assert named in str(caught.value) and "\n" not in str(caught.value)


def test_a_refusal_ends_with_code_2_before_a_rank_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tp", "2", "--draft-tp", "5"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
