"""Programs: models that are compiled, opened in this process."""

import os

import numpy

from . import _core
from .errors import UsageError
from .flags import flags_of

StepResult = _core.StepResult


def _array(name, value):
    """What the library reads without a copy, if it can: an array of NumPy, or anything with DLPack."""
    device = str(getattr(value, "device", "cpu"))
    if not device.startswith("cpu"):
        raise UsageError(f"array '{name}' is on the device {device}; it has to be on the processor")
    if hasattr(value, "detach"):
        value = value.detach()  # a tensor of PyTorch, which has no DLPack while it wants a gradient
    if hasattr(value, "contiguous"):
        value = value.contiguous()
    if hasattr(value, "__dlpack__") and not isinstance(value, numpy.ndarray):
        return value
    return numpy.ascontiguousarray(value)


def _dtype(name):
    if name != "bfloat16":
        return numpy.dtype(name)
    try:
        import ml_dtypes
        return numpy.dtype(ml_dtypes.bfloat16)
    except ImportError:
        raise UsageError("tensors of bfloat16 need the package ml_dtypes") from None


class Program:
    """A model that runs, as a pipeline, on threads of this process.

    Arrays are those of NumPy, or whatever has DLPack, on the processor; contiguous ones are not copied. Calls release the
    interpreter's lock; those of one program wait for each other.
    """

    def __init__(self, path, *, trains=True, schedule=None, groups=None, set=None, _folder=None, **options):
        """Opens a shared object of compile(output=...) or `pp-compile --emit=library`. Options: see compile()."""
        flags = flags_of(options)
        if schedule is not None:
            flags += flags_of(schedule.options())
        for group in [groups] if isinstance(groups, str) else groups or ():
            flags += [f"--group={group}"]
        if set:
            flags += flags_of({"set": set})
        self._folder = _folder  # lives as long as the program
        self._open = _core.Program(os.fspath(path), trains, flags)
        self.trains = trains
        #: The last step that was waited for, a StepResult.
        self.last = None

    # What goes in and comes out.

    @property
    def batch_size(self):
        return self._open.batch_size

    @property
    def inputs(self):
        """The names of what a step of training takes, or inference, in order."""
        return [port[0] for port in self._open.inputs(self.trains)]

    @property
    def outputs(self):
        return [port[0] for port in self._open.outputs()]

    def _named(self, arrays, named, ports):
        if len(arrays) == 1 and isinstance(arrays[0], dict):
            named, arrays = {**arrays[0], **named}, ()
        names = [port[0] for port in ports]
        if len(arrays) > len(names):
            raise UsageError(f"there are {len(arrays)} arrays for the inputs {', '.join(names)}")
        pairs = list(zip(names, arrays)) + list(named.items())
        return [(name, _array(name, value)) for name, value in pairs]

    def _training(self, arrays, named):
        return self._named(arrays, named, self._open.inputs(True))

    # Training.

    def train_step(self, *arrays, **named):
        """One step on up to a batch of samples, in the order of `inputs` or by name; returns the loss."""
        self.last = self._open.train_step(self._training(arrays, named))
        return self.last.loss

    def submit(self, *arrays, **named):
        """Begins a step and returns, so that the pipeline stays full; wait() gives its result."""
        self._open.submit(self._training(arrays, named))

    def wait(self):
        """The result of the oldest step that was submitted."""
        self.last = self._open.wait()
        return self.last

    @property
    def steps_in_flight(self):
        return self._open.steps_in_flight

    @property
    def most_steps_in_flight(self):
        return self._open.most_steps_in_flight

    def train(self, *arrays, epochs=1, shuffle=True, progress=None, **named):
        """`epochs` times all samples, as `program train` does. `progress(result)` is called after each step; if it returns
        False, training ends."""
        report = None
        if progress is not None:
            def report(result):
                self.last = result
                return progress(result) is False
        self._open.train(self._training(arrays, named), epochs, shuffle, report)

    @property
    def learning_rate(self):
        return self._open.get_scalar("lr")

    @learning_rate.setter
    def learning_rate(self, rate):
        self._open.set_scalar("lr", rate)

    def get_scalar(self, name):
        """A value of the optimizer, such as weight_decay."""
        return self._open.get_scalar(name)

    def set_scalar(self, name, value):
        self._open.set_scalar(name, value)

    # Inference.

    def infer(self, *arrays, **named):
        """The outputs for any number of samples: an array, or a dictionary if there are several."""
        ports = self._open.inputs(False)
        given = self._named(arrays, named, ports)
        batched = {port[0] for port in ports if port[3]}
        samples = next((array.shape[0] for name, array in given if name in batched and len(array.shape)), self.batch_size)
        results = {}
        for name, dtype, shape, is_batched, _ in self._open.outputs():
            shape = (samples, *shape[1:]) if is_batched else tuple(shape)
            results[name] = numpy.empty(shape, _dtype(dtype))
        self._open.infer(given, list(results.items()))
        return next(iter(results.values())) if len(results) == 1 else results

    __call__ = infer

    def evaluate(self, *arrays, metrics, **named):
        """{metric: value} of the model's only output, or that of the first loss, against its targets: accuracy, top5, f1,
        cross_entropy, perplexity, mse, mae."""
        metrics = [metrics] if isinstance(metrics, str) else list(metrics)
        ports = self._open.inputs(True) if self.trains else [*self._open.inputs(False), ("target",)]
        return dict(zip(metrics, self._open.evaluate(self._named(arrays, named, ports), metrics)))

    # Weights.

    def state_dict(self):
        """{name: array}, copies: parameters, and what training changes besides."""
        return {name: self._read(self._open.get_weight, name, dtype, shape) for (name, dtype, shape), _ in self._open.weights()}

    def load_state_dict(self, values):
        """Takes weights by name. All that the program has must be there."""
        known = {weight[0] for weight, _ in self._open.weights()}
        if missing := sorted(known - set(values)):
            raise UsageError(f"there are no values for {', '.join(missing)}")
        for name in sorted(known):
            self._open.set_weight(name, _array(name, values[name]))

    def gradients(self):
        """{name: array} of the last step, before they are clipped."""
        return {name: self._read(self._open.get_gradient, name, dtype, shape)
                for (name, dtype, shape), is_trained in self._open.weights() if is_trained}

    @staticmethod
    def _read(read, name, dtype, shape):
        array = numpy.empty(shape, _dtype(dtype))
        read(name, array)
        return array

    def to_torch(self, module):
        """Copies the weights into a module of PyTorch whose parameters and buffers have the same names, and returns it."""
        import torch
        own = module.state_dict()
        weights = self.state_dict()
        if unknown := sorted(set(weights) - set(own)):
            raise UsageError(f"the module has nothing named {', '.join(unknown)}")
        module.load_state_dict({**own, **{name: torch.from_numpy(array) for name, array in weights.items()}})
        return module

    # Files.

    def save(self, path):
        """A snapshot (.safetensors) that load() goes on from, with the same bits."""
        self._open.save(os.fspath(path))

    def load(self, path):
        self._open.load(os.fspath(path))

    def load_weights(self, path):
        """Weights from any .safetensors file that has the names and shapes."""
        self._open.load_weights(os.fspath(path))

    def export(self, path, model=None):
        """Writes the ONNX model with the trained weights, for inference."""
        self._open.export(os.fspath(path), "" if model is None else os.fspath(model))

    def close(self):
        """Ends the pipeline and frees its memory."""
        self._open.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
