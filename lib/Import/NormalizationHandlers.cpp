//===- NormalizationHandlers.cpp - ONNX softmax and norms -----------------===//

#include "Expressions.h"

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
  auto norm = n.make<LayerNormOp>(x, scale, shift,
                                  llvm::APFloat(n.attribute("epsilon", 1e-5)));
  n.setOutput(0, n.reshape(norm.getOutput(), original));
  SmallVector<int64_t> kept(rows);
  kept.resize(rank, 1);
  for (size_t index : {1, 2})
    if (index < n.getNode().outputs.size() &&
        !n.getNode().outputs[index].empty())
      n.setOutput(index, n.reshape(norm->getResult(index), kept));
  return success();
}

/// Rows with mean 0 and variance 1: the last `axes` axes of each.
static Value normalized(NodeImporter &n, Value x, int64_t axes,
                        double epsilon) {
  SmallVector<int64_t> original(n.shape(x));
  SmallVector<int64_t> shape(ArrayRef(original).drop_back(axes));
  int64_t columns = 1;
  for (int64_t size : ArrayRef(original).take_back(axes))
    columns *= size;
  shape.push_back(columns);
  x = n.reshape(x, shape);
  auto row = n.type(x).clone(columns);
  auto norm = n.make<LayerNormOp>(x, n.splat(row, 1), n.splat(row, 0),
                                  llvm::APFloat(epsilon));
  return n.reshape(norm.getOutput(), original);
}

/// Whether it is a constant with this number everywhere.
static bool isEverywhere(Value value, double number) {
  const Constant constant = evaluate(value);
  return constant && llvm::all_of(constant.numbers(), [&](double element) {
           return element == number;
         });
}

/// x * scale + shift, with one scale and shift for each channel of axis 1.
/// PyTorch's exporter writes group norm as instance norm with ones and zeros,
/// and what is learned behind it.
static Value perChannel(NodeImporter &n, Value x, Value scale, Value shift) {
  Expressions e{n};
  auto spread = [&](Value value) -> Value {
    return n.make<BroadcastOp>(x.getType(), value, int64_t{1});
  };
  if (!isEverywhere(scale, 1))
    x = e.mul(x, spread(scale));
  return isEverywhere(shift, 0) ? x : e.add(x, spread(shift));
}

/// The inputs of InstanceNormalization and GroupNormalization.
static LogicalResult readNorm(NodeImporter &n, Value &x, Value &scale,
                              Value &shift) {
  x = n.tensor(0);
  scale = n.tensor(1);
  shift = n.tensor(2);
  if (!x || !scale || !shift)
    return failure();
  if (n.shape(x).size() < 3)
    return n.error("has an input of rank " + llvm::Twine(n.shape(x).size()));
  return success();
}

static LogicalResult instanceNorm(NodeImporter &n) {
  Value x, scale, shift;
  if (failed(readNorm(n, x, scale, shift)))
    return failure();
  int64_t channels = n.shape(x)[1];
  for (Value value : {scale, shift})
    if (n.shape(value) != ArrayRef<int64_t>(channels))
      return n.error("has a parameter that does not fit its " +
                     llvm::Twine(channels) + " channels");
  Value y = normalized(n, x, static_cast<int64_t>(n.shape(x).size()) - 2,
                       n.attribute("epsilon", 1e-5));
  n.setOutput(0, perChannel(n, y, scale, shift));
  return success();
}

static LogicalResult groupNorm(NodeImporter &n) {
  Value x, scale, shift;
  if (failed(readNorm(n, x, scale, shift)))
    return failure();
  SmallVector<int64_t> original(n.shape(x));
  int64_t channels = original[1];
  int64_t groups = n.attribute("num_groups", int64_t{0});
  if (groups < 1 || channels % groups != 0)
    return n.error("has " + llvm::Twine(groups) + " groups for " +
                   llvm::Twine(channels) + " channels");
  for (Value value : {scale, shift})
    if (n.shape(value) != ArrayRef<int64_t>(channels))
      return n.error("has a parameter that does not fit its " +
                     llvm::Twine(channels) + " channels");
  SmallVector<int64_t> grouped = {original[0], groups, channels / groups};
  llvm::append_range(grouped, ArrayRef(original).drop_front(2));
  Value y = normalized(n, n.reshape(x, grouped),
                       static_cast<int64_t>(grouped.size()) - 2,
                       n.attribute("epsilon", 1e-5));
  // All arithmetic is single precision at least.
  n.ignoreAttribute("stash_type");
  n.setOutput(0, perChannel(n, n.reshape(y, original), scale, shift));
  return success();
}

static LogicalResult rmsNorm(NodeImporter &n) {
  Value x = n.tensor(0), scale = n.tensor(1);
  if (!x || !scale)
    return failure();
  int64_t rank = n.shape(x).size();
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{-1}), rank);
  if (failed(axis))
    return failure();
  n.ignoreAttribute("stash_type");
  Expressions e{n};
  SmallVector<int64_t> shape(n.shape(x));
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq(*axis, rank));
  Value square = n.mean(e.mul(x, x), axes, /*keepAxes=*/false);
  Value factor = n.make<RsqrtOp>(e.add(square, n.attribute("epsilon", 1e-5)));
  Value y = e.mul(x, e.spread(factor, shape, axes));
  if (failed(n.broadcastTogether(y, scale)))
    return failure();
  if (n.shape(y) != ArrayRef<int64_t>(shape))
    return n.error("has a scale of a larger shape than its input");
  n.setOutput(0, e.mul(y, scale));
  return success();
}

static LogicalResult meanVarianceNorm(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  SmallVector<int64_t> axes = n.attribute("axes", ArrayRef<int64_t>{0, 2, 3});
  SmallVector<int64_t> shape(n.shape(x));
  for (int64_t &axis : axes) {
    auto counted = n.normalizeAxis(axis, shape.size());
    if (failed(counted))
      return failure();
    axis = *counted;
  }
  llvm::sort(axes);
  Expressions e{n};
  Value mean = n.mean(x, axes, /*keepAxes=*/false);
  Value centred = e.sub(x, e.spread(mean, shape, axes));
  Value variance = n.mean(e.mul(centred, centred), axes, /*keepAxes=*/false);
  Value deviation = e.add(e.sqrt(variance), 1e-9);
  n.setOutput(0, e.div(centred, e.spread(deviation, shape, axes)));
  return success();
}

static LogicalResult lpNorm(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  SmallVector<int64_t> shape(n.shape(x));
  auto axis = n.normalizeAxis(n.attribute("axis", int64_t{-1}), shape.size());
  if (failed(axis))
    return failure();
  int64_t power = n.attribute("p", int64_t{2});
  if (power != 1 && power != 2)
    return n.error("attribute p is " + llvm::Twine(power) +
                   "; it may be 1 or 2");
  Expressions e{n};
  Value terms = power == 1 ? e.abs(x) : e.mul(x, x);
  Value sum = n.reduce(Reduction::sum, terms, *axis, /*keepAxes=*/false);
  // What is all zeros stays so.
  Value isZero = e.compare(Comparison::eq, sum, 0);
  Value norm = e.select(isZero, e.number(sum, 1), sum);
  if (power == 2)
    norm = e.sqrt(norm);
  n.setOutput(0, e.div(x, e.spread(norm, shape, *axis)));
  return success();
}

/// x / (bias + alpha / size * the sum of the squares of `size` channels
/// around)^beta.
static LogicalResult localResponseNorm(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  SmallVector<int64_t> shape(n.shape(x));
  int64_t size = n.attribute("size", int64_t{1});
  if (shape.size() < 2)
    return n.error("has an input of rank " + llvm::Twine(shape.size()));
  if (size < 1 || size > maxConstantElements)
    return n.error("attribute size is " + llvm::Twine(size));
  Expressions e{n};
  SmallVector<int64_t> low(shape.size(), 0), high(low), interior(low);
  low[1] = (size - 1) / 2;
  high[1] = size / 2;
  Value square = e.mul(x, x);
  if (size > 1)
    square = n.make<PadOp>(square, low, high, interior, llvm::APFloat(0.0));
  Value sum = n.slice(square, 1, 0, shape[1]);
  for (int64_t shift = 1; shift < size; ++shift)
    sum = e.add(sum, n.slice(square, 1, shift, shift + shape[1]));
  double alpha = n.attribute("alpha", 1e-4) / static_cast<double>(size);
  Value base = e.add(e.mul(sum, alpha), n.attribute("bias", 1.0));
  Value power = e.binary<PowOp>(base, e.number(x, n.attribute("beta", 0.75)));
  n.setOutput(0, e.div(x, power));
  return success();
}

/// The name of the global behind a value; null if it is not a parameter, whose
/// elements may be short ones.
static FlatSymbolRefAttr symbolOf(Value value) {
  while (auto cast = value.getDefiningOp<CastOp>())
    value = cast.getInput();
  auto parameter = value.getDefiningOp<ParameterOp>();
  return parameter ? parameter.getSymbolAttr() : nullptr;
}

/// What moves the running statistics of an earlier use; null if there is none.
static CommitStatisticsOp findCommit(Block *block, FlatSymbolRefAttr mean,
                                     FlatSymbolRefAttr variance) {
  for (auto commit : block->getOps<CommitStatisticsOp>())
    if (commit.getMeanAttr() == mean || commit.getVarianceAttr() == variance)
      return commit;
  return {};
}

/// The sum of what a use and those before it move a statistic by, whose
/// accumulation goes.
static Value addToFormer(NodeImporter &n, CommitStatisticsOp former,
                         FlatSymbolRefAttr symbol, Value own) {
  Block *block = n.getBuilder().getInsertionBlock();
  auto sum = *llvm::find_if(block->getOps<AccumulateOp>(), [&](auto each) {
    return each.getState() == State::statistics &&
           each.getSymbolAttr() == symbol;
  });
  Value earlier = sum.getValue();
  sum->erase();
  // Sums over micro-batches of squares would mix the uses.
  if (!former.getEach() && symbol == former.getVarianceAttr()) {
    auto square = earlier.getDefiningOp<AddOp>();
    Operation *squaredMean = square.getRhs().getDefiningOp();
    earlier = square.getLhs();
    square->erase();
    squaredMean->erase();
  }
  double rest = 1 - former.getMomentum().convertToDouble();
  return n.make<AddOp>(n.make<MulOp>(earlier, n.splat(n.type(earlier), rest)),
                       own);
}

/// Adds the statistics of a micro-batch to the sums of the running ones.
static LogicalResult trackStatistics(NodeImporter &n, BatchNormOp norm,
                                     Value runningMean, Value runningVariance) {
  FlatSymbolRefAttr mean = symbolOf(runningMean);
  FlatSymbolRefAttr variance = symbolOf(runningVariance);
  if (!mean || !variance)
    return n.error("its running mean and variance must be initializers");
  for (FlatSymbolRefAttr symbol : {mean, variance}) {
    n.untrain(symbol.getValue(), /*isMutable=*/true);
    n.widenParameter(symbol.getValue());
  }
  // ONNX counts what stays, PyTorch what comes.
  double momentum = 1.0 - n.attribute("momentum", 0.9);
  auto former = findCommit(n.getBuilder().getInsertionBlock(), mean, variance);
  if (former &&
      (former.getMeanAttr() != mean || former.getVarianceAttr() != variance ||
       former.getMomentum().convertToDouble() != momentum))
    return n.error("shares running statistics with a batch norm that has "
                   "another momentum, or another mean or variance");
  bool isEach = n.getOptions().batchNorm == BatchNormMode::Each;
  Value m = norm.getMean(), spread = norm.getVariance();
  if (former) {
    m = addToFormer(n, former, mean, m);
    spread = addToFormer(n, former, variance, spread);
  } else if (!isEach) {
    spread = n.make<AddOp>(spread, n.make<MulOp>(m, m));
  }
  n.make<AccumulateOp>(State::statistics, mean.getValue(), m);
  auto last =
      n.make<AccumulateOp>(State::statistics, variance.getValue(), spread);
  if (former) {
    former.setEach(true);
    former.setUses(former.getUses() + 1);
    former->moveAfter(last);
    return success();
  }
  int64_t elements =
      n.type(norm.getInput()).getNumElements() / n.type(m).getNumElements();
  n.make<CommitStatisticsOp>(mean.getValue(), variance.getValue(),
                             llvm::APFloat(momentum), 1, elements,
                             /*samples=*/IntegerAttr(), isEach);
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
  // Whether it trains is said on the command line, or by the others.
  for (StringRef name : {"momentum", "training_mode", "is_test"})
    n.ignoreAttribute(name);
  bool onMicrobatch = n.isTraining() &&
                      n.getOptions().batchNorm != BatchNormMode::Frozen &&
                      !n.isFrozenNorm();
  // Layers without running statistics write those of the input there.
  bool isComputed = !symbolOf(mean) && !symbolOf(variance);
  bool asComputed = isComputed && n.attribute("training_mode", int64_t{0}) == 0;
  if (onMicrobatch && !asComputed) {
    auto norm = n.make<BatchNormOp>(x, scale, shift, /*rows=*/Value(),
                                    llvm::APFloat(epsilon));
    n.setOutput(0, norm.getOutput());
    return isComputed ? success() : trackStatistics(n, norm, mean, variance);
  }
  for (Value value : {mean, variance})
    if (FlatSymbolRefAttr symbol = symbolOf(value))
      n.untrain(symbol.getValue(), /*isMutable=*/false);
  // (x - mean) * (scale / sqrt(variance + epsilon)) + shift.
  Value deviation = n.make<SqrtOp>(
      n.make<AddOp>(variance, n.splat(n.type(variance), epsilon)));
  Value factor = n.make<DivOp>(scale, deviation);
  auto spread = [&](Value value) -> Value {
    return n.make<BroadcastOp>(type, value, int64_t{1});
  };
  Value centred = n.make<SubOp>(x, spread(mean));
  Value scaled = n.make<MulOp>(centred, spread(factor));
  n.setOutput(0, Value(n.make<AddOp>(scaled, spread(shift))));
  return success();
}

ArrayRef<ImportedOperator> pp::normalizationOperators() {
  static const ImportedOperator entries[] = {
      {.name = "BatchNormalization",
       .handler = batchNorm,
       .types = floatTypes,
       .note = "`training_mode` is chosen by --batch-norm"},
      {.name = "LayerNormalization", .handler = layerNorm, .types = floatTypes},
      {.name = "LogSoftmax",
       .handler = softmax<LogSoftmaxOp>,
       .types = floatTypes},
      {.name = "LpNormalization", .handler = lpNorm, .types = floatTypes},
      {.name = "LRN", .handler = localResponseNorm, .types = floatTypes},
      {.name = "MeanVarianceNormalization",
       .handler = meanVarianceNorm,
       .types = floatTypes},
      {.name = "GroupNormalization", .handler = groupNorm, .types = floatTypes},
      {.name = "InstanceNormalization",
       .handler = instanceNorm,
       .types = floatTypes},
      {.name = "RMSNormalization", .handler = rmsNorm, .types = floatTypes},
      {.name = "Softmax", .handler = softmax<SoftmaxOp>, .types = floatTypes},
  };
  return entries;
}
