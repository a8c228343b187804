"""Programs: steps, inference, weights, files."""

import os
import signal
import threading

import numpy
import pytest

import pp_mlir as pp


def losses_of(program, digits, steps):
    x, y = digits
    return [program.train_step(x[i % 8 * 8:][:8], y[i % 8 * 8:][:8]) for i in range(steps)]


def test_the_example_of_the_documentation(lenet, digits, tmp_path):
    plan = pp.plan(lenet, loss="cross_entropy", batch=32, cores=2)
    assert "micro-batches" in plan.report and plan.json["batch"] == 32 and plan.step_seconds > 0
    program = pp.compile(lenet, plan, optimizer=pp.AdamW(1e-2))
    x, y = digits
    first = program.train_step(x[:32], y[:32])
    for _ in range(20):
        last = program.train_step(x[:32], y[:32])
    assert last < first - 0.2
    assert program.last.step == 21 and program.last.learning_rate == pytest.approx(1e-2)
    program.export(tmp_path / "trained.onnx")
    again = pp.compile(tmp_path / "trained.onnx", batch=64)
    assert not again.trains
    numpy.testing.assert_allclose(again.infer(x), program.infer(x), rtol=1e-4, atol=1e-5)


def test_what_goes_in_and_comes_out(compiled, digits):
    with pp.Program(compiled) as program:
        assert program.batch_size == 8
        assert len(program.inputs) == 2 and "target" in program.inputs
        assert len(program.outputs) == 1
    x, y = digits
    program = pp.Program(compiled)
    by_name = pp.Program(compiled)
    loss = program.train_step(x[:8], y[:8])
    assert by_name.train_step({program.inputs[0]: x[:8]}, target=y[:8]) == loss
    # Fewer samples, other types, and arrays that are not contiguous.
    assert pp.Program(compiled).train_step(numpy.asfortranarray(x[:8].astype("f8")), list(map(int, y[:8]))) == loss
    assert pp.Program(compiled).train_step(x[:3], y[:3].astype("i4")) > 0
    program.close()
    with pytest.raises(pp.UsageError, match="closed"):
        program.infer(x)


def test_steps_in_flight(compiled, digits):
    x, y = digits
    program = pp.Program(compiled)
    results = []
    for i in range(8):
        if program.steps_in_flight == program.most_steps_in_flight:
            results.append(program.wait().loss)
        program.submit(x[i * 8:][:8], y[i * 8:][:8])
    while program.steps_in_flight:
        results.append(program.wait().loss)
    assert results == losses_of(pp.Program(compiled), digits, 8)


def test_all_samples_and_progress(compiled, digits, tmp_path):
    x, y = digits
    whole = pp.Program(compiled, seed=3)
    losses = []
    whole.train(x, y, epochs=3, progress=lambda result: losses.append(result.loss))
    assert len(losses) == 24
    part = pp.Program(compiled, seed=3)
    seen = []
    part.train(x, y, epochs=3, progress=lambda result: seen.append(result.loss) or len(seen) < 16)
    part.save(tmp_path / "part.safetensors")
    rest = pp.Program(compiled)
    rest.load(tmp_path / "part.safetensors")
    with pytest.raises(KeyError, match="mine"):
        rest.train(x, y, progress=lambda result: {}["mine"])
    rest = pp.Program(compiled)
    rest.load(tmp_path / "part.safetensors")
    rest.train(x, y, epochs=5, progress=lambda result: seen.append(result.loss) or result.step < 24)
    assert seen[:24] == losses


def test_an_interrupt_ends_a_training(compiled, digits):
    program = pp.Program(compiled)
    # Who is started in the background ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            program.train(*digits, epochs=10**5)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert program.train_step(digits[0][:8], digits[1][:8]) > 0


def test_inference_and_metrics(compiled, digits):
    x, y = digits
    program = pp.Program(compiled)
    losses_of(program, digits, 10)
    outputs = program(x[:13])
    assert outputs.shape == (13, 10) and outputs.dtype == numpy.float32
    expected = (outputs.argmax(1) == y[:13]).mean()
    shifted = outputs - outputs.max(1, keepdims=True)
    cross_entropy = -(shifted - numpy.log(numpy.exp(shifted).sum(1, keepdims=True)))[range(13), y[:13]].mean()
    measured = program.evaluate(x[:13], y[:13], metrics=["accuracy", "cross_entropy"])
    assert measured == {"accuracy": pytest.approx(expected), "cross_entropy": pytest.approx(cross_entropy, rel=1e-4)}


def test_weights(compiled, digits, tmp_path):
    program, other = pp.Program(compiled), pp.Program(compiled)
    losses_of(program, digits, 3)
    weights = program.state_dict()
    assert len(weights) == 8 and list(weights) == sorted(weights)
    other.load_state_dict(weights)
    for name, value in other.state_dict().items():
        assert (value == weights[name]).all()
    with pytest.raises(pp.UsageError, match="no values for"):
        other.load_state_dict({})
    gradients = program.gradients()
    assert set(gradients) == set(weights) and all(numpy.abs(g).sum() > 0 for g in gradients.values())
    program.save(tmp_path / "a.safetensors")
    fresh = pp.Program(compiled, trains=False)
    fresh.load_weights(tmp_path / "a.safetensors")
    x = digits[0]
    assert (fresh.infer(x) == program.infer(x)).all()
    with pytest.raises(pp.UsageError, match="opened for inference"):
        fresh.train_step(x[:8], digits[1][:8])


def test_schedules_groups_and_clipping(compiled, digits):
    program = pp.Program(compiled, schedule=pp.CosineLR(steps=10, warmup_steps=2), clip_gradient_norm=0.5, log_gradient_norm=True,
                         groups=["*bias:weight_decay=0", "*conv1*:frozen"], set={"lr": 0.01})
    frozen = {name: value for name, value in program.state_dict().items() if "conv1" in name and "bias" not in name}
    rates = []
    for loss in losses_of(program, digits, 12):
        assert loss > 0
    program = pp.Program(compiled, schedule=pp.CosineLR(steps=10, warmup_steps=2), set={"lr": 0.01})
    for i in range(11):
        program.train_step(digits[0][:8], digits[1][:8])
        rates.append(program.last.learning_rate)
    cosine = [0.01 * (1 + numpy.cos(numpy.pi * t / 8)) / 2 for t in range(9)]
    numpy.testing.assert_allclose(rates, [0, 0.005, *cosine], atol=1e-8)
    program.learning_rate = 0.5
    assert program.learning_rate == 0.5 and frozen is not None
    assert program.get_scalar("weight_decay") == pytest.approx(0.01)
    with pytest.raises(pp.UsageError, match="no value 'warmth'"):
        program.set_scalar("warmth", 1)


def test_averages_of_weights(lenet, digits, tmp_path):
    options = dict(loss="cross_entropy", batch=8, ema_decay=0.9, optimizer=pp.AdamW(1e-2))
    program = pp.compile(lenet, ema=True, **options)
    expected = program.state_dict()
    for i in range(4):
        program.train_step(digits[0][:8], digits[1][:8])
        for name, value in program.state_dict().items():
            expected[name] = expected[name] + numpy.float32(0.1) * (value - expected[name])
    averaged = program.infer(digits[0])
    program.load_state_dict(expected)
    plain = pp.compile(lenet, loss="cross_entropy", batch=8)
    plain.load_state_dict(expected)
    numpy.testing.assert_allclose(plain.infer(digits[0]), averaged, rtol=1e-4, atol=1e-5)
    with pytest.raises(pp.UsageError, match="--ema-decay"):
        pp.compile(lenet, loss="cross_entropy", ema=True)


def test_bytes_are_images(compiled, digits):
    y = digits[1][:8]
    stored = numpy.random.default_rng(0).integers(0, 256, (8, 1, 8, 8)).astype("u1")
    scale, mean, std = numpy.float32(1 / 255), numpy.float32(0.5), numpy.float32(0.25)
    numbers = (stored.astype("f4") * scale - mean) / std
    program = pp.Program(compiled, input_scale={"image": float(scale)}, input_mean={"image": [0.5]}, input_std={"image": 0.25})
    assert program.train_step(stored, y) == pp.Program(compiled).train_step(numbers, y)
    with pytest.raises(pp.InputError, match="--input-scale"):
        pp.Program(compiled).train_step(stored, y)


def test_errors_are_exceptions(lenet, compiled, digits, tmp_path):
    x, y = digits
    program = pp.Program(compiled)
    with pytest.raises(pp.UsageError, match="lack 'target'"):
        program.train_step(x[:8])
    with pytest.raises(pp.UsageError, match="9 samples"):
        program.train_step(x[:9], y[:9])
    with pytest.raises(pp.InputError, match="outside of"):
        program.train_step(x[:8], y[:8] + 100)
    with pytest.raises(pp.UsageError, match="3 arrays"):
        program.train_step(x[:8], y[:8], y[:8])
    with pytest.raises(OSError, match="nowhere.onnx"):
        pp.compile("nowhere.onnx")
    with pytest.raises(pp.UsageError, match="--batchsize"):
        pp.compile(lenet, batchsize=3)
    with pytest.raises(pp.UsageError, match="is no plan"):
        pp.compile(lenet, 3)
    with pytest.raises(pp.UsageError, match="is no optimizer"):
        pp.compile(lenet, loss="cross_entropy", optimizer="adamw")
    (tmp_path / "broken.onnx").write_bytes(b"\x0a\x05broken")
    with pytest.raises(pp.Error, match="broken.onnx"):
        pp.import_model(tmp_path / "broken.onnx")
    with pytest.raises(pp.OperatingSystemError):
        pp.Program(tmp_path / "none.so")


def test_planning_options_are_those_of_the_tool():
    import re
    import subprocess
    from pp_mlir import planning
    tool = os.path.join(os.path.dirname(pp.__file__), "bin", "pp-plan")
    text = subprocess.run([tool, "--help-hidden"], capture_output=True, text=True, check=True).stdout
    section = re.search(r"Planning options:\n(.*?)(\n[A-Z]|\Z)", text, re.S)[1]
    names = {name.replace("-", "_") for name in re.findall(r"^  -{1,2}([\w-]+)", section, re.M)} - {"o", "link_file"}
    assert planning.PLANNING_OPTIONS == names


def test_import(lenet):
    text = pp.import_model(lenet)
    assert "nn.conv" in text and "func.func" in text


def test_messages_go_to_the_handler(compiled):
    messages = []
    pp.set_message_handler(messages.append)
    try:
        pp.Program(compiled, schedule=pp.LinearLR(steps=5))
    finally:
        pp.set_message_handler(None)
    assert any("learning rate" in text for text in messages)


def test_threads(compiled, digits):
    """Other threads of Python run while a program works, and may use it."""
    x, _ = digits
    program = pp.Program(compiled, trains=False)
    expected = program.infer(x)
    wrong = []

    def work():
        for _ in range(10):
            if not (program.infer(x) == expected).all():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif("PP_SANITIZED" in os.environ, reason="a sanitizer takes memory of its own")
def test_nothing_is_copied(compiled):
    """A large array is read where it is: memory grows by the outputs alone."""
    import resource
    program = pp.Program(compiled, trains=False)
    x = numpy.zeros((600000, 1, 8, 8), "f4")
    x[:] = 0.5
    program.infer(x[:8])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    program.infer(x)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < x.nbytes / 2
