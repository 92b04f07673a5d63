"""Two ranks under mpirun, which join once in a process: both runs give the bits of one rank."""

import numpy

import lockstep

x = numpy.random.default_rng(0).normal(size=(512, 8)).astype(numpy.float32)
model = lockstep.Model({
    "model": {"input": [8], "layers": [{"dense": {"units": 2}}], "loss": "cross-entropy"},
    "train": {"batch": 32, "epochs": 2},
    "parallel": {"backend": "cpu", "threads": 1, "reproducible": True},
})
whole = model.fit(x, x[:, 0] > 0).report
model.begin(x, x[:, 0] > 0)
while model.step().left > 0:
    pass
steps = model.finish().report
print(whole["world_size"], whole["params_xxh3"], steps["params_xxh3"], flush=True)
