import json, sys
import numpy, torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.norm = nn.LayerNorm(256)
        self.drop = nn.Dropout(0.2)
        self.last = nn.Linear(256, 10)
    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.conv(x)), 2).flatten(1)
        return self.last(self.drop(self.norm(x)))

def batches(data, epoch):
    order = numpy.random.default_rng(epoch).permutation(len(data["target"]))
    for first in range(0, len(order), 32):
        rows = order[first:first + 32]
        yield torch.from_numpy(data["image"][rows]), torch.from_numpy(data["target"][rows])

if __name__ == "__main__":
    train, test = dict(numpy.load(sys.argv[1])), dict(numpy.load(sys.argv[2]))
    torch.manual_seed(0)
    model = Net()
    model.load_state_dict(torch.load(sys.argv[3]))
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}], lr=0.01)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=45)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 405)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [45])
    for epoch in range(10):
        losses = []
        for x, y in batches(train, epoch):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(json.dumps({"epoch": epoch, "loss": numpy.mean(losses)}))
    model.eval()
    with torch.no_grad():
        hits = (model(torch.from_numpy(test["image"])).argmax(1).numpy() == test["target"]).mean()
    print(json.dumps({"accuracy": hits}))
    torch.onnx.export(model, torch.from_numpy(test["image"][:1]), sys.argv[4], dynamo=True)
