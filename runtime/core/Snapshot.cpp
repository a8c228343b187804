//===- Snapshot.cpp -------------------------------------------------------===//
#include "core/Snapshot.h"
#include "support/Error.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <set>

using namespace pp::runtime;

namespace {
enum class Role { Parameter, Buffer, State };
using Visitor = std::function<void(
    const std::string &name, const PlanTensor &tensor, Role role, char *data)>;
} // namespace

/// Calls `visit` for each tensor of each stage, copies included.
static void forEachTensor(const Program &program, const Visitor &visit) {
  const auto &states = program.getPlan().optimizer.states;
  for (const StageMemory &memory : program.getMemories()) {
    for (const PlanTensor &tensor : memory.getPlan().parameters) {
      visit(tensor.name, tensor, Role::Parameter, memory.parameter(tensor));
      for (size_t i = 0; i < states.size(); ++i)
        visit(tensor.name + "#" + states[i], tensor, Role::State,
              reinterpret_cast<char *>(memory.optimizerState(tensor, i)));
    }
    for (const PlanTensor &tensor : memory.getPlan().buffers)
      visit(tensor.name, tensor, Role::Buffer, memory.buffer(tensor));
  }
}

static void addOnce(std::map<std::string, TensorView> &tensors,
                    const std::string &name, const PlanTensor &tensor,
                    const char *data) {
  auto [it, isNew] =
      tensors.emplace(name, TensorView{tensor.type, tensor.shape, data});
  if (!isNew && tensor.bytes &&
      std::memcmp(it->second.data, data, tensor.bytes) != 0)
    failInternal("the copies of '{}' in several stages differ", name);
}

/// The values of a loss scale by their keys in the metadata.
static std::array<std::pair<const char *, float *>, 4>
nameValues(LossScaleState &state) {
  return {{{"loss_scale.scale", &state.scale},
           {"loss_scale.good_steps", &state.goodSteps},
           {"loss_scale.skipped_steps", &state.skippedSteps},
           {"loss_scale.skipped_in_a_row", &state.skippedInARow}}};
}

void pp::runtime::saveSnapshot(const std::string &path, const Program &program,
                               const TrainingPosition &position) {
  std::map<std::string, TensorView> tensors;
  program.download();
  forEachTensor(program, [&](const std::string &name, const PlanTensor &tensor,
                             Role role, char *data) {
    if (role != Role::Buffer || tensor.isMutable)
      addOnce(tensors, name, tensor, data);
  });
  std::map<std::string, std::string> metadata{
      {"format", "pp-mlir snapshot"},
      {"version", "1"},
      {"model", program.getPlan().model},
      {"plan", program.getPlan().hash},
      {"step", std::to_string(position.step)},
      {"epoch", std::to_string(position.epoch)},
      {"step_in_epoch", std::to_string(position.stepInEpoch)},
      {"seed", std::to_string(position.seed)},
      {"shuffle", position.shuffle ? "1" : "0"},
      {"samples", std::to_string(position.samples)},
      {"batch", std::to_string(program.getPlan().batch)}};
  // Hexadecimal, so that a resumed run has the same bits.
  for (const auto &[name, value] : position.scalars)
    metadata["scalar." + name] = fmt::format("{:a}", value);
  if (program.getPlan().findLossScale()) {
    LossScaleState state = *program.getMemories().front().lossScale();
    for (const StageMemory &memory : program.getMemories())
      if (*memory.lossScale() != state)
        failInternal("the loss scales of the stages differ");
    for (auto [key, value] : nameValues(state))
      metadata[key] = fmt::format("{:a}", *value);
  }
  writeSafetensors(path, tensors, metadata);
}

static void copyTensor(const SafetensorsFile &file, const std::string &name,
                       const PlanTensor &tensor, const TensorView &source,
                       char *target) {
  if (source.type != tensor.type || source.shape != tensor.shape)
    failInput("'{}': tensor '{}' is {} {}, but the program has {} {}",
              file.getPath(), name, nameOf(source.type), toString(source.shape),
              nameOf(tensor.type), toString(tensor.shape));
  if (tensor.bytes)
    std::memcpy(target, source.data, tensor.bytes);
}

TrainingPosition pp::runtime::loadSnapshot(const std::string &path,
                                           const Program &program) {
  SafetensorsFile file(path);
  const auto &metadata = file.getMetadata();
  auto text = [&](const std::string &key) -> const std::string & {
    auto it = metadata.find(key);
    if (it == metadata.end())
      failInput("'{}': not a snapshot: __metadata__ lacks '{}'", path, key);
    return it->second;
  };
  auto integer = [&](const std::string &key) {
    const std::string &digits = text(key);
    uint64_t value = 0;
    auto [end, code] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc() || end != digits.data() + digits.size())
      failInput("'{}': __metadata__.{}: '{}' is not a number", path, key,
                digits);
    return value;
  };
  if (text("format") != "pp-mlir snapshot" || text("version") != "1")
    failInput("'{}': not a snapshot of version 1", path);
  TrainingPosition position;
  position.step = integer("step");
  position.epoch = integer("epoch");
  position.stepInEpoch = integer("step_in_epoch");
  position.seed = integer("seed");
  position.shuffle = integer("shuffle") != 0;
  position.samples = integer("samples");
  if (integer("batch") != program.getPlan().batch)
    failInput("'{}': the snapshot's batch is {}, the program's {}", path,
              integer("batch"), program.getPlan().batch);
  auto real = [&](const std::string &key) {
    const std::string &value = text(key);
    char *end = nullptr;
    double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end || !std::isfinite(number))
      failInput("'{}': __metadata__.{}: '{}' is not a number", path, key,
                value);
    return number;
  };
  for (const auto &[key, value] : metadata)
    if (key.rfind("scalar.", 0) == 0)
      position.scalars.emplace_back(key.substr(7), real(key));
  // A training without a loss scale may go on with one.
  std::optional<LossScaleState> lossScale;
  if (program.getPlan().findLossScale() && metadata.count("loss_scale.scale")) {
    lossScale.emplace();
    for (auto [key, value] : nameValues(*lossScale))
      *value = static_cast<float>(real(key));
    if (!isLossScale(lossScale->scale))
      failInput("'{}': __metadata__.loss_scale.scale: '{}' is not a positive "
                "number",
                path, text("loss_scale.scale"));
  }
  // Everything is checked before anything is changed; what the file lacks keeps
  // its value.
  program.download();
  std::set<std::string> known;
  for (bool dryRun : {true, false})
    forEachTensor(program,
                  [&](const std::string &name, const PlanTensor &tensor,
                      Role role, char *data) {
                    const TensorView *source = file.find(name);
                    known.insert(name);
                    if (!source) {
                      if (role != Role::Buffer || tensor.isMutable)
                        failInput("'{}': tensor '{}' is missing", path, name);
                      return;
                    }
                    if (dryRun && (source->type == tensor.type) &&
                        (source->shape == tensor.shape))
                      return;
                    copyTensor(file, name, tensor, *source, data);
                  });
  for (const auto &[name, tensor] : file.getTensors())
    if (!known.count(name))
      failInput("'{}': the program has no tensor '{}'", path, name);
  if (lossScale)
    for (const StageMemory &memory : program.getMemories())
      *memory.lossScale() = *lossScale;
  program.upload();
  return position;
}

unsigned pp::runtime::loadWeights(const std::string &path,
                                  const Program &program) {
  SafetensorsFile file(path);
  std::set<std::string> used;
  // What the file lacks keeps its value.
  program.download();
  forEachTensor(program, [&](const std::string &name, const PlanTensor &tensor,
                             Role role, char *data) {
    if (role == Role::State)
      return;
    const TensorView *source = file.find(name);
    if (source) {
      copyTensor(file, name, tensor, *source, data);
      used.insert(name);
    } else if (role == Role::Parameter || tensor.isMutable) {
      failInput("'{}': tensor '{}' is missing", path, name);
    }
  });
  program.upload();
  unsigned others = 0;
  for (const auto &[name, tensor] : file.getTensors())
    others += !used.count(name) && name.find('#') == std::string::npos;
  return others;
}

void pp::runtime::saveGradients(const std::string &path,
                                const Program &program) {
  std::map<std::string, TensorView> tensors;
  std::deque<std::vector<float>> unscaled;
  program.download();
  for (const StageMemory &memory : program.getMemories())
    for (const PlanTensor &tensor : memory.getPlan().parameters) {
      const float *gradient = memory.gradient(tensor);
      if (program.getPlan().findLossScale()) {
        unscaled.emplace_back(gradient, gradient + *elementCount(tensor.shape));
        for (float &value : unscaled.back())
          value /= memory.lossScale()->usedScale;
        gradient = unscaled.back().data();
      }
      addOnce(tensors, tensor.name, tensor,
              reinterpret_cast<const char *>(gradient));
    }
  writeSafetensors(path, tensors, {});
}
