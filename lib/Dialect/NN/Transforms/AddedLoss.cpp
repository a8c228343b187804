//===- AddedLoss.cpp ------------------------------------------------------===//

#include "pp/Dialect/NN/Transforms/AddedLoss.h"

#include "llvm/ADT/StringExtras.h"

#include <cfloat>

using namespace pp::nn;

std::optional<AddedLoss> pp::nn::parseAddedLoss(llvm::StringRef text) {
  AddedLoss added;
  llvm::StringRef rest = text;
  if (rest.contains('*')) {
    llvm::StringRef weight;
    std::tie(weight, rest) = rest.split('*');
    if (!llvm::to_float(weight, added.weight) || !(added.weight > 0) ||
        added.weight > FLT_MAX)
      return std::nullopt;
  }
  auto [name, output] = rest.split(':');
  std::optional<Loss> loss = parseName<Loss>(name);
  if (!loss || *loss == Loss::Output)
    return std::nullopt;
  added.loss = *loss;
  // Names of outputs may have '=' too.
  auto [before, after] = output.rsplit('=');
  added.output = before;
  added.target = output.contains('=') ? after.str() : "target." + before.str();
  if (added.output.empty() || added.target.empty())
    return std::nullopt;
  return added;
}
