"""The package's models: the same bits as the program, a step a call or a whole run."""

import array
import gc
import json
import logging
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading

import numpy
import pytest

import lockstep
from lockstep import _buffers

CLASSES = 10


@pytest.fixture(scope="module")
def digits():
    """600 pictures of 8 x 8 with a stripe where the class says, and noise."""
    rng = numpy.random.default_rng(7)
    y = rng.integers(0, CLASSES, 600)
    x = rng.normal(0, 0.4, (600, 64))
    for row, label in enumerate(y):
        x[row, 6 * label : 6 * label + 6] += 1
    return x.astype(numpy.float32), y


def config(**train):
    return {
        "model": {"input": [64], "loss": "cross-entropy",
                  "layers": [{"dense": {"units": 24, "activation": "relu", "dropout": 0.1}}, {"dense": {"units": CLASSES}}]},
        "data": {"validation": 0.2, "normalize": True},
        "train": {"batch": 32, "epochs": 3, "seed": 5, "optimizer": {"name": "adam", "lr": 0.01}, **train},
        "parallel": {"backend": "cpu", "threads": 1, "strategy": "single"},
    }


def of_files(folder, x, y, **train):
    """The configuration with the samples in files: that of the program."""
    numpy.save(folder / "x.npy", x)
    numpy.save(folder / "y.npy", y)
    c = config(**train)
    c["data"].update(kind="npy", features=str(folder / "x.npy"), targets=str(folder / "y.npy"))
    path = folder / "c.yaml"
    path.write_text(json.dumps(c))
    return path


def program(*arguments):
    done = subprocess.run([os.environ["LOCKSTEP_PROGRAM"], *map(str, arguments)], capture_output=True, text=True, check=True)
    return done.stdout


def test_fit_gives_the_bits_of_the_program(digits, tmp_path):
    x, y = digits
    path = of_files(tmp_path, x, y)
    expected = json.loads(program("train", path, "--json", "--quiet"))
    for model in lockstep.Model(config()).fit(x, y), lockstep.Model(path).fit(), lockstep.Model(path.read_text()).fit():
        for name in "train_loss", "val_loss", "val_accuracy", "params_xxh3", "steps":
            assert model.report[name] == expected[name], name
    assert expected["val_accuracy"] > 0.8


def test_steps_are_those_of_fit(digits):
    x, y = digits
    whole = lockstep.Model(config()).fit(x, y).report
    model = lockstep.Model(config()).begin(x, y)
    step = model.step()
    assert (step.step, step.applied, step.loss) == (1, True, whole["train_loss_first"])
    while step.left > 0:
        step = model.step()
        if step.step % 10 == 0:
            assert model.predict(x[:7]).shape == (7, CLASSES)
    assert step.step == whole["steps"]
    with pytest.raises(lockstep.Error, match="no step left") as caught:
        model.step()
    assert caught.value.status == "LS_ERR_ARGUMENT"
    assert model.finish().report["params_xxh3"] == whole["params_xxh3"]


@pytest.mark.skipif("LOCKSTEP_STAND_IN" not in os.environ, reason="no stand-in for a GPU")
def test_steps_on_a_device_that_runs_behind_the_hosts_back(digits, monkeypatch):
    """With memory of its own, and steps that are captured: ref's bits, with parameters got and set on the way."""
    x, y = digits
    monkeypatch.setenv("LOCKSTEP_CUDA_MODULE", os.environ["LOCKSTEP_STAND_IN"])
    expected = lockstep.Model(config(accumulate=2), parallel__backend="ref").fit(x, y).report["params_xxh3"]
    model = lockstep.Model(config(accumulate=2), parallel__backend="cuda").begin(x, y)
    while model.step().left > 0:
        model.predict(x[:3])
        model.set_parameters({name: value.copy() for name, value in model.parameters().items()})
    report = model.finish().report
    assert (report["backend"], report["params_xxh3"]) == ("cuda", expected)


def test_a_saved_run_predicts_as_the_program_does(digits, tmp_path):
    x, y = digits
    path = of_files(tmp_path, x, y)
    model = lockstep.Model(path, train__checkpoint__dir=str(tmp_path / "run")).begin()
    for _ in range(10):
        model.step()
    assert model.save().startswith(str(tmp_path / "run" / "step-"))
    expected = model.predict(x[:50])
    assert (lockstep.Model.load(tmp_path / "run").predict(x[:50]) == expected).all()
    numpy.save(tmp_path / "some.npy", x[:50])
    program("predict", path, "--checkpoint", tmp_path / "run", "--input", tmp_path / "some.npy", "--output", tmp_path / "p.npy")
    assert (numpy.load(tmp_path / "p.npy") == expected).all()
    model.close()
    rest = lockstep.Model(path, train__checkpoint__dir=str(tmp_path / "run")).fit(resume=True).report
    assert rest["resumed_from_step"] == 10
    assert rest["params_xxh3"] == lockstep.Model(config()).fit(x, y).report["params_xxh3"]


def test_parameters_are_views_that_outlive_the_model(digits):
    x, y = digits
    model = lockstep.Model(config()).begin(x, y)
    before = {name: value.copy() for name, value in model.parameters().items()}
    assert {name: value.shape for name, value in before.items()} == {
        "layers.0.bias": (24,), "layers.0.weight": (24, 64), "layers.1.bias": (10,), "layers.1.weight": (10, 24)}
    model.step()
    views = model.parameters()
    assert not numpy.array_equal(views["layers.0.weight"], before["layers.0.weight"])
    model.set_parameters(before)
    assert all(numpy.array_equal(model.parameters()[name], value) for name, value in before.items())
    with pytest.raises(ValueError):
        views["layers.0.bias"][0] = 1
    with pytest.raises(ValueError, match="has shape"):
        model.set_parameters({"layers.0.bias": numpy.zeros((24, 1))})
    with pytest.raises(lockstep.Error, match="layers.9.bias") as caught:
        model.set_parameters({"layers.9.bias": numpy.zeros(24)})
    assert caught.value.status == "LS_ERR_NOT_FOUND"
    del model
    gc.collect()
    assert numpy.array_equal(views["layers.0.weight"], before["layers.0.weight"])


def test_targets_and_bytes(digits):
    x, y = digits
    regression = config()
    regression["model"] = {"input": [64], "loss": "mse", "layers": [{"dense": {"units": 2}}]}
    assert lockstep.Model(regression).fit(x, x[:, :2].astype(float)).predict(x).shape == (600, 2)
    expected = lockstep.Model(config()).fit(x, y).report["params_xxh3"]
    for kind in numpy.uint8, numpy.int16, float:  # classes by the loss, not by the kind of number
        assert lockstep.Model(config()).fit(x, y.astype(kind)).report["params_xxh3"] == expected
    pictures = (x * 40 + 100).clip(0, 255).astype(numpy.uint8).reshape(600, 8, 8)
    assert lockstep.Model(config()).fit(pictures, y).report["val_accuracy"] > 0.8


@pytest.mark.parametrize("change, status, words", [
    ({"train__batchh": 1}, "LS_ERR_CONFIG", "did you mean `batch`"),
    ({"model__loss": "mae"}, "LS_ERR_CONFIG", "mae"),
    ({"train__batch": -3}, "LS_ERR_CONFIG", "train.batch"),
])
def test_a_bad_configuration_raises_the_librarys_words(change, status, words):
    with pytest.raises(lockstep.Error, match=words) as caught:
        lockstep.Model(config(), **change)
    assert caught.value.status == status


def test_bad_samples_raise(digits):
    x, y = digits
    model = lockstep.Model(config())
    for bad in (x[0], y), (x, y[:5]), (x, y + 0.5), (x, y + 2**32), (x, y * numpy.nan), (x, y.reshape(600, 1)):
        with pytest.raises(ValueError):
            model.fit(*bad)
    with pytest.raises(lockstep.Error) as caught:
        model.fit(x, y + CLASSES)
    assert caught.value.status == "LS_ERR_DATA"
    with pytest.raises(lockstep.Error, match="no trainer"):
        model.predict(x)
    with pytest.raises(ValueError, match="rows of 64"):
        model.fit(x, y).predict(x[:, :3])
    with pytest.raises(lockstep.Error) as caught:
        lockstep.Model("/nowhere/c.yaml")
    assert caught.value.status == "LS_ERR_NOT_FOUND"


def press_ctrl_c_once_there_is(path):
    while not path.exists():
        threading.Event().wait(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_the_run_cleanly(digits, tmp_path):
    x, y = digits
    model = lockstep.Model(config(epochs=10**6), train__checkpoint__dir=str(tmp_path / "run"))
    press = threading.Thread(target=press_ctrl_c_once_there_is, args=[tmp_path / "run" / "config.json"])
    press.start()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y)
    press.join()
    assert signal.getsignal(signal.SIGINT) is before
    assert os.path.isdir(model.report["checkpoint"])
    assert model.predict(x[:2]).shape == (2, CLASSES)
    folder = model.config["train"]["checkpoint"]["dir"]
    del model  # gives up the lock at once
    assert lockstep.Model(config(epochs=10**6), train__checkpoint__dir=folder).begin(x, y, resume=True).step().applied


def test_messages_go_to_logging(digits, caplog):
    x, y = digits
    with caplog.at_level(logging.INFO, "lockstep"):
        lockstep.Model(config(prune={"sparsity": 0.5, "end": 10**6})).fit(x, y)
    assert any(record.name == "lockstep" for record in caplog.records)


def test_without_numpy_buffers_and_lists_serve(digits, monkeypatch):
    x, y = digits
    expected = lockstep.Model(config()).fit(x, y)
    probabilities = expected.predict(x[:4]).tolist()
    monkeypatch.setattr(_buffers, "numpy", None)
    for given in (memoryview(x), memoryview(y)), (x.tolist(), y.tolist()):
        model = lockstep.Model(config()).fit(*given)
        assert model.report["params_xxh3"] == expected.report["params_xxh3"]
        assert model.predict(x[:4].tolist()).tolist() == probabilities
    bias = model.parameters()["layers.1.bias"]
    assert bias.shape == (CLASSES,)
    model.set_parameters({"layers.1.bias": array.array("f", range(CLASSES))})
    assert model.parameters()["layers.1.bias"].tolist() == list(map(float, range(CLASSES)))


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun")
def test_ranks_give_the_bits_of_one():
    script = [sys.executable, "-B", str(pathlib.Path(__file__).with_name("ranks.py"))]
    several = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", *script]
    one, two = (subprocess.run(c, capture_output=True, text=True, check=True).stdout.split() for c in (script, several))
    assert one[0] == "1" and two[0] == "2"
    assert set(one[1:]) == set(two) - {"2"}


def test_the_page_runs(digits, capsys):
    """The blocks of docs/python.md, in their order."""
    page = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
    names = dict(zip("Xy", digits))
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(block, names)
    assert float(capsys.readouterr().out) > 0.8
    assert names["probabilities"].shape == (600, CLASSES)


def test_a_missing_library_is_named():
    done = subprocess.run([sys.executable, "-c", "import lockstep"], capture_output=True, text=True,
                          env={**os.environ, "LOCKSTEP_LIBRARY": "/nowhere/liblockstep.so"})
    assert "set LOCKSTEP_LIBRARY" in done.stderr and "/nowhere/liblockstep.so" in done.stderr
