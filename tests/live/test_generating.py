"""Counters of requests are the same whatever the engine calls them."""

from __future__ import annotations

from toolkit.live.generating import pooled_count, request_count, spec_counters
from toolkit.schema.client import RequestCount

EXPECTED = RequestCount(
    output_tokens=10,
    verify_cycles=4,
    num_correct_drafts=6,
    num_proposed_drafts=12,
    correct_drafts_histogram=(1, 1, 1, 1),
)


def test_counters_before_and_after_their_names_changed_are_read_alike() -> None:
    old = {"spec_accept_token_num": 6, "spec_draft_token_num": 12, "spec_accept_histogram": [1, 1, 1, 1]}
    new = {
        "spec_num_correct_drafts": 6,
        "spec_num_proposed_drafts": 12,
        "spec_correct_drafts_histogram": [1, 1, 1, 1],
    }
    both = {"completion_tokens": 10, "spec_verify_ct": 4}
    assert request_count({**both, **old}) == EXPECTED
    assert request_count({**both, **new}) == EXPECTED


def test_plain_decoding_counts_tokens_alone() -> None:
    assert request_count({"completion_tokens": 7, "spec_verify_ct": 0}) == RequestCount(output_tokens=7)


METRICS = """# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 4.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 12.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 6.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 3.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 2.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="2"} 1.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",model_name="m",position="2"} 1.7e+09
"""


def test_counters_of_a_server_become_one_pooled_entry() -> None:
    grown = {name: round(value) for name, value in spec_counters(METRICS).items()}
    assert pooled_count(10, grown) == EXPECTED
    assert pooled_count(10, {}) == RequestCount(output_tokens=10)
