"""Names that DI-engine 0.5.3 and gym 0.25.1 take from NumPy 1, and a module that DI-engine imports
and does not use here. Imported at each start of Python (run.sh).
"""

import sys
import types

import numpy as np

for _name, _value in {
    "bool8": np.bool_,
    "float_": np.float64,
    "Inf": np.inf,
    "NaN": np.nan,
    "product": np.prod,
}.items():
    if not hasattr(np, _name):
        setattr(np, _name, _value)

sys.modules.setdefault("wandb", types.ModuleType("wandb"))
