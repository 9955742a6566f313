"""A group that was read from a file, as the arrays that forecasts compute with."""

from __future__ import annotations

import numpy as np

from toolkit.model.cell import setting_of
from toolkit.model.fitted import Fitted, support_of
from toolkit.model.residuals import with_residuals
from toolkit.schema.cost import GroupModel


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
    measured = [(setting_of(cell), cell.cycle_us, cell.wire_us) for cell in group.cells if cell.cycle_us]
    return with_residuals(fitted, measured)
