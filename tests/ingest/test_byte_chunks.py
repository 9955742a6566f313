"""Bytes of plain and gzip files come whole; where a stream is damaged, all before the damage comes."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.errors import BadInputError
from toolkit.ingest.byte_chunks import read_chunks

TEXT = b"".join(b'{"ph": "X", "ts": %d},\n' % random.Random(at).randrange(10**9) for at in range(3000))
PACKED = gzip.compress(TEXT, mtime=0)
SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(folder: Path, content: bytes, chunk_bytes: int = 1000) -> tuple[bytes, list[str]]:
    path = folder / "file.gz"
    path.write_bytes(content)
    damage: list[str] = []
    return b"".join(read_chunks(path, damage, chunk_bytes)), damage


def test_a_plain_file_is_told_from_a_gzip_file_by_its_content(tmp_path: Path) -> None:
    assert read(tmp_path, TEXT) == (TEXT, [])
    assert read(tmp_path, PACKED) == (TEXT, [])


def test_a_gzip_file_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    assert read(tmp_path, PACKED + PACKED) == (TEXT + TEXT, [])


def test_zeros_behind_a_gzip_stream_are_padding(tmp_path: Path) -> None:
    assert read(tmp_path, PACKED + b"\0" * 100) == (TEXT, [])


def test_what_follows_a_gzip_stream_and_is_no_gzip_is_reported(tmp_path: Path) -> None:
    content, damage = read(tmp_path, PACKED + b"something else")
    assert content == TEXT
    assert damage == ["file.gz: bytes that are not gzip follow the gzip stream; they were left out"]


@SLOW
@given(keep=st.integers(2, len(PACKED) - 1))
def test_of_a_cut_gzip_file_all_before_the_cut_is_read(tmp_path: Path, keep: int) -> None:
    content, damage = read(tmp_path, PACKED[:keep])
    expected = zlib.decompressobj(31).decompress(PACKED[:keep])
    assert expected.startswith(content)
    assert len(expected) - len(content) < 300  # a reader may hold back the copy it is in: at most 258 bytes
    assert damage == ["file.gz: the gzip stream ends early; what came before the cut was read"]


@SLOW
@given(at=st.integers(10, len(PACKED) - 9), flip=st.integers(1, 255))
def test_of_a_corrupt_gzip_file_all_before_the_damage_is_read(tmp_path: Path, at: int, flip: int) -> None:
    content, damage = read(tmp_path, PACKED[:at] + bytes([PACKED[at] ^ flip]) + PACKED[at + 1 :])
    before = zlib.decompressobj(31).decompress(PACKED[:at])
    assert content.startswith(before)
    # the bits that pad the last byte of the stream mean nothing
    assert len(damage) == (0 if content == TEXT and at == len(PACKED) - 9 else 1)


def test_the_second_member_may_be_the_corrupt_one(tmp_path: Path) -> None:
    broken = bytearray(PACKED)
    broken[-8] ^= 1  # its checksum
    content, damage = read(tmp_path, PACKED + bytes(broken))
    assert content == TEXT + TEXT
    assert damage == ["file.gz: the gzip stream is corrupt; what came before it was read"]


def test_pieces_are_about_as_long_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(b"x" * (3 << 20))
    assert [len(piece) for piece in read_chunks(path, [], 1 << 20)] == [1 << 20] * 3


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"gone cannot be read \(No such file or directory\)"):
        list(read_chunks(tmp_path / "gone", []))


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_grows_while_it_is_read_ends_where_it_ended_at_first(
    tmp_path: Path, packed: bool
) -> None:
    path = tmp_path / "growing"
    content = gzip.compress(b"a" * 3_000_000, compresslevel=0) if packed else b"a" * 3_000_000
    path.write_bytes(content)
    size = 0
    for piece in read_chunks(path, damage := [], 1000):
        size += len(piece)
        if size < 20_000_000:
            with path.open("ab") as file:
                file.write(content)
    assert (size, damage) == (3_000_000, [])
