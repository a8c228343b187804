#!/usr/bin/env python3
"""Draws what vs_pytorch.py measured: how many times faster than PyTorch.

    benchmarks/chart.py f32.json bf16.json -o benchmarks/vs_pytorch.svg

One group of bars for each model and precision: the best of ours over the best
of PyTorch on two cores, and one core over one thread.
"""

import argparse
import json
import math
import pathlib

NAMES = {"mlp": "MLP", "resnet18": "ResNet-18", "resnet50": "ResNet-50", "mobilenetv2": "MobileNetV2", "unet": "U-Net",
         "gpt": "GPT", "bert": "BERT-base"}
COLOURS = {"2 cores": "#2f6f9f", "1 core": "#a9c6da"}
LEFT, RIGHT, TOP, BAR, GAP = 130, 60, 46, 14, 12


def text(x, y, content, anchor="start", size=12, weight="normal"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">{content}</text>'


def draw(results, width=720):
    rows = [(f"{NAMES[result['model']]}, {result['precision']}", result["ratios"]) for result in results if result["ratios"]]
    # A few models are many times faster: a logarithmic axis shows all.
    most = max(ratio for _, ratios in rows for ratio in ratios.values())
    ticks = [tick for tick in (0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12) if tick <= most * 1.05]
    least = min([0.75] + [ratio for _, ratios in rows for ratio in ratios.values()])
    span = math.log(most / least)

    def place(ratio):
        return LEFT + (width - LEFT - RIGHT) * math.log(max(ratio, least) / least) / span

    height = TOP + len(rows) * (2 * BAR + GAP) + 28
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             text(LEFT, 18, "Times as fast as PyTorch, a training step", size=13, weight="bold")]
    for index, (label, colour) in enumerate(COLOURS.items()):
        x = LEFT + 330 + 110 * index
        parts += [f'<rect x="{x}" y="9" width="12" height="10" fill="{colour}"/>', text(x + 18, 18, label)]
    bottom = height - 24
    for tick in ticks:
        stroke = "#333" if tick == 1 else "#ddd"
        parts += [f'<line x1="{place(tick):.1f}" y1="{TOP - 10}" x2="{place(tick):.1f}" y2="{bottom}" stroke="{stroke}"/>',
                  text(place(tick), bottom + 16, f"{tick:g}", "middle", 11)]
    y = TOP
    for label, ratios in rows:
        parts.append(text(LEFT - 8, y + BAR + 4, label, "end"))
        for which, colour in COLOURS.items():
            if which in ratios:
                end = place(ratios[which])
                parts += [f'<rect x="{LEFT}" y="{y}" width="{max(end - LEFT, 1):.1f}" height="{BAR - 1}" fill="{colour}"/>',
                          text(end + 4, y + BAR - 3, f"{ratios[which]:.2f}", size=11)]
            y += BAR
        y += GAP
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", type=pathlib.Path, help="of vs_pytorch.py --json")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    results = [result for path in arguments.results for result in json.loads(path.read_text())]
    arguments.output.write_text(draw(results))


if __name__ == "__main__":
    main()
