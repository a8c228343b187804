//===- LossHandlers.cpp - ONNX losses -------------------------------------===//

#include "Expressions.h"
#include "pp/Import/Onnx/TorchExport.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// Axis 1, the classes, put last, or the last one put on axis 1.
Value moveClasses(NodeImporter &n, Value x, bool toTheEnd) {
  SmallVector<int64_t> permutation =
      llvm::to_vector(llvm::seq<int64_t>(0, n.shape(x).size()));
  if (toTheEnd)
    std::rotate(permutation.begin() + 1, permutation.begin() + 2,
                permutation.end());
  else
    std::rotate(permutation.begin() + 1, permutation.end() - 1,
                permutation.end());
  return n.transpose(x, permutation);
}

/// The sum of some losses of rows, or their mean, or all of them.
Value reduceLosses(NodeImporter &n, Value loss) {
  std::string reduction = n.attribute("reduction", "mean");
  SmallVector<int64_t> all =
      llvm::to_vector(llvm::seq<int64_t>(0, n.shape(loss).size()));
  if (reduction == "none")
    return loss;
  return reduction == "sum"
             ? n.reduce(Reduction::sum, loss, all, /*keepAxes=*/false)
             : n.mean(loss, all, /*keepAxes=*/false);
}

/// Of one weight for each class, if there are some; null if there are none.
FailureOr<Value> readClassWeights(NodeImporter &n, int64_t classes) {
  if (!n.hasInput(2))
    return Value();
  Value table = n.tensor(2);
  if (!table)
    return failure();
  if (n.shape(table) != ArrayRef<int64_t>(classes)) {
    (void)n.error("needs one weight for each of its " + llvm::Twine(classes) +
                  " classes");
    return failure();
  }
  return table;
}

/// A number for each class, in each row.
Value spreadOverRows(NodeImporter &n, Value table, Value rows) {
  auto leading = llvm::to_vector(
      llvm::seq<int64_t>(0, static_cast<int64_t>(n.shape(rows).size()) - 1));
  return Expressions{n}.spread(table, n.shape(rows), leading);
}

/// What both of PyTorch's exporters write for a cross entropy whose targets are
/// probabilities of the classes, which have the shape of the scores.
LogicalResult crossEntropyOfShares(NodeImporter &n, Value rows, Value shares) {
  Expressions e{n};
  // PyTorch writes it always; there is nothing to ignore.
  n.ignoreAttribute("ignore_index");
  if (n.shape(shares) != n.shape(n.tensor(0)))
    return n.error("has probabilities of another shape than its scores");
  int64_t last = static_cast<int64_t>(n.shape(rows).size()) - 1;
  auto table = readClassWeights(n, n.shape(rows)[last]);
  if (failed(table))
    return failure();
  Value wanted = moveClasses(n, shares, true);
  if (double smoothing = onnx::findLabelSmoothing(n.getNode())) {
    auto classes = static_cast<double>(n.shape(rows)[last]);
    wanted = e.add(e.mul(wanted, 1 - smoothing), smoothing / classes);
  }
  Value product = e.mul(rows, wanted);
  if (*table)
    product = e.mul(product, spreadOverRows(n, *table, rows));
  Value loss = n.reduce(Reduction::sum, product, last, /*keepAxes=*/false);
  n.setOutput(0, reduceLosses(n, e.neg(loss)));
  return success();
}

/// The negative logarithms of the likelihoods of `labels`, of which `rows` has
/// one per class on its last axis.
LogicalResult negativeLogLikelihood(NodeImporter &n, Value rows, Value labels) {
  Expressions e{n};
  int64_t last = static_cast<int64_t>(n.shape(rows).size()) - 1;
  int64_t classes = n.shape(rows)[last];
  if (n.shape(labels) != n.shape(rows).drop_back())
    return n.error("has labels of another shape than its scores have rows");
  Value isCounted;
  if (const onnx::Attribute *ignored = n.findAttribute("ignore_index")) {
    isCounted =
        e.compare(Comparison::ne, labels, static_cast<double>(ignored->i));
    labels = e.select(isCounted, labels, e.number(labels, 0));
  }
  auto type = n.type(rows).clone(n.shape(labels));
  auto table = readClassWeights(n, classes);
  if (failed(table))
    return failure();
  Value weights;
  if (*table)
    weights = n.make<GatherOp>(*table, labels, 0);
  if (isCounted) {
    if (!weights)
      weights = n.splat(type, 1);
    weights = e.select(isCounted, weights, e.number(weights, 0));
  }
  Value loss = e.neg(n.make<GatherOp>(rows, labels, last, last));
  if (weights)
    loss = e.mul(loss, weights);
  if (double smoothing = onnx::findLabelSmoothing(n.getNode())) {
    Value others = rows;
    if (*table)
      others = e.mul(others, spreadOverRows(n, *table, rows));
    others = e.neg(n.reduce(Reduction::sum, others, last, /*keepAxes=*/false));
    if (isCounted)
      others = e.select(isCounted, others, e.number(others, 0));
    loss = e.add(e.mul(loss, 1 - smoothing),
                 e.mul(others, smoothing / static_cast<double>(classes)));
  }
  if (!weights || n.attribute("reduction", "mean") != "mean") {
    n.setOutput(0, reduceLosses(n, loss));
    return success();
  }
  SmallVector<int64_t> all =
      llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  n.setOutput(
      0, e.div(n.reduce(Reduction::sum, loss, all, /*keepAxes=*/false),
               n.reduce(Reduction::sum, weights, all, /*keepAxes=*/false)));
  return success();
}

/// Both inputs, if the first has classes on axis 1.
LogicalResult readScores(NodeImporter &n, Value &scores, Value &labels) {
  scores = n.tensor(0);
  labels = n.tensor(1);
  if (!scores || !labels)
    return failure();
  if (n.shape(scores).size() < 2)
    return n.error("has an input of rank " +
                   llvm::Twine(n.shape(scores).size()));
  return success();
}

LogicalResult negativeLogLikelihoodLoss(NodeImporter &n) {
  Value scores, labels;
  if (failed(readScores(n, scores, labels)))
    return failure();
  return negativeLogLikelihood(n, moveClasses(n, scores, true), labels);
}

LogicalResult softmaxCrossEntropyLoss(NodeImporter &n) {
  Value scores, labels;
  if (failed(readScores(n, scores, labels)))
    return failure();
  Value rows = n.make<LogSoftmaxOp>(moveClasses(n, scores, true));
  if (n.getNode().outputs.size() > 1 && !n.getNode().outputs[1].empty())
    n.setOutput(1, moveClasses(n, rows, false));
  if (isa<FloatType>(n.type(labels).getElementType()))
    return crossEntropyOfShares(n, rows, labels);
  return negativeLogLikelihood(n, rows, labels);
}

} // namespace

ArrayRef<ImportedOperator> pp::lossOperators() {
  static const Choice reduction = {"reduction", {"none", "sum", "mean"}};
  static const ImportedOperator entries[] = {
      {.name = "NegativeLogLikelihoodLoss",
       .handler = negativeLogLikelihoodLoss,
       .types = floatTypes,
       .choices = {reduction}},
      {.name = "SoftmaxCrossEntropyLoss",
       .handler = softmaxCrossEntropyLoss,
       .types = floatTypes,
       .choices = {reduction},
       .alsoLikeFirst = "labels"},
  };
  return entries;
}
