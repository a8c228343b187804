"""Modules and tensors of PyTorch, and its numbers."""

import numpy
import pytest

import pp_mlir as pp

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")


class Net(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(12, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.last = torch.nn.Linear(32, 5)

    def forward(self, x):
        return self.last(torch.nn.functional.gelu(self.norm(self.first(x))))


@pytest.fixture
def batches():
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(16, 12, generator=generator), torch.randint(0, 5, (16, ), generator=generator)) for _ in range(20)]


def test_a_module_trains_as_in_pytorch(batches):
    torch.manual_seed(1)
    module = Net()
    program = pp.compile(module, batches[0][0], loss="cross_entropy", stages=2, microbatches=2, optimizer=pp.AdamW(1e-2),
                         schedule=pp.CosineLR(steps=20, warmup_steps=4), clip_gradient_norm=1.0, groups=["*bias,norm*:weight_decay=0"])
    decay, plain = [], []
    for name, parameter in module.named_parameters():
        (plain if name.endswith("bias") or name.startswith("norm") else decay).append(parameter)
    optimizer = torch.optim.AdamW([{"params": decay}, {"params": plain, "weight_decay": 0}], 1e-2)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 1e-30, total_iters=4)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 16)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [4])
    for x, y in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        assert program.train_step(x, y) == pytest.approx(loss.item(), rel=2e-4)
    trained = program.to_torch(Net())
    for (name, ours), theirs in zip(trained.state_dict().items(), module.state_dict().values()):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=2e-4, msg=name)
    x = batches[0][0]
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(program.infer(x)), trained(x), rtol=1e-4, atol=1e-5)


class TwoHeads(Net):

    def __init__(self):
        super().__init__()
        self.size = torch.nn.Linear(32, 3)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.norm(self.first(x)))
        return self.size(h), self.last(h)


def test_losses_of_several_outputs(batches, tmp_path):
    torch.manual_seed(1)
    module = TwoHeads()
    path = tmp_path / "heads.onnx"
    torch.onnx.export(module, (batches[0][0],), path, input_names=["x"], output_names=["size", "logits"], dynamo=True, optimize=False)
    program = pp.compile(path, loss="cross_entropy", loss_output="logits", add_loss=["0.3*huber:size"], stages=2, microbatches=2,
                         optimizer=pp.SGD(0.05))
    optimizer = torch.optim.SGD(module.parameters(), 0.05)
    for x, y in batches:
        sizes = x[:, :3] * 2
        a, logits = module(x)
        loss = torch.nn.functional.cross_entropy(logits, y) + 0.3 * torch.nn.functional.huber_loss(a, sizes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert program.train_step(**{"x": x, "target": y, "target.size": sizes}) == pytest.approx(loss.item(), rel=1e-5)
    # What is measured is the output of the first loss.
    x, y = batches[0]
    with torch.no_grad():
        accuracy = (module(x)[1].argmax(1) == y).float().mean().item()
    assert program.evaluate(x=x, target=y, metrics=["accuracy"])["accuracy"] == pytest.approx(accuracy)


def test_dropout_and_batch_norm_are_trained(batches):
    module = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.BatchNorm1d(32), torch.nn.Dropout(0.5), torch.nn.Linear(32, 5)).eval()
    program = pp.compile(module, example=batches[0][0], loss="cross_entropy", optimizer=pp.SGD(0.1))
    before = program.state_dict()
    x, y = batches[0]
    first, second = program.train_step(x, y), pp.compile(module, batches[0][0], loss="cross_entropy", optimizer=pp.SGD(0.1),
                                                         seed=7).train_step(x, y)
    assert first != second  # other numbers are dropped
    changed = {name for name, value in program.state_dict().items() if (value != before[name]).any()}
    assert {"1.running_mean", "1.running_var", "1.weight", "0.weight"} <= changed
    assert not module.training
    # Not in inference.
    assert (program.infer(x) == program.infer(x)).all()


def test_tensors_of_any_kind(batches):
    module = Net()
    program, other = (pp.compile(module, batches[0][0], loss="cross_entropy") for _ in range(2))
    x, y = batches[0]
    strided = x.t().contiguous().t().requires_grad_()
    assert not strided.is_contiguous() and program.train_step(strided, y) == other.train_step(x, y)
    with pytest.raises(pp.UsageError, match="on the device meta"):
        program.train_step(x.to("meta"), y)


def test_models_of_the_onnx_package(batches):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 12])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, 5])
    w = helper.make_tensor("w", TensorProto.FLOAT, [12, 5], numpy.ones(60, "f4"))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    program = pp.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), loss="cross_entropy")
    assert program.train_step(*batches[0]) == pytest.approx(numpy.log(5), rel=1e-5)


def test_wants_an_example():
    with pytest.raises(pp.UsageError, match="example"):
        pp.compile(Net(), loss="cross_entropy")
    with pytest.raises(pp.UsageError, match="is no model"):
        pp.compile(3)
