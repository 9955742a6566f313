"""The arithmetic of a cycle, on one rank in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from toolkit.reference.batch import Batch, Request  # noqa: E402
from toolkit.reference.cycle import Cycle, CycleResult  # noqa: E402
from toolkit.reference.decoder import Where  # noqa: E402
from toolkit.reference.groups import join_groups  # noqa: E402
from toolkit.reference.model import Model, make_cycle, make_model  # noqa: E402
from toolkit.reference.options import read_options  # noqa: E402
from toolkit.reference.tracing import Tracer  # noqa: E402

CPU = torch.device("cpu")
PROMPT = list(range(5, 45))


@pytest.fixture(autouse=True)
def as_in_a_rank() -> Iterator[None]:
    torch.set_num_threads(1)
    with torch.no_grad():
        yield


def made(*arguments: str) -> tuple[Model, Cycle]:
    options = read_options(arguments)
    model = make_model(options, join_groups(0, 1, 1, CPU, None), CPU)
    return model, make_cycle(options, model, Tracer(0))


def generated(model: Model, cycle: Cycle, prompts: list[list[int]], cycles: int) -> list[list[int]]:
    """Return what each row generates in that many cycles, prefill included."""
    state = model.passes.state
    for row, prompt in enumerate(prompts):
        model.passes.prefill(row, torch.tensor(prompt), len(prompt))
    tokens = [[int(state.root[row])] for row in range(len(prompts))]
    for _ in range(cycles):
        result = cycle.run([len(p) + len(t) for p, t in zip(prompts, tokens, strict=True)])
        for row, found in enumerate(result.tokens):
            tokens[row].extend(found)
    return tokens


def recomputed(arguments: list[str], tokens: list[int]) -> Any:
    """Return the target's hidden states of a whole sequence, in one forward and fresh caches."""
    model, _ = made(*arguments)
    where = Where(torch.arange(len(tokens))[None], len(tokens))
    return model.target.forward(torch.tensor(tokens)[None], where)[1][0]


@pytest.mark.parametrize("num_steps", ["1", "2", "3", "6"])
def test_speculation_gives_the_tokens_of_plain_greedy_decoding(num_steps: str) -> None:
    plain = generated(*made(), [PROMPT], 80)[0]
    drafted = generated(*made("--steps", num_steps), [PROMPT], 30)[0]
    count = min(len(plain), len(drafted))
    assert count > 30 and drafted[:count] == plain[:count]


def test_some_drafts_are_right_and_some_wrong_with_real_acceptance() -> None:
    model, cycle = made("--steps", "3")
    kept: set[int] = set()
    model.passes.prefill(0, torch.tensor(PROMPT), len(PROMPT))
    length = len(PROMPT) + 1
    for _ in range(40):
        result = cycle.run([length])
        length += len(result.tokens[0])
        kept.update(result.correct_drafts)
    assert min(kept) < 3 and max(kept) > 0


@pytest.mark.parametrize("accept", [(), ("--accept-by-position", "0.7,0.5,0.3")])
def test_cached_keys_give_the_hidden_states_of_a_full_recompute(accept: tuple[str, ...]) -> None:
    model, cycle = made("--steps", "3", *accept)
    tokens = generated(model, cycle, [PROMPT], 12)[0]
    last = [*PROMPT, *tokens[:-1]]  # the last token is the next root: not computed yet
    whole = recomputed(["--steps", "3"], last)
    state = model.passes.state
    kept = int(state.correct[0])
    torch.testing.assert_close(state.hidden[0, : kept + 1], whole[-kept - 1 :], atol=1e-5, rtol=1e-4)


def test_the_draft_cache_is_that_of_an_extend_over_everything() -> None:
    model, cycle = made("--steps", "3", "--accept-by-position", "0.7,0.5,0.3")
    tokens = generated(model, cycle, [PROMPT], 12)[0]
    sequence = [*PROMPT, *tokens]
    hidden = recomputed(["--steps", "3"], sequence[:-1])
    fresh, _ = made("--steps", "3")
    assert fresh.draft
    where = Where(torch.arange(len(hidden))[None], len(hidden))
    logits, kept = fresh.draft.forward(torch.tensor(sequence[1:])[None], hidden[None], where)
    torch.testing.assert_close(model.passes.state.draft_hidden[0], kept[0], atol=1e-5, rtol=1e-4)
    assert int(model.passes.state.first_draft[0]) == int(logits[0].argmax())


def test_the_draft_pass_reads_and_writes_the_place_behind_the_last_token() -> None:
    model, cycle = made("--steps", "2", "--accept-by-position", "0.7,0.5")
    tokens = generated(model, cycle, [PROMPT], 12)[0]
    state, sequence = model.passes.state, [*PROMPT, *tokens]
    fresh, _ = made("--steps", "2")
    assert model.draft and fresh.draft
    hidden = torch.cat((recomputed(["--steps", "2"], sequence[:-1]), state.draft_hidden[:1]))
    following = torch.tensor([*sequence[1:], int(state.first_draft[0])])
    where = Where(torch.arange(len(hidden))[None], len(hidden))
    logits, _ = fresh.draft.forward(following[None], hidden[None], where)
    model.passes.draft_pass(1, len(hidden))
    assert state.drafts[0].tolist() == [int(following[-1]), int(logits[0].argmax())]
    for drafted, whole in zip(model.draft.decoder.layers, fresh.draft.decoder.layers, strict=True):
        expected = whole.cache[:, 0, : len(hidden)]
        torch.testing.assert_close(drafted.cache[:, 0, : len(hidden)], expected, atol=1e-5, rtol=1e-4)


def plainly(layer: Any, x: Any, eps: float, theta: float) -> Any:
    """Return attention and feed-forward of one layer, [tokens, hidden], written out head by head."""
    count, dim, kv_heads = len(x), layer.config.head_dim, layer.kv_heads
    normed = x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    query, key, value = (normed @ layer.qkv.weight.T).split([layer.heads * dim, *[kv_heads * dim] * 2], -1)
    heads = []
    for head in range(layer.heads):
        own, shared = slice(head * dim, (head + 1) * dim), head // (layer.heads // kv_heads)
        of_pair = slice(shared * dim, (shared + 1) * dim)
        scores = torch.full((count, count), -torch.inf)
        for late in range(count):
            for early in range(late + 1):
                turned = turn(query[late, own], late, theta), turn(key[early, of_pair], early, theta)
                scores[late, early] = (turned[0] @ turned[1]) / dim**0.5
        heads.append(scores.softmax(-1) @ value[:, of_pair])
    x = x + torch.cat(heads, -1) @ layer.out.weight.T
    normed = x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    gate, up = (normed @ layer.gate_up.weight.T).chunk(2, -1)
    return x + (gate * gate.sigmoid() * up) @ layer.down.weight.T


def turn(head: Any, position: int, theta: float) -> Any:
    """Rotate each pair (i, i + half) of one head as complex numbers."""
    half = len(head) // 2
    angle = position * theta ** (-torch.arange(half) / half)
    turned = torch.complex(head[:half], head[half:]) * torch.polar(torch.ones(half), angle)
    return torch.cat((turned.real, turned.imag))


def test_a_decoder_is_rotary_causal_attention_and_a_gated_feed_forward() -> None:
    model, _ = made("--layers", "2")
    decoder, x = model.target.decoder, torch.randn(7, 64, generator=torch.Generator().manual_seed(1))
    found = decoder.forward(x[None], Where(torch.arange(7)[None], 8))[0]
    for layer in decoder.layers:
        x = plainly(layer, x, decoder.eps, 10000.0)
    expected = x / (x.pow(2).mean(-1, keepdim=True) + decoder.eps).sqrt()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_padding_rows_change_nothing() -> None:
    prompts = [[3, 1, 4], [1, 5, 9, 2, 6], [5, 3]]
    exact = generated(*made("--steps", "2", "--capture-sizes", "1,2,3"), prompts, 15)
    padded = generated(*made("--steps", "2", "--capture-sizes", "8"), prompts, 15)
    assert exact == padded


def test_a_batch_gives_each_request_what_it_gets_alone() -> None:
    prompts = [[3, 1, 4], [1, 5, 9, 2, 6], PROMPT]
    together = generated(*made("--steps", "2"), prompts, 12)
    for prompt, found in zip(prompts, together, strict=True):
        alone = generated(*made("--steps", "2"), [prompt], 12)[0]
        assert found == alone


def test_reading_more_of_the_cache_than_needed_changes_nothing() -> None:
    """Graphs read a fixed number of positions."""
    exact, wide = made("--steps", "2"), made("--steps", "2")
    wide[0].graphs.contexts = (256, 1024)
    assert generated(*exact, [PROMPT], 15) == generated(*wide, [PROMPT], 15)
    assert wide[1].context_read == 256


def test_a_moved_row_goes_on_as_if_it_had_stayed() -> None:
    prompts = [[3, 1, 4], PROMPT]
    model, cycle = made("--steps", "2")
    whole, unmoved = made("--steps", "2")
    stayed = generated(whole, unmoved, prompts, 10)[1]
    tokens = generated(model, cycle, prompts, 5)[1]
    model.move_row(1, 0)
    model.passes.state.clear_row(1)
    for _ in range(5):
        tokens.extend(cycle.run([len(PROMPT) + len(tokens)]).tokens[0])
    assert tokens == stayed
    expected = whole.passes.state.draft_hidden[1]
    torch.testing.assert_close(model.passes.state.draft_hidden[0], expected, atol=1e-5, rtol=1e-4)


def test_a_cycle_says_what_it_ran_as_host_values() -> None:
    model, cycle = made("--steps", "3", "--accept-by-position", "1,1,0")
    for row in range(3):
        model.passes.prefill(row, torch.tensor(PROMPT), len(PROMPT))
    result = cycle.run([41, 41, 41])
    assert (cycle.batch_size, cycle.padded_batch_size, cycle.num_steps) == (3, 4, 3)
    assert (cycle.contexts, cycle.context_read) == ((41, 41, 41), 48)
    assert cycle.correct_drafts == result.correct_drafts == (2, 2, 2)
    assert [len(tokens) for tokens in result.tokens] == [3, 3, 3]
    assert cycle.graph == {"draft": False, "verify": False, "draft_extend": False}


def test_plain_decoding_is_one_phase() -> None:
    model, cycle = made()
    model.passes.prefill(0, torch.tensor(PROMPT), len(PROMPT))
    result = cycle.run([41])
    assert (cycle.graph, result.correct_drafts, len(result.tokens[0])) == ({"decode": False}, (0,), 1)


def request(number: int, tokens: int) -> Request:
    return Request(number, [1, 2], tokens, stop_at=9, num_steps=1)


def test_a_finished_row_is_taken_by_the_last_one() -> None:
    batch = Batch(max_batch=3)
    batch.waiting.extend([request(0, 1), request(1, 5), request(2, 5), request(3, 5)])
    assert [one.number for one in batch.admit()] == [0, 1, 2]
    batch.commit(CycleResult(3, 4, (2, 2, 2), 1, (1, 0, 0), ((4, 5), (6,), (9,)), {}))
    finished, moves = batch.retire()
    assert [one.number for one in finished] == [0, 2]
    assert moves == [(2, 2), (0, 1)]
    assert [one.number for one in batch.running] == [1]
    assert [one.number for one in batch.admit()] == [3]


def test_a_request_ends_at_its_length_or_at_the_end_token() -> None:
    cut, stopped = request(0, 3), request(1, 8)
    cut.add((4, 4, 4, 4))
    stopped.add((4, 9, 4))
    assert (cut.output_ids, cut.finish) == ([4, 4, 4], "length")
    assert (stopped.output_ids, stopped.finish) == ([4, 9], "stop")
