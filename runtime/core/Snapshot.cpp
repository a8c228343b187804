//===- Snapshot.cpp -------------------------------------------------------===//
#include "core/Snapshot.h"
#include "core/AtomicFile.h"
#include "support/Error.h"
#include "support/Hash.h"

#include <algorithm>
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
/// `data` is null where another process has the tensor.
using Visitor =
    std::function<void(const std::string &name, const PlanTensor &tensor,
                       Role role, char *data, unsigned process)>;

/// Tensors to write, whichever process has them.
class Gathered {
public:
  explicit Gathered(ProcessGroup &group) : group(group) {}

  void add(const std::string &name, const PlanTensor &tensor, const char *data,
           unsigned process);
  /// Process 0 writes the file; the others send it what they have. All call it
  /// together, with the same names.
  void write(const std::string &path,
             const std::map<std::string, std::string> &metadata);

private:
  /// A copy of the tensor in a stage.
  struct Copy {
    const char *data; // null in another process
    unsigned process;
  };
  struct Entry {
    TensorView tensor;
    std::vector<Copy> copies;
  };
  void checkCopies(const std::string &name, const Entry &entry, uint64_t hash);

  ProcessGroup &group;
  std::map<std::string, Entry> entries;
};
} // namespace

/// Calls `visit` for each tensor of each stage, copies included, in the same
/// order in all processes.
static void forEachTensor(const Program &program, const Visitor &visit) {
  const Plan &plan = program.getPlan();
  for (unsigned s = 0; s < plan.stages.size(); ++s) {
    const StageMemory &memory = program.getMemories()[s];
    unsigned process = program.getPlacement().processOfStage(s);
    bool isHere = memory.isHere();
    for (const PlanTensor &tensor : plan.stages[s].parameters) {
      visit(tensor.name, tensor, Role::Parameter,
            isHere ? memory.parameter(tensor) : nullptr, process);
      for (size_t i = 0; i < plan.optimizer.states.size(); ++i)
        visit(tensor.name + "#" + plan.optimizer.states[i], tensor, Role::State,
              isHere
                  ? reinterpret_cast<char *>(memory.optimizerState(tensor, i))
                  : nullptr,
              process);
    }
    for (const PlanTensor &tensor : plan.stages[s].buffers)
      visit(tensor.name, tensor, Role::Buffer,
            isHere ? memory.buffer(tensor) : nullptr, process);
  }
}

void Gathered::add(const std::string &name, const PlanTensor &tensor,
                   const char *data, unsigned process) {
  Entry &entry = entries[name];
  entry.tensor = {tensor.type, tensor.shape, nullptr};
  entry.copies.push_back({data, process});
}

/// Process 0: whether all copies are what was written, with the hash `hash`.
void Gathered::checkCopies(const std::string &name, const Entry &entry,
                           uint64_t hash) {
  for (const Copy &copy : entry.copies) {
    uint64_t other = 0;
    if (copy.data)
      other = hashBytes(copy.data, entry.tensor.bytes());
    else
      group.receive(copy.process, &other, sizeof(other));
    if (other != hash)
      failInternal("the copies of '{}' in several stages differ", name);
  }
}

void Gathered::write(const std::string &path,
                     const std::map<std::string, std::string> &metadata) {
  static constexpr uint64_t piece = 1 << 20;
  auto forPieces = [](uint64_t bytes, auto work) {
    for (uint64_t at = 0; at < bytes; at += piece)
      work(at, std::min(piece, bytes - at));
  };
  if (group.isFirst()) {
    std::map<std::string, TensorView> tensors;
    for (const auto &[name, entry] : entries)
      tensors.emplace(name, entry.tensor);
    std::vector<char> buffer(piece);
    writeSafetensors(
        path, tensors, metadata,
        [&](const std::string &name, AtomicFile &file) {
          const Entry &entry = entries.at(name);
          bool hasCopies = entry.copies.size() > 1;
          uint64_t hash = emptyHash;
          forPieces(entry.tensor.bytes(), [&](uint64_t at, uint64_t bytes) {
            const char *data = buffer.data();
            if (entry.copies.front().data)
              data = entry.copies.front().data + at;
            else
              group.receive(entry.copies.front().process, buffer.data(), bytes);
            file.write(data, bytes);
            if (hasCopies)
              hash = hashBytes(data, bytes, hash);
          });
          if (hasCopies)
            checkCopies(name, entry, hash);
        });
  } else {
    for (const auto &[name, entry] : entries) {
      if (const char *data = entry.copies.front().data)
        forPieces(entry.tensor.bytes(), [&](uint64_t at, uint64_t bytes) {
          group.send(0, data + at, bytes);
        });
      for (const Copy &copy : entry.copies)
        if (copy.data && entry.copies.size() > 1) {
          uint64_t hash = hashBytes(copy.data, entry.tensor.bytes());
          group.send(0, &hash, sizeof(hash));
        }
    }
  }
  // Nobody goes on, or ends, before the file is there.
  group.barrier();
}

/// The values of a loss scale by their keys in the metadata.
static std::array<std::pair<const char *, float *>, 4>
nameValues(LossScaleState &state) {
  return {{{"loss_scale.scale", &state.scale},
           {"loss_scale.good_steps", &state.goodSteps},
           {"loss_scale.skipped_steps", &state.skippedSteps},
           {"loss_scale.skipped_in_a_row", &state.skippedInARow}}};
}

/// That of any stage of this process; null where the program has none.
static const LossScaleState *findLossScale(const Program &program) {
  if (program.getPlan().findLossScale())
    for (const StageMemory &memory : program.getMemories())
      if (memory.isHere())
        return memory.lossScale();
  return nullptr;
}

void pp::runtime::saveSnapshot(const std::string &path, const Program &program,
                               const TrainingPosition &position) {
  Gathered tensors(program.getGroup());
  program.download();
  forEachTensor(program, [&](const std::string &name, const PlanTensor &tensor,
                             Role role, char *data, unsigned process) {
    if (role != Role::Buffer || tensor.isMutable)
      tensors.add(name, tensor, data, process);
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
  if (const LossScaleState *state = findLossScale(program)) {
    LossScaleState copy = *state;
    for (const StageMemory &memory : program.getMemories())
      if (memory.isHere() && *memory.lossScale() != copy)
        failInternal("the loss scales of the stages differ");
    for (auto [key, value] : nameValues(copy))
      metadata[key] = fmt::format("{:a}", *value);
  }
  tensors.write(path, metadata);
}

static void copyTensor(const SafetensorsFile &file, const std::string &name,
                       const PlanTensor &tensor, const TensorView &source,
                       char *target) {
  if (source.type != tensor.type || source.shape != tensor.shape)
    failInput("'{}': tensor '{}' is {} {}, but the program has {} {}",
              file.getPath(), name, nameOf(source.type), toString(source.shape),
              nameOf(tensor.type), toString(tensor.shape));
  if (tensor.bytes && target)
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
                      Role role, char *data, unsigned) {
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
      if (memory.isHere())
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
                             Role role, char *data, unsigned) {
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
  Gathered tensors(program.getGroup());
  std::deque<std::vector<float>> unscaled;
  program.download();
  for (unsigned s = 0; s < program.getPlan().stages.size(); ++s) {
    const StageMemory &memory = program.getMemories()[s];
    for (const PlanTensor &tensor : program.getPlan().stages[s].parameters) {
      const float *gradient =
          memory.isHere() ? memory.gradient(tensor) : nullptr;
      if (gradient && program.getPlan().findLossScale()) {
        unscaled.emplace_back(gradient, gradient + *elementCount(tensor.shape));
        for (float &value : unscaled.back())
          value /= memory.lossScale()->usedScale;
        gradient = unscaled.back().data();
      }
      tensors.add(tensor.name, tensor, reinterpret_cast<const char *>(gradient),
                  program.getPlacement().processOfStage(s));
    }
  }
  tensors.write(path, {});
}
