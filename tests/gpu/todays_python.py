"""Names that DI-engine 0.5.3 and gym 0.25.1 take from NumPy 1. Imported at each start of Python
(run.sh).
"""

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
