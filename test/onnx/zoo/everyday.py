"""What people write with torch.nn alone."""

import numpy as np

from zoo.entry import Entry, noise, tokens


def modules():
    """The classes; torch is imported when one is made."""
    import torch
    from torch import nn
    from torch.nn import functional

    def sequential(*layers):
        return nn.Sequential(*layers)

    class Recurrent(nn.Module):
        def __init__(self, kind, **options):
            super().__init__()
            self.embedding = nn.Embedding(61, 16)
            self.cells = getattr(nn, kind)(16, 12, batch_first=True, **options)
            width = 24 if options.get("bidirectional") else 12
            self.head = nn.Linear(width, 5)

        def forward(self, x):
            states, _ = self.cells(self.embedding(x))
            return self.head(states)

    class Cells(nn.Module):
        """A loop in Python over a cell, from a state of zeros."""

        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(6, 10)
            self.head = nn.Linear(10, 3)

        def forward(self, x):
            state = torch.zeros(x.shape[0], 10)
            for t in range(x.shape[1]):
                state = self.cell(x[:, t], state)
            return self.head(state)

    class Encoder(nn.Module):
        def __init__(self, pool):
            super().__init__()
            self.embedding = nn.Embedding(61, 32)
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)
            self.head = nn.Linear(32, 5)
            self.pool = pool

        def forward(self, x):
            h = self.encoder(self.embedding(x))
            return self.head(h.mean(1) if self.pool else h)

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(61, 32)
            self.transformer = nn.Transformer(32, 4, 1, 1, 64, dropout=0.0, batch_first=True)
            self.head = nn.Linear(32, 61)

        def forward(self, source, target_ids):
            mask = nn.Transformer.generate_square_subsequent_mask(target_ids.shape[1])
            h = self.transformer(self.embedding(source), self.embedding(target_ids), tgt_mask=mask)
            return self.head(h)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
            self.middle = sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.head = nn.Conv2d(24, 2, 3, padding=1)

        def forward(self, x):
            skip = self.down(x)
            return self.head(torch.cat([skip, self.up(self.middle(skip))], 1))

    class Residual(nn.Module):
        def __init__(self, body):
            super().__init__()
            self.body = body

        def forward(self, x):
            return x + self.body(x)

    class Causal(nn.Module):
        """Dilated convolutions that see the past alone, gated."""

        def __init__(self, dilation):
            super().__init__()
            self.dilation = dilation
            self.gate = nn.Conv1d(8, 16, 2, dilation=dilation)
            self.mix = nn.Conv1d(8, 8, 1)

        def forward(self, x):
            a, b = self.gate(functional.pad(x, (self.dilation, 0))).chunk(2, 1)
            return x + self.mix(torch.tanh(a) * torch.sigmoid(b))

    class Field(nn.Module):
        """Sines of points, as neural radiance fields have them."""

        def __init__(self):
            super().__init__()
            self.body = sequential(nn.Linear(27, 32), nn.Softplus(), nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 4))

        def forward(self, x):
            parts = [x]
            for k in range(4):
                parts += [torch.sin(2**k * x), torch.cos(2**k * x)]
            return self.body(torch.cat(parts, -1))

    class GraphConvolution(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 4)

        def forward(self, nodes, adjacency):
            adjacency = adjacency.abs()
            adjacency = adjacency / adjacency.sum(-1, keepdim=True)
            return self.second(adjacency @ torch.relu(self.first(adjacency @ nodes)))

    class EinsumAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

        def forward(self, x):
            q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, 4, 4).unbind(2)
            weights = torch.einsum("bihd,bjhd->bhij", q, k).softmax(-1)
            return self.out(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2))

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.bag = nn.EmbeddingBag(61, 16, mode="mean")
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            return self.head(self.bag(x))

    class Siamese(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 8))

        def forward(self, a, b):
            return functional.normalize(self.body(a), dim=-1) * functional.normalize(self.body(b), dim=-1)

    class Teacher(nn.Module):
        """A frozen backbone, and a teacher of the head behind it."""

        def __init__(self):
            super().__init__()
            self.backbone = sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8))
            self.head, self.teacher = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x):
            with torch.no_grad():
                features = self.backbone(x)
                wanted = torch.softmax(self.teacher(features), dim=-1)
            return torch.softmax(self.head(features), dim=-1) - wanted

    class Temperature(nn.Module):
        """As CLIP: what scales similarities is a number without axes."""

        def __init__(self):
            super().__init__()
            self.picture, self.text = nn.Linear(12, 8), nn.Embedding(61, 8)
            self.logit_scale = nn.Parameter(torch.tensor(2.65))
            self.logit_bias = nn.Parameter(torch.tensor(-1.0))

        def forward(self, x, words):
            pictures = functional.normalize(self.picture(x), dim=-1)
            texts = functional.normalize(self.text(words), dim=-1)
            similarity = torch.einsum("bd,btd->bt", pictures, texts)
            return self.logit_scale.exp().clamp(max=100) * similarity + self.logit_bias

    class Recommender(nn.Module):
        """Embeddings of users and items, wide and deep."""

        def __init__(self):
            super().__init__()
            self.user, self.item = nn.Embedding(50, 8), nn.Embedding(50, 8)
            self.deep = sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8))
            self.head = nn.Linear(16, 1)

        def forward(self, user, item):
            u, i = self.user(user), self.item(item)
            return torch.sigmoid(self.head(torch.cat([u * i, self.deep(torch.cat([u, i], -1))], -1)))

    class Dueling(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = sequential(nn.Conv2d(4, 8, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 15 * 15, 32), nn.ReLU())
            self.value, self.advantage = nn.Linear(32, 1), nn.Linear(32, 6)

        def forward(self, x):
            h = self.body(x)
            a = self.advantage(h)
            return self.value(h) + a - a.mean(1, keepdim=True)

    class PointNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1))
            self.head = nn.Linear(32, 5)

        def forward(self, x):
            return self.head(self.body(x.transpose(1, 2)).max(-1).values)

    class Experts(nn.Module):
        """All experts run; the two best count."""

        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(12, 4)
            self.experts = nn.ModuleList(nn.Linear(12, 6) for _ in range(4))

        def forward(self, x):
            best, index = self.gate(x).topk(2, -1)
            weights = torch.zeros(x.shape[0], 4).scatter(1, index, best.softmax(-1))
            outputs = torch.stack([expert(x) for expert in self.experts], 1)
            return (weights.unsqueeze(-1) * outputs).sum(1)

    class Variational(nn.Module):
        """The noise is an input, so that all compute with the same."""

        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(20, 16), sequential(nn.Linear(8, 20), nn.Sigmoid())

        def forward(self, x, epsilon):
            mean, logarithm = self.encoder(x).chunk(2, -1)
            return self.decoder(mean + epsilon * torch.exp(0.5 * logarithm))

    class Highway(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.body = nn.Linear(12, 12), nn.Linear(12, 12)

        def forward(self, x):
            t = torch.sigmoid(self.gate(x))
            return t * functional.elu(self.body(x)) + (1 - t) * x

    class ConvolutionalLSTM(nn.Module):
        def __init__(self):
            super().__init__()
            self.gates = nn.Conv2d(3 + 8, 32, 3, padding=1)

        def forward(self, x):
            h = c = x.new_zeros(x.shape[0], 8, *x.shape[-2:])
            for t in range(x.shape[1]):
                i, f, g, o = self.gates(torch.cat([x[:, t], h], 1)).chunk(4, 1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
            return h

    class Positions(nn.Module):
        """A word model with positions from arange and a mask from tril."""

        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(61, 32), nn.Embedding(64, 32)
            self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
            self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 61)

        def forward(self, x):
            length = x.shape[1]
            h = self.words(x) + self.places(torch.arange(length).expand(x.shape[0], length))
            mask = torch.tril(torch.ones(length, length)) == 0
            h = h + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
            return self.head(self.norm(h))

    class Splines(nn.Module):
        """A layer of Kolmogorov and Arnold, with radial functions."""

        def __init__(self):
            super().__init__()
            self.register_buffer("grid", torch.linspace(-2, 2, 8))
            self.coefficients = nn.Parameter(torch.randn(6, 8, 5) * 0.1)
            self.base = nn.Linear(6, 5)

        def forward(self, x):
            basis = torch.exp(-((x.unsqueeze(-1) - self.grid) ** 2))
            return torch.einsum("big,igo->bo", basis, self.coefficients) + self.base(functional.silu(x))

    class WeightNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 8, 3, padding=1))

        def forward(self, x):
            return functional.leaky_relu(self.body(x), 0.1)

    class SpatialTransformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.locate = sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 6))
            self.head = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            grid = functional.affine_grid(self.locate(x).reshape(-1, 2, 3) * 0.1, x.shape, align_corners=False)
            return self.head(functional.grid_sample(x, grid, align_corners=False))

    class Capsules(nn.Module):
        """Routing by agreement, twice."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(6, 4, 4, 5) * 0.3)

        def forward(self, x):
            votes = torch.einsum("bic,ijcd->bijd", x, self.weight)
            logits = torch.zeros(votes.shape[:3])
            for _ in range(2):
                s = (logits.softmax(2).unsqueeze(-1) * votes).sum(1)
                norm = s.pow(2).sum(-1, keepdim=True)
                v = norm / (1 + norm) * s / (norm + 1e-6).sqrt()
                logits = logits + (votes * v.unsqueeze(1)).sum(-1)
            return v

    return {
        "mlp": lambda: sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5)),
        "mlp_batch_norm": lambda: sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Linear(32, 5)),
        "mlp_activations": lambda: sequential(
            nn.Linear(12, 32), nn.Mish(), nn.Linear(32, 32), nn.PReLU(), nn.Linear(32, 32), nn.SELU(), nn.Linear(32, 32), nn.GLU(), nn.Hardswish()
        ),
        "snake": lambda: Residual(sequential(nn.Linear(12, 12), nn.Softsign(), nn.Linear(12, 12), nn.LogSigmoid())),
        "cnn": lambda: sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)
        ),
        "cnn_group_norm": lambda: sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 3), nn.AdaptiveMaxPool2d(1), nn.Flatten()),
        "style_transfer": lambda: sequential(
            nn.ReflectionPad2d(2), nn.Conv2d(3, 8, 5), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(8, 3, 3), nn.Tanh()
        ),
        "super_resolution": lambda: sequential(nn.Conv2d(3, 8, 3, padding=1), nn.PReLU(), nn.Conv2d(8, 12, 3, padding=1), nn.PixelShuffle(2)),
        "generator": lambda: sequential(
            nn.ConvTranspose2d(8, 16, 4), nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()
        ),
        "discriminator": lambda: sequential(
            nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.LeakyReLU(0.2), nn.Conv2d(16, 1, 4)
        ),
        "autoencoder": lambda: sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.ELU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ELU(), nn.ConvTranspose2d(16, 8, 2, 2), nn.ELU(), nn.ConvTranspose2d(8, 3, 2, 2)
        ),
        "cnn3d": lambda: sequential(nn.Conv3d(3, 8, 3), nn.BatchNorm3d(8), nn.ReLU(), nn.AvgPool3d(2), nn.Flatten(), nn.Linear(8 * 27, 5)),
        "unet": UNet,
        "wavenet": lambda: sequential(nn.Conv1d(4, 8, 1), Causal(1), Causal(2), Causal(4), nn.Conv1d(8, 4, 1)),
        "rnn": lambda: Recurrent("RNN"),
        "lstm": lambda: Recurrent("LSTM", num_layers=2),
        "gru": lambda: Recurrent("GRU"),
        "bilstm": lambda: Recurrent("LSTM", bidirectional=True),
        "gru_cells": Cells,
        "encoder": lambda: Encoder(False),
        "encoder_mean": lambda: Encoder(True),
        "translator": Translator,
        "radiance_field": Field,
        "graph_convolution": GraphConvolution,
        "einsum_attention": EinsumAttention,
        "embedding_bag": Bag,
        "siamese": Siamese,
        "temperature": Temperature,
        "teacher": Teacher,
        "recommender": Recommender,
        "dueling": Dueling,
        "pointnet": PointNet,
        "experts": Experts,
        "variational": Variational,
        "highway": Highway,
        "convolutional_lstm": ConvolutionalLSTM,
        "positions": Positions,
        "splines": Splines,
        "weight_norm": WeightNorm,
        "spatial_transformer": SpatialTransformer,
        "capsules": Capsules,
    }


VECTOR = {"x": noise(4, 12)}
SMALL_IMAGE = {"x": noise(4, 3, 16, 16)}
WORDS = tokens(8, name="x")
INPUTS = {
    "mlp": VECTOR, "mlp_batch_norm": VECTOR, "mlp_activations": VECTOR, "snake": VECTOR, "highway": VECTOR, "experts": VECTOR,
    "cnn": SMALL_IMAGE, "cnn_group_norm": SMALL_IMAGE, "style_transfer": SMALL_IMAGE, "super_resolution": SMALL_IMAGE,
    "generator": {"x": noise(4, 8, 3, 3)}, "discriminator": SMALL_IMAGE, "autoencoder": SMALL_IMAGE, "cnn3d": {"x": noise(4, 3, 8, 8, 8)},
    "unet": SMALL_IMAGE, "wavenet": {"x": noise(4, 4, 20)}, "rnn": WORDS, "lstm": WORDS, "gru": WORDS, "bilstm": WORDS,
    "gru_cells": {"x": noise(4, 5, 6)}, "encoder": WORDS, "encoder_mean": WORDS,
    "translator": {**tokens(8, name="source"), **tokens(6, name="target_ids", seed=1)},
    "radiance_field": {"x": noise(4, 7, 3)}, "graph_convolution": {"nodes": noise(4, 9, 6), "adjacency": noise(4, 9, 9)},
    "einsum_attention": {"x": noise(4, 9, 16)}, "embedding_bag": WORDS, "siamese": {"a": noise(4, 12), "b": noise(4, 12)[::-1].copy()},
    "recommender": {"user": np.arange(4), "item": np.arange(4) * 3}, "dueling": {"x": noise(4, 4, 32, 32)}, "pointnet": {"x": noise(4, 30, 3)},
    "variational": {"x": noise(4, 20), "epsilon": noise(4, 8)}, "convolutional_lstm": {"x": noise(4, 3, 3, 8, 8)}, "positions": WORDS,
    "splines": {"x": noise(4, 6)}, "weight_norm": {"x": noise(4, 8, 20)}, "spatial_transformer": SMALL_IMAGE, "capsules": {"x": noise(4, 6, 4)},
    "temperature": {"x": noise(4, 12), "words": tokens()["input_ids"]}, "teacher": {"x": noise(4, 12)},
}
ENTRIES = [Entry(f"everyday/{name}", lambda name=name: modules()[name](), inputs) for name, inputs in INPUTS.items()]
