import json, sys
import numpy, pp_mlir as pp

def batches(data, epoch):
    order = numpy.random.default_rng(epoch).permutation(len(data["target"]))
    for first in range(0, len(order), 32):
        rows = order[first:first + 32]
        yield data["image"][rows], data["target"][rows]

if __name__ == "__main__":
    train, test = dict(numpy.load(sys.argv[1])), dict(numpy.load(sys.argv[2]))
    model = dict(loss="cross_entropy", label_smoothing=0.1, batch=32, optimizer=pp.AdamW(0.01, weight_decay=0.05))
    program = pp.compile(sys.argv[3], pp.plan(sys.argv[3], cores=2, **model), groups=["*bias,norm*:weight_decay=0"],
                         schedule=pp.CosineLR(steps=450, warmup_steps=45, warmup_start=0.1), clip_gradient_norm=1.0)
    for epoch in range(10):
        losses = [program.train_step(x, y) for x, y in batches(train, epoch)]
        print(json.dumps({"epoch": epoch, "loss": numpy.mean(losses)}))
    print(json.dumps(program.evaluate(test["image"], test["target"], metrics=["accuracy"])))
    program.export(sys.argv[4])
