# %% [markdown]
# # Should the draft run on fewer GPUs?
#
# A draft model is small, so its all-reduces weigh more than the target's do, and on one GPU it needs none.
# Against that, one GPU then reads all of its weights. Which is larger is a matter of the host's
# collectives, and can be told from runs at one draft TP and a calibration of the host. Here it is told, and
# then measured: the reference engine on two H200, with a draft of 0.77 GB and one of 0.27 GB.

# %%
from pathlib import Path

import pandas as pd

from toolkit import check, figures, fit, inspect, predict
from toolkit.report import frames

root = Path(".") if Path("traces").is_dir() else Path("..")
data = root / "tests/data/draft-tp"

# %% [markdown]
# ## What the host can do
#
# The calibration timed all-reduces without a server. A message of a draft forward at batch 1 is 8 KB:
# latency is all there is, and algorithms differ by a factor of five.

# %%
calibrated = inspect(data / "calibration-eagle").runs[0].calibration
figures.allreduce_figure(calibrated)

# %%
forwards = frames.forward_times(calibrated).query("kind == 'draft_step' and batch_size == 1")
forwards[["tp_size", "algorithm", "compute_us", "total_us", "all_reduces", "weight_bytes"]].round(1)

# %% [markdown]
# ## Asked before it is measured
#
# Runs with the draft on both GPUs, plain decoding and the calibration: what would the draft on one GPU do?
# All-reduces are NCCL's here.

# %%
model = fit(inspect([data / "nccl-d2", data / "plain", data / "calibration-eagle"]))
asked = {"accept_length": 2.0, "at_num_draft_tokens": 4, "current_steps": 3, "steps": (3,), "anyway": True}
forecast = predict(model, batch_size=1, **asked)
figures.draft_tp_figure(forecast)

# %%
print(forecast.draft_tp.why)

# %% [markdown]
# ## Then measured

# %%
measured = check(model, inspect(data / "nccl-d1"))
figures.checked_figure(measured)

# %% [markdown]
# ## Both drafts, both ways to reduce
#
# `gain` is what the forecast expects of the draft on one GPU, in tokens per second, `measured` what two
# servers then did.

# %%
cases = {"nccl": "eagle", "one": "eagle", "small": "small", "small-one": "small"}
rows = []
for case, calibration in cases.items():
    own = fit(inspect([data / f"{case}-d2", data / "plain", data / f"calibration-{calibration}"]))
    for batch in (1, 8):
        sizes = frames.draft_tps(predict(own, batch_size=batch, **asked)).query("draft_tp == 1")
        both = frames.cycles(inspect([data / f"{case}-d{tp}/b{batch}" for tp in (2, 1)]))
        two, one = both[both.batch_size == batch].cycle_mean_us
        rows.append(sizes.assign(case=case, batch=batch, measured=two / one - 1))
gains = pd.concat(rows).set_index(["case", "batch"])
gains[["draft_ms", "gain", "gain_lo", "gain_hi", "measured"]].round(3)

# %% [markdown]
# ## The most that it could give
#
# On SGLang at TP 4 the draft is a small part of the cycle, and the host's floor hides some of it. A draft
# that costs nothing at all bounds whatever a draft TP could gain.

# %%
tp4 = inspect(sorted((root / "traces").glob("2026-11-30-sglang-llama-8b-shaped-dummy-tp4-k*")))
bound = predict(fit(tp4), accept_length=2.0, at_num_draft_tokens=4, batch_size=1).draft_tp
print(bound.why)

# %% [markdown]
# ## What it means
#
# First ask what a free draft would gain; only where that is worth having does the draft's TP matter. Then
# it is a question of a few percent, and its sign depends on the draft: the large one loses more by reading
# all of its weights than it saves in all-reduces, the small one does not.
