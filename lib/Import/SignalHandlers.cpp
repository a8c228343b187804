//===- SignalHandlers.cpp - ONNX operators on signals ---------------------===//
//
// Windows are constants. Fourier transforms are products with matrices of
// cosines and sines, so that their derivatives are products too.
//
//===----------------------------------------------------------------------===//

#include "Expressions.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// Numbers as a constant of an element type, which is one of floats.
Constant constantOf(ArrayRef<double> numbers, ArrayRef<int64_t> shape,
                    Type element) {
  auto real = cast<FloatType>(element);
  SmallVector<Attribute> values;
  for (double number : numbers)
    values.push_back(FloatAttr::get(real, number));
  return Constant(
      DenseElementsAttr::get(RankedTensorType::get(shape, element), values));
}

/// a[0] + a[1] cos(2 pi i / n) + a[2] cos(4 pi i / n).
template <int kind> LogicalResult window(NodeImporter &n) {
  static constexpr double coefficients[][3] = {
      {0.5, -0.5, 0}, {25.0 / 46, -21.0 / 46, 0}, {0.42, -0.5, 0.08}};
  auto size = n.known(0).integer();
  if (failed(size) || *size < 0 || *size > maxConstantElements)
    return n.error("has a size that is not between 0 and " +
                   llvm::Twine(maxConstantElements));
  int64_t given = n.attribute("output_datatype", int64_t{1});
  Type element = onnx::isDataType(given)
                     ? n.elementType(static_cast<onnx::DataType>(given))
                     : Type();
  if (!element || !isa<FloatType>(element))
    return n.error("makes numbers of a type that is not supported");
  bool isPeriodic = n.attribute("periodic", int64_t{1}) != 0;
  auto period = static_cast<double>(isPeriodic ? *size : *size - 1);
  SmallVector<double> numbers;
  for (int64_t i = 0; i < *size; ++i) {
    double angle = period == 0
                       ? 0
                       : 2 * std::numbers::pi * static_cast<double>(i) / period;
    const double *a = coefficients[kind];
    numbers.push_back(a[0] + a[1] * std::cos(angle) +
                      a[2] * std::cos(2 * angle));
  }
  n.setOutput(0, constantOf(numbers, *size, element));
  return success();
}

LogicalResult melWeightMatrix(NodeImporter &n) {
  auto bins = n.known(0).integer(), length = n.known(1).integer(),
       rate = n.known(2).integer();
  auto low = n.known(3).number(), high = n.known(4).number();
  if (failed(bins) || failed(length) || failed(rate) || failed(low) ||
      failed(high) || *bins < 1 || *length < 1 || *rate < 1 ||
      *bins > maxConstantElements || *length > maxConstantElements ||
      (*length / 2 + 1) * *bins > maxConstantElements)
    return n.error("has sizes that are not supported");
  int64_t given = n.attribute("output_datatype", int64_t{1});
  Type element = onnx::isDataType(given)
                     ? n.elementType(static_cast<onnx::DataType>(given))
                     : Type();
  if (!element || !isa<FloatType>(element))
    return n.error("makes numbers of a type that is not supported");
  auto toMel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  int64_t rows = *length / 2 + 1;
  double first = toMel(*low),
         step = (toMel(*high) - first) / static_cast<double>(*bins + 2);
  SmallVector<double> edges;
  for (int64_t i = 0; i < *bins + 2; ++i) {
    double hertz =
        700 *
        (std::pow(10, (first + static_cast<double>(i) * step) / 2595) - 1);
    edges.push_back(std::floor(static_cast<double>(*length + 1) * hertz /
                               static_cast<double>(*rate)));
  }
  SmallVector<double> numbers(rows * *bins, 0);
  for (int64_t bin = 0; bin < *bins; ++bin) {
    double from = edges[bin], middle = edges[bin + 1], to = edges[bin + 2];
    for (int64_t row = 0; row < rows; ++row) {
      auto at = static_cast<double>(row);
      double &number = numbers[row * *bins + bin];
      if (from == middle && at == middle)
        number = 1;
      else if (at >= from && at <= middle && from != middle)
        number = (at - from) / (middle - from);
      if (at >= middle && at < to && middle != to)
        number = (to - at) / (to - middle);
    }
  }
  n.setOutput(0, constantOf(numbers, {rows, *bins}, element));
  return success();
}

/// Real and imaginary part; the second is null of real numbers.
struct Complex {
  Value real, imaginary;
};

/// The parts of a tensor that has them along its last axis.
FailureOr<Complex> complexPartsOf(NodeImporter &n, Value x) {
  SmallVector<int64_t> shape(n.shape(x));
  auto last = static_cast<int64_t>(shape.size()) - 1;
  if (last < 1 || (shape[last] != 1 && shape[last] != 2)) {
    (void)n.error("has an input whose last axis is neither of real nor of "
                  "complex numbers");
    return failure();
  }
  bool isComplex = shape.pop_back_val() == 2;
  Complex parts;
  parts.real = n.reshape(n.slice(x, last, 0, 1), shape);
  if (isComplex)
    parts.imaginary = n.reshape(n.slice(x, last, 1, 2), shape);
  return parts;
}

/// The numbers as a matrix of floats; null, with an error, if there are too
/// many.
Value matrixOf(NodeImporter &n, int64_t rows, int64_t columns, Type element,
               llvm::function_ref<double(int64_t, int64_t)> number) {
  constexpr int64_t most = 1 << 22;
  if (rows < 1 || columns < 1 || rows > most || columns > most ||
      rows * columns > most) {
    (void)n.error("is a product with a matrix of " + llvm::Twine(rows) + " x " +
                  llvm::Twine(columns) + " elements; 1 to " +
                  llvm::Twine(most) + " are supported");
    return nullptr;
  }
  SmallVector<double> numbers;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      numbers.push_back(number(row, column));
  return n.constant(constantOf(numbers, {rows, columns}, element));
}

/// 2 pi i k / length, where the product does not matter beyond one turn.
double angleOf(int64_t i, int64_t k, int64_t length) {
  return 2 * std::numbers::pi * static_cast<double>(i * k % length) /
         static_cast<double>(length);
}

/// `part` with `length` elements along its last axis: cut, or with zeros.
Value fitted(NodeImporter &n, Value part, int64_t length) {
  auto last = static_cast<int64_t>(n.shape(part).size()) - 1;
  int64_t size = n.shape(part)[last];
  if (size >= length)
    return size == length ? part : n.slice(part, last, 0, length);
  SmallVector<int64_t> rest(n.shape(part));
  rest[last] = length - size;
  return n.join({part, n.splat(n.type(part).clone(rest), 0)}, last, false);
}

/// Multiplies the last axis of `part` with a matrix.
Value product(NodeImporter &n, Value part, Value matrix) {
  SmallVector<int64_t> shape(n.shape(part));
  auto last = static_cast<int64_t>(shape.size()) - 1;
  shape[last] = n.shape(matrix)[1];
  ArrayRef<int64_t> none;
  return n.make<DotGeneralOp>(n.type(part).clone(shape), part, matrix, none,
                              none, last, int64_t{0});
}

/// The real numbers whose transform begins with the parts, along a new last
/// axis of size 1; null with an error.
Value realAgain(NodeImporter &n, Complex x, int64_t length) {
  int64_t count = length / 2 + 1;
  Type element = n.type(x.real).getElementType();
  // All but the first and the middle one stand for their mirror images too.
  auto weight = [&](int64_t k) {
    return (k == 0 || 2 * k == length ? 1.0 : 2.0) /
           static_cast<double>(length);
  };
  Value cosine = matrixOf(n, count, length, element, [&](int64_t k, int64_t i) {
    return weight(k) * std::cos(angleOf(i, k, length));
  });
  if (!cosine)
    return nullptr;
  Value y = product(n, fitted(n, x.real, count), cosine);
  if (x.imaginary) {
    Value sine = matrixOf(n, count, length, element, [&](int64_t k, int64_t i) {
      return -weight(k) * std::sin(angleOf(i, k, length));
    });
    y = n.make<AddOp>(y, product(n, fitted(n, x.imaginary, count), sine));
  }
  return n.join(y, static_cast<int64_t>(n.shape(y).size()), true);
}

/// The transform along the last axis of the parts, of `length` elements, the
/// parts of the result side by side along a new last axis; null with an error.
Value transform(NodeImporter &n, Complex x, int64_t length, bool isInverse,
                bool isOneSided) {
  Expressions e{n};
  auto last = static_cast<int64_t>(n.shape(x.real).size()) - 1;
  int64_t count = isOneSided ? length / 2 + 1 : length;
  double scale = isInverse ? 1 / static_cast<double>(length) : 1;
  Type element = n.type(x.real).getElementType();
  Value cosine = matrixOf(n, length, count, element, [&](int64_t i, int64_t k) {
    return scale * std::cos(angleOf(i, k, length));
  });
  if (!cosine)
    return nullptr;
  Value sine = matrixOf(n, length, count, element, [&](int64_t i, int64_t k) {
    double angle = angleOf(i, k, length);
    return scale * std::sin(isInverse ? -angle : angle);
  });
  // (a + i b) (cos - i sin).
  Value a = fitted(n, x.real, length);
  Value real = product(n, a, cosine), imaginary = e.neg(product(n, a, sine));
  if (x.imaginary) {
    Value b = fitted(n, x.imaginary, length);
    real = e.add(real, product(n, b, sine));
    imaginary = e.add(imaginary, product(n, b, cosine));
  }
  return n.join({real, imaginary}, last + 1, true);
}

LogicalResult dft(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  int64_t rank = n.shape(x).size();
  int64_t given = -2;
  if (n.opset() < 20)
    given = n.attribute("axis", int64_t{1});
  else if (n.hasInput(2))
    given = *n.known(2).integer();
  auto axis = n.normalizeAxis(given, rank);
  if (failed(axis))
    return failure();
  if (*axis == rank - 1)
    return n.error("transforms the axis of real and imaginary parts");
  bool isInverse = n.attribute("inverse", int64_t{0}) != 0;
  bool isOneSided = n.attribute("onesided", int64_t{0}) != 0;
  // Of the first half of a transform: the numbers that it is of.
  bool isRealAgain = isInverse && isOneSided;
  int64_t length = n.shape(x)[*axis];
  if (isRealAgain)
    length = 2 * (length - 1);
  if (n.hasInput(1))
    length = *n.known(1).integer();
  auto parts = complexPartsOf(n, x);
  if (failed(parts))
    return failure();
  SmallVector<int64_t> permutation, back;
  for (int64_t i = 0; i + 1 < rank; ++i)
    if (i != *axis)
      permutation.push_back(i);
  permutation.push_back(*axis);
  for (int64_t i = 0; i + 1 < rank; ++i)
    back.push_back(llvm::find(permutation, i) - permutation.begin());
  back.push_back(rank - 1);
  Complex turned = {n.transpose(parts->real, permutation), Value()};
  if (parts->imaginary)
    turned.imaginary = n.transpose(parts->imaginary, permutation);
  Value y = isRealAgain ? realAgain(n, turned, length)
                        : transform(n, turned, length, isInverse, isOneSided);
  if (!y)
    return failure();
  n.setOutput(0, n.transpose(y, back));
  return success();
}

/// Frames of a signal, batch x samples: batch x frames x length. A frame is
/// made of pieces that are as long as a step, which lie one after the other:
///
///   signal  |  0  |  1  |  2  |  3  |  4  |  ..
///   frames  |  0  |  1  | 2:                      of 2.5 steps
///                 |  1  |  2  | 3:
Value framesOf(NodeImporter &n, Value signal, int64_t frames, int64_t length,
               int64_t step) {
  const int64_t batch = n.shape(signal)[0], samples = n.shape(signal)[1];
  const int64_t pieces = llvm::divideCeil(length, step);
  const int64_t blocks = frames - 1 + pieces;
  const int64_t missing = blocks * step - samples;
  if (missing > 0)
    signal = n.make<PadOp>(signal, ArrayRef<int64_t>{0, 0},
                           ArrayRef<int64_t>{0, missing},
                           ArrayRef<int64_t>{0, 0}, llvm::APFloat(0.0));
  else
    signal = n.slice(signal, 1, 0, blocks * step);
  signal = n.reshape(signal, {batch, blocks, step});
  SmallVector<Value> parts;
  for (int64_t piece = 0; piece < pieces; ++piece)
    parts.push_back(n.slice(signal, 1, piece, piece + frames));
  return n.slice(n.make<ConcatOp>(parts, int64_t{2}), 2, 0, length);
}

LogicalResult stft(NodeImporter &n) {
  Value signal = n.tensor(0);
  if (!signal)
    return failure();
  Value window = n.hasInput(2) ? n.tensor(2) : Value();
  // Before it said whether numbers are complex.
  if (n.shape(signal).size() == 2)
    signal = n.reshape(signal, {n.shape(signal)[0], n.shape(signal)[1], 1});
  if (n.shape(signal).size() != 3)
    return n.error("has a signal of rank " +
                   llvm::Twine(n.shape(signal).size()) +
                   "; it must be 2, or 3 with the parts of each number");
  int64_t step = *n.known(1).integer();
  int64_t length = 0;
  if (n.hasInput(3))
    length = *n.known(3).integer();
  else if (window && n.shape(window).size() == 1)
    length = n.shape(window)[0];
  int64_t samples = n.shape(signal)[1];
  if (step < 1 || length < 1 || length > samples)
    return n.error("has frames of " + llvm::Twine(length) +
                   " elements, one "
                   "each " +
                   llvm::Twine(step) + ", of " + llvm::Twine(samples));
  if (window && n.shape(window) != ArrayRef<int64_t>(length))
    return n.error("has a window of another length than its frames");
  bool isOneSided = n.attribute("onesided", int64_t{1}) != 0;
  auto parts = complexPartsOf(n, signal);
  if (failed(parts))
    return failure();
  int64_t frames = (samples - length) / step + 1;
  constexpr int64_t mostPieces = 1024;
  if (length / step >= mostPieces)
    return n.error("has frames of " + llvm::Twine(mostPieces) +
                   " steps or more");
  Expressions e{n};
  SmallVector<int64_t> shape = {n.shape(signal)[0], frames, length};
  auto framed = [&](Value part) {
    Value taken = framesOf(n, part, frames, length, step);
    return window ? e.mul(taken, n.broadcastTo(window, shape)) : taken;
  };
  Complex framedParts = {framed(parts->real), Value()};
  if (parts->imaginary)
    framedParts.imaginary = framed(parts->imaginary);
  Value y = transform(n, framedParts, length, /*isInverse=*/false, isOneSided);
  n.setOutput(0, y);
  return success(static_cast<bool>(y));
}

} // namespace

ArrayRef<ImportedOperator> pp::signalOperators() {
  static const KnownInput size = {"size", KnownInput::Scalar};
  static const ImportedOperator entries[] = {
      {.name = "BlackmanWindow",
       .handler = window<2>,
       .isDifferentiable = false,
       .known = {size}},
      {.name = "DFT",
       .handler = dft,
       .types = floatTypes,
       .known = {{"dft_length", KnownInput::Scalar},
                 {"axis", KnownInput::Scalar}},
       .note = "a product with a matrix of up to 4194304 elements"},
      {.name = "HammingWindow",
       .handler = window<1>,
       .isDifferentiable = false,
       .known = {size}},
      {.name = "HannWindow",
       .handler = window<0>,
       .isDifferentiable = false,
       .known = {size}},
      {.name = "MelWeightMatrix",
       .handler = melWeightMatrix,
       .isDifferentiable = false,
       .known = {{"num_mel_bins", KnownInput::Scalar},
                 {"dft_length", KnownInput::Scalar},
                 {"sample_rate", KnownInput::Scalar},
                 {"lower_edge_hertz", KnownInput::Scalar},
                 {"upper_edge_hertz", KnownInput::Scalar}}},
      {.name = "STFT",
       .handler = stft,
       .types = floatTypes,
       .known = {{"frame_step", KnownInput::Scalar},
                 {"frame_length", KnownInput::Scalar}}},
  };
  return entries;
}
