//===- FusedHandlers.cpp - Operators with an activation behind them -------===//
//
// What ONNX Runtime writes when it saves a model that it has optimized:
// convolutions and products of com.microsoft that end with an activation.
//
//===----------------------------------------------------------------------===//

#include "Activations.h"
#include "Products.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// The activation that attribute `activation` names, of x; x where there is
/// none, and null, with an error, where it is another. `first` and `second` are
/// its numbers, where the node says them.
Value activate(NodeImporter &n, Value x, std::optional<double> first,
               std::optional<double> second) {
  std::string name = n.attribute("activation", "");
  if (name.empty())
    return x;
  Expressions e{n};
  if (name == "Clip")
    return e.max(e.min(x, second.value_or(std::numeric_limits<float>::max())),
                 first.value_or(std::numeric_limits<float>::lowest()));
  const ActivationKind *kind = findActivation(name);
  if (!kind) {
    (void)n.error("has an activation " + onnx::quoted(name) +
                  ", which is not supported");
    return nullptr;
  }
  return kind->make(e, x, first.value_or(kind->alpha),
                    second.value_or(kind->beta));
}

LogicalResult fusedConv(NodeImporter &n) {
  Value x = n.tensor(0), w = n.tensor(1);
  Value y = x && w ? importConv(n, x, w) : Value();
  if (!y || failed(addBias(n, y)))
    return failure();
  // What is added before the activation.
  if (n.hasInput(3)) {
    Value z = n.tensor(3);
    if (!z)
      return failure();
    if (n.shape(z) != n.shape(y))
      return n.error("adds a tensor of another shape than its result");
    y = n.make<AddOp>(y, z);
  }
  const onnx::Attribute *given = n.findAttribute("activation_params");
  auto number = [&](size_t index) -> std::optional<double> {
    if (!given || index >= given->floats.size())
      return std::nullopt;
    return given->floats[index];
  };
  y = activate(n, y, number(0), number(1));
  n.setOutput(0, y);
  return success(static_cast<bool>(y));
}

LogicalResult fusedGemm(NodeImporter &n) {
  Value y = importGemm(n, /*broadcasts=*/true);
  if (!y)
    return failure();
  auto number = [&](StringRef name) -> std::optional<double> {
    const onnx::Attribute *given = n.findAttribute(name);
    return given ? std::optional<double>(given->f) : std::nullopt;
  };
  // No activation has a third number.
  n.ignoreAttribute("activation_gamma");
  y = activate(n, y, number("activation_alpha"), number("activation_beta"));
  n.setOutput(0, y);
  return success(static_cast<bool>(y));
}

} // namespace

ArrayRef<ImportedOperator> pp::fusedOperators() {
  static const Choice padding = {
      "auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}};
  static const ImportedOperator entries[] = {
      {.name = "com.microsoft.FusedConv",
       .handler = fusedConv,
       .types = floatTypes,
       .choices = {padding},
       .note = "one to three spatial axes"},
      {.name = "com.microsoft.FusedGemm",
       .handler = fusedGemm,
       .types = floatTypes},
  };
  return entries;
}
