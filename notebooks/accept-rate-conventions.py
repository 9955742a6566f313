# %% [markdown]
# # What does "accept rate 0.36" mean?
#
# Three numbers go by that name. In the case this project was started for, everybody took it for the chance
# that a draft is right, 1.6 tokens a cycle. It was 2.2.

# %%
from pathlib import Path

import pandas as pd

from toolkit import figures, fit, inspect, log_lines, predict, rate_readings
from toolkit.report import frames

root = Path(".") if Path("traces").is_dir() else Path("..")
traces = root / "traces"

# %% [markdown]
# ## Three readings of one number
#
# 5 steps, 6 draft tokens (the root counts). SGLang up to 0.5.9 prints accept length / draft tokens; since
# 0.5.11, and in vLLM, it is correct / proposed drafts; papers often mean the chance that a draft is right,
# given that those before it were.

# %%
old = rate_readings(0.36, 6, "length/tokens")
new = rate_readings(0.36, 6, "correct/proposed")
readings = {
    "length / tokens (old SGLang)": old["log"],
    "correct / proposed (SGLang, vLLM)": new["log"],
    "chance of each draft": old["conditional"],
}
pd.Series(readings, name="tokens a cycle").round(2).to_frame()

# %% [markdown]
# ## The lines themselves settle it
#
# SGLang prints accept length and accept rate side by side. Only one reading fits both.

# %%
lines = pd.DataFrame(log_lines(root / "tests/data/kimi-k2.5-tp8/server.log"))
lines = lines[lines.accept_rate.notna()][["accept_length", "accept_rate", "tok_s"]]
lines["length / rate"] = lines.accept_length / lines.accept_rate
lines["(length - 1) / rate"] = (lines.accept_length - 1) / lines.accept_rate
lines.round(2)

# %% [markdown]
# 6 draft tokens, twice: the rate is length / tokens. The other reading would need 3.25 and 2.32 drafts. In
# the recorded runs of SGLang 0.5.15 it is the other way round:

# %%
names = ["2026-11-29-sglang-llama8b-dummy-tp1-k5-b1-long", "2026-11-30-sglang-llama8b-dummy-tp1-k2-b1"]
recorded = inspect([traces / name for name in names])
found = [(run, run.configurations[0].acceptance) for run in recorded.runs]
names = ["num_steps", "accept_length", "rate", "rate_kind"]
table = [(run.num_steps, one.accept_length, one.rate, one.rate_kind) for run, one in found]
pd.DataFrame(table, columns=names).round(3)

# %% [markdown]
# ## What a wrong reading costs
#
# The same number asked of the same model, read each way. The forecast repeats how it was read.

# %%
model = fit(root / "tests/data/kimi-k2.5-tp8")
forecasts = {
    kind: predict(model, accept_rate=0.36, rate_kind=kind) for kind in ("log", "draft", "conditional")
}
five = [frames.candidates(one).query("num_steps == 5").assign(kind=kind) for kind, one in forecasts.items()]
pd.concat(five)[["kind", "accept_length", "tok_s", "plain_tok_s", "break_even"]].round(2)

# %% [markdown]
# Read as a share of drafts, speculation seems to pay; it does not.

# %%
figures.accept_length_map_figure(forecasts["log"])

# %% [markdown]
# ## By position
#
# A rate is one number for a curve. Where an engine counts drafts by position (vLLM does), the curve itself
# is there, and with it what other step counts would keep. These runs simulate acceptance, so the curve is a
# step.

# %%
vllm = inspect(sorted(traces.glob("2026-11-30-vllm-llama8b-dummy-tp1-k[135]-b1")))
figures.acceptance_figure(figures.with_positions(vllm)[0])

# %%
frames.acceptance_by_position(vllm)[["num_steps", "position", "share", "lo", "hi", "hazard"]].round(3)
