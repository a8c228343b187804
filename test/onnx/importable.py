"""Says how many models have only operators that are imported.

    importable.py [--build BUILD] [COUNTERS ...]

COUNTERS are ONNX files, statistics of models as the ONNX Model Zoo has them
(turnkey_stats.yaml, with `onnx_ops_counter`), folders of either, or JSON files
such as onnx_model_zoo.json:

    [{"models": 34, "operators": ["Conv", "Resize mode=linear", ...]}, ...]

Each entry stands for that many models, and has all operators of any of them; words
of attributes may follow an operator's name. Without any, onnx_model_zoo.json is
read. What is imported says docs/operators.md, or, with --build, the compiler.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "operators.md"
ZOO = HERE / "onnx_model_zoo.json"
# Numbers must be known when the model is compiled: no counter tells.
DEPENDS_ON_DATA = "known at compile time"


class Table:
    """What is imported, by operator."""

    def __init__(self, text):
        self.restrictions, self.opsets = {}, {}
        for name, first, last, restrictions in re.findall(r"^\| ([A-Z]\w+) \| (\d+)-(\d+) \|.*\| (.*) \|$", text, re.M):
            self.restrictions[name] = restrictions
            self.opsets[name] = range(int(first), int(last) + 1)

    def fault(self, use, opset=None):
        """Why "OPERATOR ATTRIBUTE=WORD ..." is refused; None if it is not."""
        operator, *attributes = use.split()
        if operator not in self.opsets:
            return operator
        if opset and opset not in self.opsets[operator]:
            return f"{operator} of opset {opset}"
        for attribute in attributes:
            name, _, word = attribute.partition("=")
            listed = re.search(rf"`{name}` is ([\w]+(?: or \w+)*)", self.restrictions[operator])
            if listed and word not in listed[1].split(" or "):
                return f"{operator} {attribute}"
        return None

    def depends_on_data(self, uses):
        """Operators all of whose inputs must be known."""
        return sorted({use.split()[0] for use in uses if "all inputs known" in self.restrictions.get(use.split()[0], "")})


def read_onnx(path):
    import onnx

    model = onnx.load(path, load_external_data=False)
    uses = set()

    def visit(graph):
        for node in graph.node:
            if node.domain not in ("", "ai.onnx"):
                uses.add(f"{node.domain}.{node.op_type}")
                continue
            words = [f"{a.name}={a.s.decode()}" for a in node.attribute if a.type == onnx.AttributeProto.STRING]
            uses.add(" ".join([node.op_type, *words]))
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(attribute.g)

    visit(model.graph)
    opset = next((entry.version for entry in model.opset_import if entry.domain == ""), None)
    return [(1, uses, opset)]


def read_statistics(path):
    """Of the few lines that are asked for, without a reader of YAML."""
    text = path.read_text()
    counters = re.search(r"^onnx_ops_counter:\n((?:  \S.*\n)*)", text, re.M)
    opset = re.search(r"^  opset: (\d+)", text, re.M)
    if not counters:
        return []
    return [(1, set(re.findall(r"^  (\w+):", counters[1], re.M)), int(opset[1]) if opset else None)]


def read(path):
    if path.is_dir():
        files = sorted(file for pattern in ("*.onnx", "turnkey_stats.yaml") for file in path.rglob(pattern))
        return [entry for file in files for entry in read(file)]
    if path.suffix == ".json":
        return [(entry["models"], set(entry["operators"]), entry.get("opset")) for entry in json.loads(path.read_text())]
    return read_onnx(path) if path.suffix == ".onnx" else read_statistics(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--least", type=int, help="fail below so many")
    parser.add_argument("counters", nargs="*", type=pathlib.Path, default=[ZOO])
    options = parser.parse_args()
    text = PAGE.read_text()
    if options.build:
        text = subprocess.run([options.build / "bin" / "pp-opt", "--show-onnx-operators"], capture_output=True, text=True, check=True).stdout
    table = Table(text)
    total = importable = undecided = 0
    blockers, open_questions = collections.Counter(), collections.Counter()
    for models, uses, opset in (entry for path in options.counters for entry in read(path)):
        total += models
        faults = {fault for use in uses if (fault := table.fault(use, opset))}
        for fault in faults:
            blockers[fault] += models
        if faults:
            continue
        importable += models
        for operator in table.depends_on_data(uses):
            open_questions[operator] += models
        undecided += models if table.depends_on_data(uses) else 0
    print(f"{importable} of {total} models have only operators and attributes that are imported ({importable / max(total, 1):.1%})")
    for fault, models in blockers.most_common():
        print(f"  {models} refused: {fault}")
    if undecided:
        names = ", ".join(f"{operator} in {models}" for operator, models in open_questions.most_common())
        print(f"  {undecided} of the importable ones have operators whose inputs must be known at compile time: {names}")
    sys.exit(1 if options.least and importable < options.least else 0)


if __name__ == "__main__":
    main()
