"""A group that was read from a file, as the arrays that forecasts compute with."""

from __future__ import annotations

import numpy as np

from toolkit.model.fitted import Fitted, support_of
from toolkit.model.residuals import with_residuals
from toolkit.model.terms import Setting
from toolkit.schema.cost import FittedCell, GroupModel


def fitted_of(group: GroupModel, seed: int) -> Fitted:
    """Return the arrays of a group, with the residuals of its cells."""
    width = len(group.columns)
    fitted = Fitted(
        engine=group.engine,
        columns=group.columns,
        norms=np.array(group.norms),
        solution=np.array(group.solution),
        null=np.array(group.null_space).reshape(-1, width),
        vertices=np.array(group.vertices).reshape(-1, width),
        draws=np.array(group.draws).reshape(-1, width),
        costs=group.collectives,
        noise=group.noise,
        support=support_of(group.cells),
        seed=seed,
    )
    measured = [(setting_of_cell(cell), cell.cycle_us, cell.wire_us) for cell in group.cells if cell.cycle_us]
    return with_residuals(fitted, measured)


def setting_of_cell(cell: FittedCell) -> Setting:
    """Return what the time of a fitted cell depends on."""
    return Setting(
        num_steps=cell.num_steps,
        num_draft_tokens=cell.num_draft_tokens,
        topk=cell.topk,
        batch_size=cell.padded_batch_size,
        context_tokens=cell.context_tokens,
        overlap=cell.overlap,
    )
