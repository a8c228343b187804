//===- TrainingChoice.cpp - Which initializers are trained ----------------===//

#include "TrainingChoice.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include <cmath>
#include <limits>
#include <map>

using namespace pp;

/// Masks hide with numbers of at most this.
static constexpr double hidingNumber = -1e4;

/// What is trained in f32.
static bool isWidened(onnx::DataType type) {
  return type == onnx::DataType::Float || type == onnx::DataType::Float16 ||
         type == onnx::DataType::BFloat16;
}

TrainingChoice::TrainingChoice(const onnx::Model &model,
                               const ImportOptions &options)
    : model(model), options(options), signature(model.graph) {
  freeze = parse(options.freeze, "--freeze");
  trainOnly = parse(options.trainOnly, "--train-only");
  checkPaddingIndices();
  uint64_t doubles = 0, others = 0;
  for (const onnx::Tensor &tensor : model.graph.initializers)
    if (tensor.type == onnx::DataType::Double)
      doubles += tensor.elements;
    else if (isWidened(tensor.type))
      others += tensor.elements;
  isDouble = doubles > others;
  // PyTorch's state may have names that the model has no use for.
  bool hasNames =
      llvm::any_of(model.graph.initializers, [&](const onnx::Tensor &tensor) {
        return options.parameterNames.contains(tensor.name);
      });
  if (!options.parameterNames.empty() && !hasNames)
    faults.push_back("--parameter-names: the file names no initializer of the "
                     "model");
}

void TrainingChoice::checkPaddingIndices() {
  for (const auto &[name, row] : options.paddingIndices) {
    auto refuse = [&, flag = "--padding-index=" + name + "=" +
                             std::to_string(row) + ": "](
                      const std::string &why) { faults.push_back(flag + why); };
    auto tensor =
        llvm::find_if(model.graph.initializers, [&](const onnx::Tensor &each) {
          return each.name == name;
        });
    auto readsRows = [&](const onnx::Node &node) {
      const onnx::Attribute *axis = node.attribute("axis");
      return node.opType == "Gather" && !node.inputs.empty() &&
             node.inputs[0] == name && (!axis || axis->i == 0);
    };
    if (tensor == model.graph.initializers.end())
      refuse("no initializer has such a name");
    else if (tensor->dims.empty() || row >= tensor->dims.front())
      refuse(
          "the initializer has " +
          (tensor->dims.empty() ? "no" : std::to_string(tensor->dims.front())) +
          " rows");
    else if (llvm::none_of(model.graph.nodes, readsRows))
      refuse("no Gather reads rows of the initializer");
  }
}

TrainingChoice::Patterns
TrainingChoice::parse(llvm::ArrayRef<std::string> texts, llvm::StringRef flag) {
  Patterns patterns;
  for (const std::string &text : texts) {
    auto pattern = llvm::GlobPattern::create(text);
    if (!pattern) {
      faults.push_back(
          (flag + "=" + text + ": " + llvm::toString(pattern.takeError()))
              .str());
      continue;
    }
    bool matches =
        llvm::any_of(model.graph.initializers, [&](const onnx::Tensor &tensor) {
          return pattern->match(tensor.name);
        });
    if (!matches)
      faults.push_back(
          (flag + "=" + text + ": no initializer has such a name").str());
    patterns.emplace_back(text, std::move(*pattern));
  }
  return patterns;
}

std::vector<std::string> TrainingChoice::findFaults() const { return faults; }

TrainingChoice::Decision TrainingChoice::decide(const onnx::Tensor &tensor) {
  auto [found, isNew] = decisions.try_emplace(tensor.name);
  if (isNew)
    found->second = decideAnew(tensor);
  return found->second;
}

static const llvm::fltSemantics &semanticsOf(onnx::DataType type) {
  return type == onnx::DataType::Double     ? llvm::APFloat::IEEEdouble()
         : type == onnx::DataType::Float16  ? llvm::APFloat::IEEEhalf()
         : type == onnx::DataType::BFloat16 ? llvm::APFloat::BFloat()
                                            : llvm::APFloat::IEEEsingle();
}

/// Element `i` of floating-point numbers.
static double numberAt(llvm::ArrayRef<uint8_t> bytes, onnx::DataType type,
                       uint64_t i) {
  using namespace llvm::support::endian;
  if (type == onnx::DataType::Float)
    return llvm::bit_cast<float>(read32le(bytes.data() + 4 * i));
  if (type == onnx::DataType::Double)
    return llvm::bit_cast<double>(read64le(bytes.data() + 8 * i));
  llvm::APInt bits(16, read16le(bytes.data() + 2 * i));
  return llvm::APFloat(semanticsOf(type), bits).convertToFloat();
}

/// What the values of a tensor say: "" if it may be a parameter. Only the
/// beginning is looked at; a causal mask has its first hidden number in its
/// first row.
static std::string maskIn(llvm::ArrayRef<uint8_t> bytes,
                          const onnx::Tensor &tensor) {
  uint64_t elements = tensor.elements;
  constexpr uint64_t most = 4096;
  double lowest =
      -llvm::APFloat::getLargest(semanticsOf(tensor.type)).convertToDouble();
  uint64_t count = std::min(elements, most), zeros = 0, ones = 0, hidden = 0;
  for (uint64_t i = 0; i < count; ++i) {
    double value = numberAt(bytes, tensor.type, i);
    if (std::isinf(value))
      return "holds an infinity";
    if (value == lowest)
      return "holds the lowest number";
    zeros += value == 0;
    ones += value == 1;
    hidden += value <= hidingNumber;
  }
  if (hidden > 0 && hidden + zeros == count)
    return "holds nothing but zeros and numbers that hide scores";
  // One row of each is what fresh weights and biases of norms are.
  if (tensor.dims.size() > 1 && zeros > 0 && ones > 0 && zeros + ones == count)
    return "holds nothing but zeros and ones";
  return "";
}

/// The last part of a name: "rotary.inv_freq" is "inv_freq".
static llvm::StringRef lastPart(llvm::StringRef name) {
  return name.drop_front(name.find_last_of("./:") + 1);
}

static bool isNameOfTable(llvm::StringRef name) {
  return llvm::is_contained(
      {"inv_freq", "cos", "sin", "cos_cached", "sin_cached", "cos_cache",
       "sin_cache", "mask", "attn_mask", "attention_mask", "causal_mask",
       "masked_bias", "position_ids", "relative_position_index", "running_mean",
       "running_var", "moving_mean", "moving_variance", "num_batches_tracked"},
      lastPart(name));
}

static bool isNameOfParameter(llvm::StringRef name) {
  llvm::StringRef last = lastPart(name);
  for (llvm::StringRef ending :
       {"weight", "bias", "gamma", "beta", "kernel", "embedding", "embeddings",
        "weight_g", "weight_v", "weight_orig", "scale"})
    if (last == ending || last.ends_with(("_" + ending).str()))
      return true;
  return last.starts_with("weight_") || last.starts_with("bias_");
}

/// PyTorch's exporter calls what it has computed itself val_0, val_1 and so on.
static bool isNameOfComputed(llvm::StringRef name) {
  return name.consume_front("val_") && !name.empty() &&
         llvm::all_of(name, llvm::isDigit);
}

/// Whether a module of PyTorch may call a parameter so. What is none is called
/// "onnx::Mul_7" or "/layer/Constant_output_0" by its older exporter, "clamp_1"
/// or "scalar_tensor_default" by its newer one, and "ortshared_1_0_1_0_token_7"
/// or "Constant_7" by programs that rewrite files.
static bool isNameOfAttribute(llvm::StringRef name) {
  bool isIdentifier =
      !name.empty() && !llvm::isDigit(name.front()) &&
      llvm::all_of(name, [](char letter) {
        return llvm::isAlnum(letter) || letter == '_' || letter == '.';
      });
  if (!isIdentifier || name.contains('.'))
    return isIdentifier;
  for (llvm::StringRef prefix :
       {"const", "scalar_tensor", "lifted_tensor", "ortshared"})
    if (name.starts_with_insensitive(prefix))
      return false;
  llvm::StringRef number = name.rsplit('_').second;
  return number.empty() || !llvm::all_of(number, llvm::isDigit);
}

bool TrainingChoice::isParameter(const onnx::Tensor &tensor) {
  // Such as the scale of attention.
  if (tensor.elements == 1 && tensor.dims.size() <= 1 &&
      isNameOfComputed(tensor.name))
    return false;
  if (!tensor.dims.empty())
    return true;
  return options.training ? decide(tensor).isTrained
                          : decideInTraining(tensor).isTrained;
}

TrainingChoice::Decision
TrainingChoice::decideAnew(const onnx::Tensor &tensor) const {
  if (!options.training)
    return {false, "inference"};
  return decideInTraining(tensor);
}

/// Whether it is a vector of PyTorch's spectral norm: "weight_u" beside
/// "weight_orig", or "parametrizations.weight.0._u".
bool TrainingChoice::isOfSpectralNorm(llvm::StringRef name) const {
  if (!name.consume_back("_u") && !name.consume_back("_v"))
    return false;
  return (name.contains("parametrizations.") && name.ends_with(".")) ||
         llvm::any_of(model.graph.initializers, [&](const auto &tensor) {
           return tensor.name == (name + "_orig").str();
         });
}

TrainingChoice::Decision
TrainingChoice::decideInTraining(const onnx::Tensor &tensor) const {
  for (const auto &[text, pattern] : freeze)
    if (pattern.match(tensor.name))
      return {false, "--freeze=" + text};
  bool isTrainable =
      isDouble ? tensor.type == onnx::DataType::Double : isWidened(tensor.type);
  // What a parameter is for sure is an error later, where types differ.
  bool isOther =
      isDouble ? isWidened(tensor.type) : tensor.type == onnx::DataType::Double;
  std::string ofType = "its type is " + onnx::dataTypeName(tensor.type).str();
  if (!isTrainable && !isOther)
    return {false, ofType};
  if (!trainOnly.empty()) {
    for (const auto &[text, pattern] : trainOnly)
      if (pattern.match(tensor.name))
        return {true, "--train-only=" + text};
    return {false, "not in --train-only"};
  }
  if (!options.parameterNames.empty())
    return options.parameterNames.contains(tensor.name)
               ? Decision{true, "in --parameter-names"}
               : Decision{false, "not in --parameter-names"};
  if (auto kind = signature.kindOf(tensor.name))
    switch (*kind) {
    case onnx::TorchKind::Parameter:
      return {true, "a parameter of the module, says the exporter"};
    case onnx::TorchKind::Buffer:
      return {false, "a buffer of the module, says the exporter"};
    case onnx::TorchKind::Constant:
      return {false, "a constant of the module, says the exporter"};
    }
  if (isOther)
    return {false, ofType + ", most of the model is of another"};
  auto bytes = model.bytes(tensor);
  if (!bytes) {
    llvm::consumeError(bytes.takeError());
  } else if (std::string mask = maskIn(*bytes, tensor); !mask.empty()) {
    return {false, "it " + mask, true};
  }
  if (isOfSpectralNorm(tensor.name))
    return {false, "a vector of spectral norm"};
  if (isNameOfTable(tensor.name))
    return {false, "the name of a mask, a table or a statistic", true};
  // The exporter says what the module's parameters are; this is not one.
  if (!signature.isEmpty())
    return {false, "computed by the exporter"};
  // Files of other origin keep the numbers of their formulas as initializers.
  if (tensor.dims.empty() &&
      (model.producerName != "pytorch" || !isNameOfAttribute(tensor.name)))
    return {false, "a single number", isNameOfAttribute(tensor.name)};
  if (isNameOfParameter(tensor.name))
    return {true, "the name of a parameter"};
  return {true, "a float initializer", true};
}

std::vector<std::string> TrainingChoice::describeGuesses() const {
  std::map<std::pair<bool, std::string>, llvm::SmallVector<std::string>> groups;
  for (const auto &[name, decision] : decisions)
    if (decision.isGuess)
      groups[{decision.isTrained, decision.reason}].push_back(
          onnx::quoted(name));
  std::vector<std::string> texts;
  for (auto &[key, names] : groups) {
    std::string text = "it is a guess that " + onnx::listed(names);
    text += key.first ? " should be trained (" : " should not be trained (";
    texts.push_back(text + key.second +
                    "); say it with --freeze or --train-only");
  }
  return texts;
}
