"""lockstep from Python: trains the networks of lockstep's configurations on arrays, and predicts.

    import lockstep
    model = lockstep.Model({"model": {"input": [64], "layers": [{"dense": {"units": 10}}], "loss": "cross-entropy"}})
    model.fit(X, y, train__epochs=20)
    probabilities = model.predict(X)

Messages of the library go to the logger "lockstep".
"""

from ._library import C as _C
from ._model import Error, Model, Step

__version__: str = _C.ls_version().decode()
__all__ = ["Error", "Model", "Step"]
