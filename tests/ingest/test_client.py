"""client.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolkit.errors import BadInputError
from toolkit.ingest.client import read_client, write_client
from toolkit.schema.client import ClientRepeat, ClientResult, RequestCount

LOAD = ClientResult(
    batch_size=4,
    prompt_tokens=64,
    repeats=(ClientRepeat(seconds=2.5, output_tokens=2048),),
    requests=(
        RequestCount(
            output_tokens=512,
            verify_cycles=236,
            num_correct_drafts=276,
            num_proposed_drafts=708,
            correct_drafts_histogram=(0, 196, 40),
        ),
    ),
)


def test_what_is_written_is_read_back_schema_first(tmp_path: Path) -> None:
    path = tmp_path / "client.json"
    write_client(path, LOAD)
    assert read_client(path) == LOAD
    assert next(iter(json.loads(path.read_text()))) == "schema"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": "four"}, "batch_size"),
        ({"repeats": [{"seconds": -1, "output_tokens": 3}]}, r"repeats\[0\].seconds"),
        ({"repeats": [{"seconds": 1}]}, "output_tokens"),
        ({"requests": [{"correct_drafts_histogram": [1, -2]}]}, r"requests\[0\].correct_drafts_histogram"),
        ({"requests": [{"num_correct_drafts": 9, "num_proposed_drafts": 3}]}, "9 of 3 proposed"),
        ({"schema": "toolkit.client/9"}, "newer toolkit"),
        ({"schema": None}, "no toolkit schema"),
    ],
)
def test_a_value_that_cannot_be_is_named(tmp_path: Path, change: dict[str, object], key: str) -> None:
    path = tmp_path / "client.json"
    path.write_text(json.dumps({"schema": "toolkit.client/1", **change}))
    with pytest.raises(BadInputError, match=key) as error:
        read_client(path)
    assert str(path) in str(error.value)
