//===- Snapshot.cpp -------------------------------------------------------===//
#include "exec/Snapshot.h"
#include "plan/OptimizerStates.h"
#include "plan/ShortFloat.h"
#include "support/AtomicFile.h"
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
             const std::map<std::string, std::string> &metadata,
             bool hashes = false);

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
      for (size_t i = 0; i < plan.optimizer.states.size(); ++i) {
        const std::string &state = plan.optimizer.states[i];
        std::optional<Shape> shape = shapeOf(state, tensor.shape);
        if (!shape)
          continue;
        PlanTensor values = tensor;
        values.shape = *shape;
        values.bytes = bytesOf(state, tensor.type, tensor.shape);
        visit(tensor.name + "#" + state, values, Role::State,
              isHere ? memory.optimizerState(plan.optimizer, tensor, i)
                     : nullptr,
              process);
      }
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
                     const std::map<std::string, std::string> &metadata,
                     bool hashes) {
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
        [&](const std::string &name, TensorSink &sink) {
          const Entry &entry = entries.at(name);
          bool hasCopies = entry.copies.size() > 1;
          uint64_t hash = emptyHash;
          forPieces(entry.tensor.bytes(), [&](uint64_t at, uint64_t bytes) {
            const char *data = buffer.data();
            if (entry.copies.front().data)
              data = entry.copies.front().data + at;
            else
              group.receive(entry.copies.front().process, buffer.data(), bytes);
            sink.write(data, bytes);
            if (hasCopies)
              hash = hashBytes(data, bytes, hash);
          });
          if (hasCopies)
            checkCopies(name, entry, hash);
        },
        hashes);
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

uint64_t pp::runtime::stepsOfEpoch(uint64_t samples, uint64_t batch,
                                   bool dropsLast) {
  return samples / batch + (!dropsLast && samples % batch != 0);
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
      {"drop_last", position.dropsLast ? "1" : "0"},
      {"batch", std::to_string(program.getPlan().batch)}};
  // Hexadecimal, so that a resumed run has the same bits.
  for (const auto &[name, value] : position.scalars)
    metadata["scalar." + name] = fmt::format("{:a}", value);
  if (position.optimizerSteps > 0)
    metadata["optimizer_steps"] = std::to_string(position.optimizerSteps);
  if (!position.schedule.empty())
    metadata["lr_schedule"] = position.schedule;
  if (position.clipNorm > 0)
    metadata["clip_gradient_norm"] = fmt::format("{:a}", position.clipNorm);
  if (position.clipValue > 0)
    metadata["clip_gradient_value"] = fmt::format("{:a}", position.clipValue);
  for (size_t i = 0; i < position.groups.size(); ++i)
    metadata[fmt::format("group.{}", i)] = position.groups[i];
  if (const BestEvaluation &best = position.best; !best.metric.empty()) {
    metadata["best.metric"] = best.metric;
    metadata["best.value"] = fmt::format("{:a}", best.value);
    metadata["best.step"] = std::to_string(best.step);
    metadata["best.others"] = std::to_string(best.others);
  }
  if (const LossScaleState *state = findLossScale(program)) {
    LossScaleState copy = *state;
    for (const StageMemory &memory : program.getMemories())
      if (memory.isHere() && *memory.lossScale() != copy)
        failInternal("the loss scales of the stages differ");
    for (auto [key, value] : nameValues(copy))
      metadata[key] = fmt::format("{:a}", *value);
  }
  if (const std::string &model = program.getPlan().modelHash; !model.empty())
    metadata["model_hash"] = model;
  tensors.write(path, metadata, /*hashes=*/true);
}

static void checkType(const SafetensorsFile &file, const std::string &name,
                      const PlanTensor &tensor, const TensorView &source) {
  if (source.type != tensor.type || source.shape != tensor.shape)
    failInput("'{}': tensor '{}' is {} {}, but the program has {} {}",
              file.getPath(), name, nameOf(source.type), toString(source.shape),
              nameOf(tensor.type), toString(tensor.shape));
}

/// `target` may be null.
static void copyTensor(const PlanTensor &tensor, const TensorView &source,
                       char *target) {
  if (tensor.bytes && target)
    std::memcpy(target, source.data, tensor.bytes);
}

/// Whether a program that only infers has the tensor in 16 bits, and the file
/// as it was trained.
static bool isRounded(const PlanTensor &tensor, const TensorView &source) {
  return isShortFloat(tensor.type) && source.type == DataType::F32 &&
         source.shape == tensor.shape;
}

/// `target` may be null.
static void roundTensor(const PlanTensor &tensor, const TensorView &source,
                        char *target) {
  for (uint64_t i = 0; target && i < tensor.bytes / sizeof(uint16_t); ++i) {
    float value = 0;
    std::memcpy(&value, source.data + i * sizeof(value), sizeof(value));
    uint16_t bits = toShortFloat(tensor.type, value);
    std::memcpy(target + i * sizeof(bits), &bits, sizeof(bits));
  }
}

namespace {
/// Reads the metadata of a snapshot.
class MetadataReader {
public:
  explicit MetadataReader(const SafetensorsFile &file) : file(file) {}

  bool has(const std::string &key) const {
    return file.getMetadata().count(key) != 0;
  }
  const std::string &text(const std::string &key) const;
  uint64_t integer(const std::string &key) const;
  /// A number that a float holds.
  double real(const std::string &key) const;
  /// Throws where training never stands there.
  TrainingPosition position(unsigned batch) const;
  /// A training without a loss scale may go on with one.
  std::optional<LossScaleState> lossScale() const;

private:
  [[noreturn]] void fail(const std::string &key, const char *what) const {
    failInput("'{}': __metadata__.{}: '{}' is not {}", file.getPath(), key,
              text(key), what);
  }

  const SafetensorsFile &file;
};
} // namespace

const std::string &MetadataReader::text(const std::string &key) const {
  auto it = file.getMetadata().find(key);
  if (it == file.getMetadata().end())
    failInput("'{}': not a snapshot: __metadata__ lacks '{}'", file.getPath(),
              key);
  return it->second;
}

uint64_t MetadataReader::integer(const std::string &key) const {
  const std::string &digits = text(key);
  const char *end = digits.data() + digits.size();
  uint64_t value = 0;
  auto [next, code] = std::from_chars(digits.data(), end, value);
  if (code != std::errc() || next != end)
    fail(key, "a number");
  return value;
}

double MetadataReader::real(const std::string &key) const {
  const std::string &value = text(key);
  char *end = nullptr;
  double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end || !std::isfinite(static_cast<float>(number)))
    fail(key, "a number");
  return number;
}

TrainingPosition MetadataReader::position(unsigned batch) const {
  TrainingPosition position;
  position.step = integer("step");
  position.epoch = integer("epoch");
  position.stepInEpoch = integer("step_in_epoch");
  position.seed = integer("seed");
  position.shuffle = integer("shuffle") != 0;
  position.samples = integer("samples");
  // Older snapshots are of trainings that did so.
  position.dropsLast = !has("drop_last") || integer("drop_last") != 0;
  if (integer("batch") != batch)
    failInput("'{}': the snapshot's batch is {}, the program's {}",
              file.getPath(), integer("batch"), batch);
  // Centuries, and far from what overflows.
  static constexpr uint64_t mostSteps = uint64_t(1) << 48;
  uint64_t stepsPerEpoch =
      position.samples == 0
          ? UINT64_MAX
          : stepsOfEpoch(position.samples, batch, position.dropsLast);
  uint64_t steps = 0;
  if (position.step > mostSteps || position.stepInEpoch >= stepsPerEpoch ||
      __builtin_mul_overflow(position.epoch, stepsPerEpoch, &steps) ||
      __builtin_add_overflow(steps, position.stepInEpoch, &steps) ||
      steps != position.step)
    failInput("'{}': __metadata__: no training of {} samples in batches of {} "
              "is at step {}, which is step {} of epoch {} (both from 0)",
              file.getPath(), position.samples, batch, position.step,
              position.stepInEpoch, position.epoch);
  for (const auto &[key, value] : file.getMetadata())
    if (key.starts_with("scalar."))
      position.scalars.emplace_back(key.substr(7), real(key));
  if (has("optimizer_steps"))
    position.optimizerSteps = integer("optimizer_steps");
  if (has("lr_schedule"))
    position.schedule = text("lr_schedule");
  if (has("clip_gradient_norm"))
    position.clipNorm = real("clip_gradient_norm");
  if (has("clip_gradient_value"))
    position.clipValue = real("clip_gradient_value");
  for (size_t i = 0; has(fmt::format("group.{}", i)); ++i)
    position.groups.push_back(text(fmt::format("group.{}", i)));
  if (has("best.metric"))
    position.best = {text("best.metric"), real("best.value"),
                     integer("best.step"), integer("best.others")};
  return position;
}

std::optional<LossScaleState> MetadataReader::lossScale() const {
  if (!has("loss_scale.scale"))
    return std::nullopt;
  LossScaleState state;
  for (auto [key, value] : nameValues(state)) {
    *value = static_cast<float>(real(key));
    if (*value < 0)
      fail(key, "a number of at least 0");
  }
  if (!isLossScale(state.scale))
    fail("loss_scale.scale", "a positive number");
  return state;
}

/// The index of a value that is NaN or infinite.
template <typename T>
static std::optional<uint64_t> findNotFinite(const TensorView &tensor) {
  for (uint64_t at = 0; at < tensor.bytes(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, tensor.data + at, sizeof(T));
    if (!std::isfinite(value))
      return at / sizeof(T);
  }
  return std::nullopt;
}

static void requireFinite(const SafetensorsFile &file,
                          const std::string &name) {
  const TensorView &tensor = *file.find(name);
  std::optional<uint64_t> index;
  if (tensor.type == DataType::F32)
    index = findNotFinite<float>(tensor);
  if (tensor.type == DataType::F64)
    index = findNotFinite<double>(tensor);
  if (index)
    failInput("'{}': tensor '{}': value {} is NaN or infinite, so that "
              "training cannot go on from here: resume from an earlier "
              "snapshot, or pass --allow-not-finite",
              file.getPath(), name, *index);
}

static void requireModel(const SafetensorsFile &file, const Plan &plan) {
  const auto &metadata = file.getMetadata();
  auto it = metadata.find("model_hash");
  if (it == metadata.end() || plan.modelHash.empty() ||
      it->second == plan.modelHash)
    return;
  auto name = metadata.find("model");
  failInput(
      "'{}': a snapshot of another model ('{}', hash {}) than this ('{}', "
      "hash {}), which only has the same tensors; if that is right, as "
      "after another export of the model, pass --allow-other-model",
      file.getPath(), name == metadata.end() ? "" : name->second, it->second,
      plan.model, plan.modelHash);
}

TrainingPosition pp::runtime::loadSnapshot(const std::string &path,
                                           const Program &program,
                                           const SnapshotLeniency &leniency) {
  SafetensorsFile file(path);
  MetadataReader metadata(file);
  if (metadata.text("format") != "pp-mlir snapshot" ||
      metadata.text("version") != "1")
    failInput("'{}': not a snapshot of version 1", path);
  file.verifyMetadata();
  TrainingPosition position = metadata.position(program.getPlan().batch);
  std::optional<LossScaleState> lossScale;
  if (program.getPlan().findLossScale())
    lossScale = metadata.lossScale();
  // Everything is checked before anything is changed; what the file lacks keeps
  // its value.
  std::set<std::string> known, here;
  forEachTensor(program, [&](const std::string &name, const PlanTensor &tensor,
                             Role role, char *data, unsigned) {
    const TensorView *source = file.find(name);
    known.insert(name);
    if (source) {
      checkType(file, name, tensor, *source);
      if (data)
        here.insert(name);
    } else if (role != Role::Buffer || tensor.isMutable) {
      failInput("'{}': tensor '{}' is missing", path, name);
    }
  });
  for (const auto &[name, tensor] : file.getTensors())
    if (!known.count(name))
      failInput("'{}': the program has no tensor '{}'", path, name);
  if (!leniency.otherModel)
    requireModel(file, program.getPlan());
  for (const std::string &name : here) {
    file.verify(name);
    if (!leniency.notFinite)
      requireFinite(file, name);
  }
  program.download();
  forEachTensor(program, [&](const std::string &name, const PlanTensor &tensor,
                             Role, char *data, unsigned) {
    if (const TensorView *source = file.find(name))
      copyTensor(tensor, *source, data);
  });
  if (lossScale)
    for (const StageMemory &memory : program.getMemories())
      if (memory.isHere())
        *memory.lossScale() = *lossScale;
  program.upload();
  return position;
}

std::string pp::runtime::averageOf(const std::string &parameter) {
  return parameter + "#" + averageStateName;
}

void pp::runtime::requireAverages(const SafetensorsFile &file) {
  for (const auto &[name, tensor] : file.getTensors())
    if (name.ends_with(averageOf("")))
      return;
  failInput("'{}': --ema: there are no averages of parameters, which a program "
            "keeps that is compiled with --ema-decay",
            file.getPath());
}

unsigned pp::runtime::loadWeights(const std::string &path,
                                  const Program &program, bool averages) {
  SafetensorsFile file(path);
  if (averages)
    requireAverages(file);
  std::set<std::string> used;
  // What the file lacks keeps its value.
  program.download();
  forEachTensor(program, [&](const std::string &name, const PlanTensor &tensor,
                             Role role, char *data, unsigned) {
    if (role == Role::State)
      return;
    bool hasAverage = averages && file.find(averageOf(name));
    std::string key = hasAverage ? averageOf(name) : name;
    const TensorView *source = file.find(key);
    if (source) {
      if (!isRounded(tensor, *source))
        checkType(file, key, tensor, *source);
      if (data && used.insert(name).second)
        file.verify(key);
      used.insert(name);
      if (isRounded(tensor, *source))
        roundTensor(tensor, *source, data);
      else
        copyTensor(tensor, *source, data);
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

/// Why the states of the program's optimizer are not in the file as they would
/// have to be; empty: they are.
static std::string findMissingState(const SafetensorsFile &file,
                                    const MetadataReader &metadata,
                                    const Program &program) {
  if (program.getPlan().optimizer.states.empty())
    return "";
  if (!metadata.has("format") || metadata.text("format") != "pp-mlir snapshot")
    return "the file is no snapshot, which would say how many steps it is of";
  std::string missing;
  forEachTensor(program, [&](const std::string &name, const PlanTensor &tensor,
                             Role role, char *, unsigned) {
    if (role != Role::State || !missing.empty() ||
        name == averageOf(tensor.name))
      return;
    const TensorView *source = file.find(name);
    if (!source)
      missing = fmt::format("the file has no '{}'", name);
    else if (source->type != tensor.type || source->shape != tensor.shape)
      missing = fmt::format("its '{}' is {} {}", name, nameOf(source->type),
                            toString(source->shape));
  });
  return missing;
}

LoadedStart pp::runtime::loadWeightsForTraining(const std::string &path,
                                                const Program &program,
                                                bool allowNotFinite) {
  SafetensorsFile file(path);
  MetadataReader metadata(file);
  LoadedStart result;
  result.missing = findMissingState(file, metadata, program);
  bool takesState =
      result.missing.empty() && !program.getPlan().optimizer.states.empty();
  if (takesState) {
    file.verifyMetadata();
    result.optimizerSteps = metadata.integer("step");
    if (metadata.has("optimizer_steps"))
      result.optimizerSteps += metadata.integer("optimizer_steps");
  }
  // Averages that the file does not have, or not all, begin with its weights.
  bool takesAverages = true;
  forEachTensor(program, [&](const std::string &name, const PlanTensor &tensor,
                             Role role, char *, unsigned) {
    if (role == Role::State && name == averageOf(tensor.name))
      takesAverages &= file.find(name) != nullptr;
  });
  // Everything is checked before anything is changed.
  std::set<std::string> used, here;
  forEachTensor(program, [&](const std::string &name, const PlanTensor &tensor,
                             Role role, char *data, unsigned) {
    bool isAverage = name == averageOf(tensor.name);
    if (role == Role::State && !(isAverage ? takesAverages : takesState))
      return;
    const TensorView *source = file.find(name);
    if (!source && (role != Role::Buffer || tensor.isMutable))
      failInput("'{}': tensor '{}' is missing", path, name);
    if (!source)
      return;
    checkType(file, name, tensor, *source);
    used.insert(name);
    if (data && here.insert(name).second) {
      file.verify(name);
      if (!allowNotFinite)
        requireFinite(file, name);
    }
  });
  program.download();
  forEachTensor(program, [&](const std::string &name, const PlanTensor &tensor,
                             Role role, char *data, unsigned) {
    if (used.count(name))
      copyTensor(tensor, *file.find(name), data);
  });
  if (!takesAverages)
    program.startAverages();
  program.upload();
  for (const auto &[name, tensor] : file.getTensors())
    result.others += !used.count(name) && name.find('#') == std::string::npos;
  return result;
}

TensorGatherer::TensorGatherer(const Program &program, bool averages)
    : group(program.getGroup()) {
  program.download();
  forEachTensor(program, [&](const std::string &name, const PlanTensor &tensor,
                             Role role, char *data, unsigned process) {
    bool isAverage = role == Role::State && name == averageOf(tensor.name);
    if (averages && role != Role::Buffer ? isAverage : role != Role::State)
      entries.try_emplace(tensor.name, Entry{tensor.bytes, data, process});
  });
}

std::string_view TensorGatherer::get(const std::string &name) {
  const Entry &entry = entries.at(name);
  if (entry.data)
    return {entry.data, entry.bytes};
  received.resize(entry.bytes);
  group.receive(entry.process, received.data(), entry.bytes);
  return received;
}

void TensorGatherer::serve(const std::vector<std::string> &names) {
  for (const std::string &name : names)
    if (const Entry &entry = entries.at(name);
        entry.data && entry.process == group.process())
      group.send(0, entry.data, entry.bytes);
}

template <typename T>
static std::vector<char> unscale(const char *gradient, const PlanTensor &tensor,
                                 float scale) {
  std::vector<char> result(gradient, gradient + tensor.bytes);
  for (uint64_t at = 0; at < tensor.bytes; at += sizeof(T)) {
    T value;
    std::memcpy(&value, &result[at], sizeof(T));
    value /= static_cast<T>(scale);
    std::memcpy(&result[at], &value, sizeof(T));
  }
  return result;
}

std::vector<char> pp::runtime::readGradient(const Program &program,
                                            const StageMemory &memory,
                                            const PlanTensor &parameter) {
  const char *gradient = memory.gradient(parameter);
  if (!program.getPlan().findLossScale())
    return {gradient, gradient + parameter.bytes};
  auto *work =
      parameter.type == DataType::F64 ? unscale<double> : unscale<float>;
  return work(gradient, parameter, memory.lossScale()->usedScale);
}

void pp::runtime::saveGradients(const std::string &path,
                                const Program &program) {
  Gathered tensors(program.getGroup());
  std::deque<std::vector<char>> unscaled;
  program.download();
  for (unsigned s = 0; s < program.getPlan().stages.size(); ++s) {
    const StageMemory &memory = program.getMemories()[s];
    for (const PlanTensor &tensor : program.getPlan().stages[s].parameters) {
      const char *gradient =
          memory.isHere() ? memory.gradient(tensor) : nullptr;
      if (gradient && program.getPlan().findLossScale())
        gradient =
            unscaled.emplace_back(readGradient(program, memory, tensor)).data();
      tensors.add(tensor.name, tensor, gradient,
                  program.getPlacement().processOfStage(s));
    }
  }
  tensors.write(path, {});
}
