//===- NormalizationHandlers.cpp - ONNX softmax and norms -----------------===//

#include "NodeImporter.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

template <typename Op> static LogicalResult softmax(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  int64_t rank = n.shape(x).size();
  if (rank == 0)
    return n.error("normalises a scalar");
  SmallVector<int64_t> original(n.shape(x));
  // Before opset 13 all axes from `axis` on were one row.
  bool flattens = n.opset() < 13;
  auto axis =
      n.normalizeAxis(n.attribute("axis", int64_t{flattens ? 1 : -1}), rank);
  if (failed(axis))
    return failure();
  if (flattens) {
    int64_t rows = 1, columns = 1;
    for (int64_t i = 0; i < rank; ++i)
      (i < *axis ? rows : columns) *= original[i];
    x = n.reshape(x, {rows, columns});
    n.setOutput(0, n.reshape(n.make<Op>(x), original));
    return success();
  }
  SmallVector<int64_t> permutation, inverse(rank);
  for (int64_t i = 0; i < rank; ++i)
    if (i != *axis)
      permutation.push_back(i);
  permutation.push_back(*axis);
  for (auto [to, from] : llvm::enumerate(permutation))
    inverse[from] = to;
  Value y = n.make<Op>(n.transpose(x, permutation));
  n.setOutput(0, n.transpose(y, inverse));
  return success();
}

static LogicalResult layerNorm(NodeImporter &n) {
  Value x = n.tensor(0), scale = n.tensor(1);
  if (!x || !scale)
    return failure();
  SmallVector<int64_t> original(n.shape(x));
  int64_t rank = original.size();
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{-1}), rank);
  if (failed(axis))
    return failure();
  // The normalised axes become one.
  int64_t columns = 1;
  for (int64_t size : ArrayRef(original).drop_front(*axis))
    columns *= size;
  SmallVector<int64_t> shape(ArrayRef(original).take_front(*axis));
  SmallVector<int64_t> rows(shape);
  shape.push_back(columns);
  if (n.type(scale).getNumElements() != columns)
    return n.error("has a scale with " +
                   llvm::Twine(n.type(scale).getNumElements()) +
                   " elements for rows of " + llvm::Twine(columns));
  x = n.reshape(x, shape);
  scale = n.reshape(scale, columns);
  Value shift;
  if (n.hasInput(2)) {
    shift = n.tensor(2);
    if (!shift)
      return failure();
    if (n.type(shift).getNumElements() != columns)
      return n.error("has a bias of another size than its scale");
    shift = n.reshape(shift, columns);
  } else {
    shift = n.splat(n.type(scale), 0);
  }
  auto statistics = n.type(x).clone(rows);
  auto norm =
      n.make<LayerNormOp>(x.getType(), statistics, statistics, x, scale, shift,
                          llvm::APFloat(n.attribute("epsilon", 1e-5)));
  n.setOutput(0, n.reshape(norm.getOutput(), original));
  return success();
}

/// The name of the global behind a value; null if it is not a parameter.
static FlatSymbolRefAttr symbolOf(Value value) {
  auto parameter = value.getDefiningOp<ParameterOp>();
  return parameter ? parameter.getSymbolAttr() : nullptr;
}

/// Adds the statistics of a micro-batch to the sums of the running ones.
static LogicalResult trackStatistics(NodeImporter &n, BatchNormOp norm,
                                     Value runningMean, Value runningVariance) {
  FlatSymbolRefAttr mean = symbolOf(runningMean);
  FlatSymbolRefAttr variance = symbolOf(runningVariance);
  if (!mean || !variance)
    return n.error("its running mean and variance must be initializers");
  n.untrain(mean.getValue(), /*isMutable=*/true);
  n.untrain(variance.getValue(), /*isMutable=*/true);
  Value m = norm.getMean();
  Value square = n.make<AddOp>(norm.getVariance(), n.make<MulOp>(m, m));
  n.make<AccumulateOp>(State::statistics, mean.getValue(), m);
  n.make<AccumulateOp>(State::statistics, variance.getValue(), square);
  // ONNX counts what stays, PyTorch what comes.
  double momentum = 1.0 - n.attribute("momentum", 0.9);
  int64_t elements =
      n.type(norm.getInput()).getNumElements() / n.type(m).getNumElements();
  n.make<CommitStatisticsOp>(mean.getValue(), variance.getValue(),
                             llvm::APFloat(momentum), 1, elements);
  return success();
}

static LogicalResult batchNorm(NodeImporter &n) {
  Value inputs[5];
  for (auto [index, value] : llvm::enumerate(inputs)) {
    value = n.tensor(index);
    if (!value)
      return failure();
  }
  auto [x, scale, shift, mean, variance] = inputs;
  auto type = n.type(x);
  if (type.getRank() < 2)
    return n.error("has an input of rank " + llvm::Twine(type.getRank()));
  for (Value value : {scale, shift, mean, variance})
    if (n.shape(value) != ArrayRef<int64_t>(type.getDimSize(1)))
      return n.error("has a parameter that does not fit its " +
                     llvm::Twine(type.getDimSize(1)) + " channels");
  double epsilon = n.attribute("epsilon", 1e-5);
  // Whether it trains is said on the command line.
  for (StringRef name : {"momentum", "training_mode", "is_test"})
    n.ignoreAttribute(name);
  bool onMicrobatch =
      n.isTraining() && n.getOptions().batchNorm == BatchNormMode::Micro;
  if (onMicrobatch) {
    auto norm =
        n.make<BatchNormOp>(x.getType(), scale.getType(), scale.getType(), x,
                            scale, shift, llvm::APFloat(epsilon));
    n.setOutput(0, norm.getOutput());
    return trackStatistics(n, norm, mean, variance);
  }
  for (Value value : {mean, variance})
    if (FlatSymbolRefAttr symbol = symbolOf(value))
      n.untrain(symbol.getValue(), /*isMutable=*/false);
  // (x - mean) * (scale / sqrt(variance + epsilon)) + shift.
  Value deviation = n.make<SqrtOp>(
      n.make<AddOp>(variance, n.splat(n.type(variance), epsilon)));
  Value factor = n.make<DivOp>(scale, deviation);
  auto perChannel = [&](Value value) -> Value {
    return n.make<BroadcastOp>(type, value, int64_t{1});
  };
  Value centred = n.make<SubOp>(x, perChannel(mean));
  Value scaled = n.make<MulOp>(centred, perChannel(factor));
  n.setOutput(0, Value(n.make<AddOp>(scaled, perChannel(shift))));
  return success();
}

ArrayRef<ImportedOperator> pp::normalizationOperators() {
  static const ImportedOperator entries[] = {
      {.name = "BatchNormalization",
       .handler = batchNorm,
       .types = floatTypes,
       .note = "`training_mode` is chosen by --batch-norm"},
      {.name = "LayerNormalization",
       .handler = layerNorm,
       .types = floatTypes,
       .outputs = 1},
      {.name = "LogSoftmax", .handler = softmax<LogSoftmaxOp>},
      {.name = "Softmax", .handler = softmax<SoftmaxOp>},
  };
  return entries;
}
