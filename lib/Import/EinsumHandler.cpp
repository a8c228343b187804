//===- EinsumHandler.cpp - ONNX Einsum ------------------------------------===//
//
// Operands are taken together one after the other, from the left: labels that
// neither the result nor an operand further right has are summed up in the
// product.
//
//===----------------------------------------------------------------------===//

#include "Expressions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// A letter, or, below zero, an axis that "..." stands for: -1 is the last one.
using Labels = SmallVector<int>;

/// A tensor and what its axes are called, each once.
struct Labelled {
  Value value;
  Labels labels;
};

class Einsum {
public:
  explicit Einsum(NodeImporter &n) : n(n), e{n} {}

  LogicalResult run() {
    for (size_t index = 0; index < n.numInputs(); ++index) {
      Value x = n.tensor(index);
      if (!x)
        return failure();
      operands.push_back({x, {}});
    }
    if (failed(parse()) || failed(findSizes()))
      return failure();
    for (Labelled &operand : operands)
      simplify(operand);
    Labelled product = operands.front();
    for (size_t index = 1; index < operands.size(); ++index) {
      drop(product, [&](int label) { return isNeededFrom(index, label); });
      Labelled &next = operands[index];
      drop(next, [&](int label) {
        return llvm::is_contained(product.labels, label) ||
               isNeededFrom(index + 1, label);
      });
      product = multiply(product, next, index + 1);
    }
    drop(product, [&](int label) { return llvm::is_contained(result, label); });
    n.setOutput(0, arranged(product, result));
    return success();
  }

private:
  /// The labels of one term; `rank` is that of its operand, which says what
  /// "..." stands for.
  FailureOr<Labels> parseTerm(StringRef term, int64_t rank) {
    Labels labels;
    size_t dots = term.find("...");
    int64_t letters = llvm::count_if(term, llvm::isAlpha);
    for (size_t at = 0; at < term.size(); ++at) {
      if (at == dots) {
        for (int64_t i = rank - letters; i > 0; --i)
          labels.push_back(static_cast<int>(-i));
        at += 2;
        continue;
      }
      if (!llvm::isAlpha(term[at])) {
        (void)n.error("attribute equation has '" + llvm::Twine(term[at]) +
                      "' in '" + term + "'");
        return failure();
      }
      labels.push_back(term[at]);
    }
    return labels;
  }

  LogicalResult parse() {
    std::string equation;
    for (char letter : n.attribute("equation", ""))
      if (letter != ' ')
        equation += letter;
    auto [left, right] = StringRef(equation).split("->");
    SmallVector<StringRef> terms;
    left.split(terms, ',');
    if (terms.size() != operands.size())
      return n.error("attribute equation has " + llvm::Twine(terms.size()) +
                     " operands, the node " + llvm::Twine(operands.size()));
    int64_t dots = 0;
    for (auto [term, operand] : llvm::zip(terms, operands)) {
      int64_t rank = n.shape(operand.value).size();
      auto labels = parseTerm(term, rank);
      if (failed(labels))
        return failure();
      if (static_cast<int64_t>(labels->size()) != rank)
        return n.error("attribute equation names " +
                       llvm::Twine(labels->size()) +
                       " axes of a tensor of "
                       "rank " +
                       llvm::Twine(rank));
      operand.labels = *labels;
      for (int label : *labels)
        dots = std::max<int64_t>(dots, -label);
    }
    if (equation.find("->") != std::string::npos) {
      int64_t letters = llvm::count_if(right, llvm::isAlpha);
      auto labels = parseTerm(right, letters + dots);
      if (failed(labels))
        return failure();
      result = *labels;
    } else {
      // What "..." stands for, and the letters that occur once, in order.
      std::map<int, int> uses;
      for (const Labelled &operand : operands)
        for (int label : operand.labels)
          ++uses[label];
      for (auto [label, count] : uses)
        if (label < 0 || count == 1)
          result.push_back(label);
    }
    Labels sorted(result);
    llvm::sort(sorted);
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return n.error("attribute equation names an axis of the result twice");
    return success();
  }

  LogicalResult findSizes() {
    for (const Labelled &operand : operands)
      for (auto [label, size] :
           llvm::zip(operand.labels, n.shape(operand.value))) {
        int64_t &known = sizes.try_emplace(label, size).first->second;
        if (known != size && known != 1 && size != 1)
          return n.error("gives axes of sizes " + llvm::Twine(known) + " and " +
                         llvm::Twine(size) + " the same name");
        known = std::max(known, size);
      }
    for (int label : result)
      if (!sizes.count(label))
        return n.error("names an axis of the result that no operand has");
    return success();
  }

  /// Leaves each label once, and none whose axis is broadcast.
  void simplify(Labelled &operand) {
    Labels labels;
    SmallVector<int64_t> shape;
    for (auto [label, size] : llvm::zip(operand.labels, n.shape(operand.value)))
      if (size == sizes[label]) {
        labels.push_back(label);
        shape.push_back(size);
      }
    operand = {n.reshape(operand.value, shape), labels};
    for (size_t axis = 0; axis < operand.labels.size(); ++axis) {
      auto *first = llvm::find(operand.labels, operand.labels[axis]);
      int64_t before = first - operand.labels.begin();
      if (before == static_cast<int64_t>(axis))
        continue;
      // The diagonal: what is elsewhere does not count.
      Value x = operand.value;
      Value isThere = e.compare(Comparison::eq, e.iota(n.shape(x), before),
                                e.iota(n.shape(x), axis));
      x = e.select(isThere, x, e.number(x, 0));
      operand.value = n.reduce(Reduction::sum, x, axis, /*keepAxes=*/false);
      operand.labels.erase(operand.labels.begin() + axis);
      --axis;
    }
  }

  bool isNeededFrom(size_t index, int label) {
    return llvm::is_contained(result, label) ||
           llvm::any_of(ArrayRef(operands).drop_front(index),
                        [&](const Labelled &operand) {
                          return llvm::is_contained(operand.labels, label);
                        });
  }

  /// Sums over the axes that are not needed.
  void drop(Labelled &x, llvm::function_ref<bool(int)> isNeeded) {
    SmallVector<int64_t> axes;
    Labels kept;
    for (auto [axis, label] : llvm::enumerate(x.labels)) {
      if (isNeeded(label))
        kept.push_back(label);
      else
        axes.push_back(axis);
    }
    if (!axes.empty())
      x = {n.reduce(Reduction::sum, x.value, axes, /*keepAxes=*/false), kept};
  }

  static int64_t axisOf(const Labelled &x, int label) {
    return llvm::find(x.labels, label) - x.labels.begin();
  }

  /// The product of both, with the labels that are needed from `index` on.
  Labelled multiply(const Labelled &x, const Labelled &y, size_t index) {
    Labels both, mine, theirs;
    SmallVector<int64_t> xBatch, yBatch, xSummed, ySummed;
    for (int label : x.labels) {
      bool isShared = llvm::is_contained(y.labels, label);
      if (!isShared) {
        mine.push_back(label);
      } else if (isNeededFrom(index, label)) {
        both.push_back(label);
        xBatch.push_back(axisOf(x, label));
        yBatch.push_back(axisOf(y, label));
      } else {
        xSummed.push_back(axisOf(x, label));
        ySummed.push_back(axisOf(y, label));
      }
    }
    for (int label : y.labels)
      if (!llvm::is_contained(x.labels, label))
        theirs.push_back(label);
    Labelled product;
    for (const Labels &part : {both, mine, theirs})
      product.labels.append(part.begin(), part.end());
    SmallVector<int64_t> shape;
    for (int label : product.labels)
      shape.push_back(sizes[label]);
    if (xSummed.empty())
      product.value =
          e.mul(arranged(x, product.labels), arranged(y, product.labels));
    else
      product.value =
          n.make<DotGeneralOp>(n.type(x.value).clone(shape), x.value, y.value,
                               xBatch, yBatch, xSummed, ySummed);
    return product;
  }

  /// `x` with these axes, along which it repeats where it has not got them.
  Value arranged(const Labelled &x, ArrayRef<int> labels) {
    SmallVector<int64_t> permutation, axes, shape;
    for (auto [axis, label] : llvm::enumerate(labels)) {
      shape.push_back(sizes[label]);
      if (!llvm::is_contained(x.labels, label))
        continue;
      permutation.push_back(axisOf(x, label));
      axes.push_back(axis);
    }
    Value turned = n.transpose(x.value, permutation);
    if (axes.size() == shape.size())
      return turned;
    return n.make<BroadcastOp>(n.type(turned).clone(shape), turned, axes);
  }

  NodeImporter &n;
  Expressions e;
  SmallVector<Labelled> operands;
  Labels result;
  std::map<int, int64_t> sizes;
};

LogicalResult einsum(NodeImporter &n) { return Einsum(n).run(); }

} // namespace

ArrayRef<ImportedOperator> pp::einsumOperators() {
  static const ImportedOperator entries[] = {
      {.name = "Einsum", .handler = einsum, .types = floatTypes},
  };
  return entries;
}
