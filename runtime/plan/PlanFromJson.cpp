//===- PlanFromJson.cpp - JSON to Plan ------------------------------------===//
#include "plan/OptimizerStates.h"
#include "plan/PlanJson.h"
#include "plan/ReplicatePlan.h"
#include "plan/SharePlan.h"
#include "plan/ShortFloat.h"
#include "plan/TiePlan.h"
#include "pprt/pprt.h"
#include "support/JsonReader.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <set>

using namespace pp::runtime;

static constexpr uint64_t maxCount = 1 << 20;
/// Of steps without a flush, and of weight versions.
static constexpr uint64_t maxLag = 1 << 10;

static DataType readType(const JsonReader &json) {
  std::string name = json.string();
  if (auto type = parseDataType(name))
    return *type;
  json.fail("unknown dtype '{}'", name);
}

static Shape readShape(const JsonReader &json) {
  Shape shape;
  for (size_t i = 0, e = json.size(); i < e; ++i)
    shape.push_back(json.at(i).integer());
  if (shape.size() > 16 || !elementCount(shape))
    json.fail("{} is too large", toString(shape));
  return shape;
}

static uint64_t byteSize(DataType type, const Shape &shape) {
  return *elementCount(shape) * sizeOf(type);
}

static Phase readPhase(const JsonReader &json) {
  std::string name = json.string();
  if (std::optional<Phase> phase = pp::parsePhaseLetter(name))
    return *phase;
  json.fail("unknown phase '{}': expected F, I or W", name);
}

static ActionKind readActionKind(const JsonReader &json) {
  std::string name = json.string();
  std::optional<ActionKind> kind = pp::parseActionKind(name);
  // The others are planned only, or the executor's own.
  if (!kind || *kind == ActionKind::AllReduce || pp::isOfExecutor(*kind))
    json.fail("unknown action '{}'", name);
  return *kind;
}

static void readIndexRange(const JsonReader &entry, PlanPort &port) {
  if (port.isLossWeight() &&
      ((port.type != DataType::F32 && port.type != DataType::F64) ||
       !port.shape.empty() || port.batched))
    entry.at("role").fail("a loss weight is one number of f32 or f64");
  if (port.isSampleMask() &&
      ((port.type != DataType::F32 && port.type != DataType::F64) ||
       port.shape.size() != 1 || !port.batched))
    entry.at("role").fail("a sample mask has one number of f32 or f64 for each "
                          "sample of a micro-batch");
  if (port.isRandomCounter() &&
      (port.type != DataType::I32 || port.shape != Shape{5} || port.batched))
    entry.at("role").fail("a random counter is five numbers of i32");
  if (entry.has("range")) {
    JsonReader range = entry.at("range");
    uint64_t inSample = 1;
    for (size_t axis = port.batched ? 1 : 0; axis < port.shape.size(); ++axis)
      inSample *= static_cast<uint64_t>(port.shape[axis]);
    if (range.size() != 2 && range.size() != 2 * inSample)
      range.fail("expected a smallest and a largest number, of all elements or "
                 "of each element of a sample");
    for (size_t i = 0; i < range.size(); ++i)
      port.range.push_back(range.at(i).signedInteger());
    for (size_t i = 0; i < range.size(); i += 2)
      if (port.range[i] > port.range[i + 1])
        range.at(i).fail("expected a smallest and a largest number");
  }
  if (entry.has("ignore_index"))
    port.ignoreIndex = entry.at("ignore_index").signedInteger();
  if (entry.has("class_weights")) {
    JsonReader weights = entry.at("class_weights");
    for (size_t i = 0; i < weights.size(); ++i) {
      port.classWeights.push_back(weights.at(i).number());
      if (port.classWeights.back() < 0)
        weights.at(i).fail("expected 0 or more");
    }
    if (port.range !=
        std::vector<int64_t>{0, static_cast<int64_t>(weights.size()) - 1})
      weights.fail("expected a number for each label of the range, from 0");
  }
  if (entry.has("counted")) {
    port.counted = entry.at("counted").string();
    if (!port.isLossWeight())
      entry.at("counted").fail("only a loss weight counts labels");
  }
  if (entry.has("compared")) {
    port.compared = entry.at("compared").string();
    if (port.role != "target")
      entry.at("compared").fail("only targets are compared");
  }
  bool isIndex = port.type == DataType::I64 || port.type == DataType::I32;
  if ((!port.range.empty() || port.ignoreIndex) && !isIndex)
    entry.at("dtype").fail("only whole numbers have a range");
}

/// Of a shape that begins with the samples.
static void readSamples(const JsonReader &json, PlanPort &port) {
  const Shape numbers = readShape(json);
  if (numbers.size() != 3)
    json.fail("expected an axis, outer and inner");
  port.samples = {numbers[0], numbers[1], numbers[2]};
  const auto &[axis, outer, inner] = port.samples;
  const auto rank = static_cast<int64_t>(port.shape.size());
  const bool isCount = outer >= 1 && inner >= 1;
  const auto rows = isCount ? elementCount({outer, inner}) : std::nullopt;
  const bool hasRows = rows.value_or(0) > 1;
  if (!port.batched || !rows || axis < 0 || axis >= rank - hasRows ||
      (hasRows && static_cast<uint64_t>(port.shape[axis + 1]) != *rows))
    json.fail("{} is no place in {}", toString(numbers), toString(port.shape));
}

static std::vector<PlanPort> readPorts(const JsonReader &json, const Plan &plan,
                                       bool isFeed) {
  std::vector<PlanPort> ports;
  std::set<std::string> names;
  for (size_t i = 0, e = json.size(); i < e; ++i) {
    JsonReader entry = json.at(i);
    PlanPort port;
    port.name = entry.at("name").string();
    if (port.name.empty() || !names.insert(port.name).second)
      entry.at("name").fail("'{}' is empty or used twice", port.name);
    if (isFeed) {
      port.role = entry.at("role").string();
      if (port.role != "input" && port.role != "target" &&
          !port.isFedByRuntime())
        entry.at("role").fail("unknown role '{}'", port.role);
    }
    port.type = readType(entry.at("dtype"));
    port.shape = readShape(entry.at("shape"));
    port.bytes = byteSize(port.type, port.shape);
    port.batched = !entry.has("batched") || entry.at("batched").boolean();
    if (port.batched &&
        (port.shape.empty() || port.shape[0] != plan.microbatchSize()))
      entry.at("shape").fail(
          "axis 0 of {} is not the micro-batch size {} (batch {} / "
          "microbatches {})",
          toString(port.shape), plan.microbatchSize(), plan.batch,
          plan.microbatches);
    if (isFeed)
      readIndexRange(entry, port);
    else if (entry.has("samples"))
      readSamples(entry.at("samples"), port);
    ports.push_back(std::move(port));
  }
  for (size_t i = 0; i < ports.size(); ++i)
    if (const std::string &counted = ports[i].counted;
        !counted.empty() &&
        std::none_of(ports.begin(), ports.end(), [&](const PlanPort &port) {
          return port.role == "target" && port.name == counted;
        }))
      json.at(i).at("counted").fail("there are no targets '{}'", counted);
  return ports;
}

static PlanOptimizer readOptimizer(const JsonReader &json) {
  PlanOptimizer optimizer;
  optimizer.kind = json.at("kind").string();
  if (json.has("dtype")) {
    optimizer.type = readType(json.at("dtype"));
    if (optimizer.type != DataType::F32 && optimizer.type != DataType::F64)
      json.at("dtype").fail("an optimizer is of f32 or f64");
  }
  JsonReader states = json.at("states");
  for (size_t i = 0, e = states.size(); i < e; ++i) {
    std::string name = states.at(i).string();
    if (name.empty() ||
        std::count(optimizer.states.begin(), optimizer.states.end(), name))
      states.at(i).fail("'{}' is empty or used twice", name);
    optimizer.states.push_back(name);
  }
  JsonReader scalars = json.at("scalars");
  for (size_t i = 0, e = scalars.size(); i < e; ++i) {
    JsonReader entry = scalars.at(i);
    PlanScalar scalar;
    scalar.name = entry.at("name").string();
    for (const PlanScalar &other : optimizer.scalars)
      if (other.name == scalar.name)
        entry.at("name").fail("'{}' is used twice", scalar.name);
    if (entry.has("value")) {
      scalar.kind = PlanScalar::Kind::Value;
      scalar.value = entry.at("value").number();
    } else if (entry.has("one_minus_power_of")) {
      scalar.kind = PlanScalar::Kind::OneMinusPowerOf;
      JsonReader base = entry.at("one_minus_power_of");
      if (base.getValue().is_string())
        scalar.baseOf = base.string();
      else
        scalar.value = base.number();
    } else if (entry.has("power_of_step")) {
      scalar.kind = PlanScalar::Kind::PowerOfStep;
      scalar.value = entry.at("power_of_step").number();
    } else if (entry.has("is_first_step")) {
      scalar.kind = PlanScalar::Kind::IsFirstStep;
      if (!entry.at("is_first_step").boolean())
        entry.at("is_first_step").fail("expected true");
    } else if (entry.has("initial_scale")) {
      scalar.kind = PlanScalar::Kind::LossScale;
      scalar.value = entry.at("initial_scale").number();
      if (!isLossScale(scalar.value))
        entry.at("initial_scale").fail("expected a positive number of f32");
    } else if (entry.has("is_skipped")) {
      scalar.kind = PlanScalar::Kind::IsSkipped;
      if (!entry.at("is_skipped").boolean())
        entry.at("is_skipped").fail("expected true");
    } else {
      entry.fail("expected one of the keys 'value', 'one_minus_power_of', "
                 "'power_of_step', 'is_first_step', 'initial_scale', "
                 "'is_skipped'");
    }
    optimizer.scalars.push_back(std::move(scalar));
  }
  for (size_t i = 0; i < optimizer.scalars.size(); ++i) {
    const std::string &base = optimizer.scalars[i].baseOf;
    auto isBase = [&](const PlanScalar &scalar) {
      return scalar.name == base && scalar.kind == PlanScalar::Kind::Value;
    };
    if (!base.empty() && std::none_of(optimizer.scalars.begin(),
                                      optimizer.scalars.end(), isBase))
      scalars.at(i)
          .at("one_minus_power_of")
          .fail("no scalar '{}' with a value", base);
  }
  auto count = [&](PlanScalar::Kind kind) {
    return std::count_if(
        optimizer.scalars.begin(), optimizer.scalars.end(),
        [&](const PlanScalar &scalar) { return scalar.kind == kind; });
  };
  if (count(PlanScalar::Kind::LossScale) > 1 ||
      count(PlanScalar::Kind::LossScale) != count(PlanScalar::Kind::IsSkipped))
    scalars.fail("expected one scalar with 'initial_scale' and one with "
                 "'is_skipped', or neither");
  return optimizer;
}

static PlanArea readArea(const JsonReader &areas, const char *name,
                         uint64_t memoryBytes) {
  PlanArea area;
  if (!areas.has(name))
    return area;
  JsonReader json = areas.at(name);
  area.offset = json.at("offset").aligned();
  area.bytes = json.at("bytes").aligned();
  if (area.offset + area.bytes > memoryBytes)
    json.fail("[{}, {}) ends behind memory_bytes {}", area.offset,
              area.offset + area.bytes, memoryBytes);
  return area;
}

static PlanAreas readAreas(const JsonReader &json, const Plan &plan,
                           unsigned number, uint64_t memoryBytes) {
  PlanAreas areas;
  std::vector<std::pair<PlanArea, const char *>> all;
  for (const PlanAreas::Named &named : PlanAreas::all) {
    PlanArea area = readArea(json, named.name, memoryBytes);
    areas.*named.area = area;
    if (area.bytes)
      all.emplace_back(area, named.name);
  }
  if ((plan.findLossScale() != nullptr) != (areas.lossScale.bytes != 0))
    json.fail("a stage has an area 'loss_scale' where the optimizer has a "
              "scalar with 'initial_scale'");
  if (json.has("residuals")) {
    JsonReader residuals = json.at("residuals");
    areas.residualSlots = residuals.at("slots").integer(maxCount);
    areas.residualSlotBytes = residuals.at("slot_bytes").aligned();
    if (areas.residualSlots * areas.residualSlotBytes != areas.residuals.bytes)
      residuals.fail("bytes {} is not slots {} times slot_bytes {}",
                     areas.residuals.bytes, areas.residualSlots,
                     areas.residualSlotBytes);
  }
  std::sort(all.begin(), all.end(), [](const auto &a, const auto &b) {
    return a.first.offset < b.first.offset;
  });
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i - 1].first.offset + all[i - 1].first.bytes > all[i].first.offset)
      json.fail("'{}' and '{}' overlap", all[i - 1].second, all[i].second);
  if (plan.isTraining()) {
    if (areas.gradients.bytes < areas.parameters.bytes)
      json.at("gradients")
          .fail("bytes {} are less than those of parameters, {}",
                areas.gradients.bytes, areas.parameters.bytes);
  }
  if (areas.loss.bytes && areas.loss.bytes < sizeOf(plan.optimizer.type) *
                                                 plan.microbatchesOf(number))
    json.at("loss").fail("{} bytes are too few for {} micro-batches",
                         areas.loss.bytes, plan.microbatchesOf(number));
  return areas;
}

/// Whether the area `optimizer` holds the states of the stage's parameters.
static void checkStates(const JsonReader &areas, const Plan &plan,
                        const PlanStage &stage) {
  if (!plan.isTraining())
    return;
  std::vector<Shape> shapes;
  for (const PlanTensor &parameter : stage.parameters)
    shapes.push_back(parameter.shape);
  const PlanOptimizer &optimizer = plan.optimizer;
  uint64_t parameters = stage.areas.parameters.bytes;
  uint64_t expected =
      stateBytes(optimizer.states, optimizer.type, shapes, parameters);
  if (stage.areas.optimizer.bytes != expected)
    areas.fail("'optimizer' has {} bytes, expected {}: {} states of {}",
               stage.areas.optimizer.bytes, expected, optimizer.states.size(),
               parameters);
}

static std::string decodeHex(const JsonReader &json) {
  std::string text = json.string();
  auto digit = [&](char c) -> int {
    if (c >= '0' && c <= '9')
      return c - '0';
    if (c >= 'a' && c <= 'f')
      return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
      return c - 'A' + 10;
    json.fail("'{}' is not a hexadecimal digit", c);
  };
  if (text.size() % 2)
    json.fail("odd number of hexadecimal digits");
  std::string bytes(text.size() / 2, 0);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] =
        static_cast<char>(digit(text[2 * i]) * 16 + digit(text[2 * i + 1]));
  return bytes;
}

static uint64_t readHash(const JsonReader &json) {
  std::string text = json.string();
  const char *end = text.data() + text.size();
  uint64_t hash = 0;
  auto [next, code] = std::from_chars(text.data(), end, hash, 16);
  if (text.size() != 16 || code != std::errc() || next != end)
    json.fail("'{}' is not a hash of 16 hexadecimal digits", text);
  return hash;
}

static PlanSource readSource(const JsonReader &json, const Plan &plan,
                             DataType type, uint64_t bytes) {
  PlanSource source;
  if (json.has("dtype")) {
    source.stored = readType(json.at("dtype"));
    if (type != DataType::F32 || !isShortFloat(*source.stored))
      json.at("dtype").fail("{} is not widened to {}", nameOf(*source.stored),
                            nameOf(type));
    bytes /= 2;
  }
  if (json.has("file")) {
    source.kind = PlanSource::Kind::File;
    source.file = json.at("file").index(plan.weights.size(), "weights");
    source.offset = json.at("offset").integer();
    uint64_t size = json.at("bytes").integer();
    if (size != bytes)
      json.at("bytes").fail("{} differ from the tensor's {}", size, bytes);
    source.isTransposed =
        json.has("transposed") && json.at("transposed").boolean();
    if (uint64_t size = plan.weightsBytes[source.file];
        bytes > size || source.offset > size - bytes)
      json.fail("[{}, {}) ends behind the file's {} bytes", source.offset,
                source.offset + bytes, plan.weightsBytes[source.file]);
    if (json.has("hash"))
      source.hash = readHash(json.at("hash"));
  } else if (json.has("splat")) {
    source.kind = PlanSource::Kind::Splat;
    JsonReader splat = json.at("splat");
    source.splat = splat.getValue().is_boolean() ? double(splat.boolean())
                                                 : splat.number();
  } else if (json.has("hex")) {
    source.kind = PlanSource::Kind::Bytes;
    source.bytes = decodeHex(json.at("hex"));
    if (source.bytes.size() != bytes)
      json.at("hex").fail("{} bytes differ from the tensor's {}",
                          source.bytes.size(), bytes);
  } else {
    json.fail("expected one of the keys 'file', 'splat', 'hex'");
  }
  if (json.has("readers")) {
    JsonReader readers = json.at("readers");
    for (size_t i = 0, e = readers.size(); i < e; ++i)
      source.readers.emplace_back(readers.at(i).at(size_t(0)).integer(),
                                  readers.at(i).at(1).integer());
  }
  return source;
}

static std::vector<PlanTensor> readTensors(const JsonReader &json,
                                           const Plan &plan, PlanArea area,
                                           bool areParameters) {
  std::vector<PlanTensor> tensors;
  std::set<std::string> names;
  std::map<uint64_t, uint64_t> ranges; // offset -> end
  for (size_t i = 0, e = json.size(); i < e; ++i) {
    JsonReader entry = json.at(i);
    PlanTensor tensor;
    tensor.name = entry.at("name").string();
    if (tensor.name.empty() || !names.insert(tensor.name).second)
      entry.at("name").fail("'{}' is empty or used twice", tensor.name);
    tensor.type = readType(entry.at("dtype"));
    if (areParameters && plan.isTraining() &&
        tensor.type != plan.optimizer.type)
      entry.at("dtype").fail("parameters that are trained have to be {}, as "
                             "the optimizer is",
                             nameOf(plan.optimizer.type));
    tensor.shape = readShape(entry.at("shape"));
    tensor.bytes = byteSize(tensor.type, tensor.shape);
    tensor.offset = entry.at("offset").aligned();
    if (tensor.offset + tensor.bytes > area.bytes)
      entry.fail("[{}, {}) ends behind the area's {} bytes", tensor.offset,
                 tensor.offset + tensor.bytes, area.bytes);
    if (tensor.bytes) {
      auto next = ranges.lower_bound(tensor.offset);
      if ((next != ranges.end() &&
           next->first < tensor.offset + tensor.bytes) ||
          (next != ranges.begin() && std::prev(next)->second > tensor.offset))
        entry.at("offset").fail("overlaps another tensor of the area");
      ranges.emplace(tensor.offset, tensor.offset + tensor.bytes);
    }
    tensor.isMutable = areParameters ||
                       (entry.has("mutable") && entry.at("mutable").boolean());
    tensor.source =
        readSource(entry.at("source"), plan, tensor.type, tensor.bytes);
    if (tensor.source.isTransposed && tensor.shape.size() != 2)
      entry.at("shape").fail("only a matrix is transposed");
    if (entry.has("reason"))
      tensor.reason = entry.at("reason").string();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

static PlanReference readReference(const JsonReader &json, const Plan &plan,
                                   unsigned stage, Phase phase, bool isInput) {
  if (!json.getValue().is_object() || json.getValue().size() != 1)
    json.fail("expected an object with one key");
  if (json.has("channel")) {
    unsigned index = json.at("channel").index(plan.channels.size(), "channels");
    const PlanChannel &channel = plan.channels[index];
    if (isInput && channel.to != stage)
      json.fail("channel {} leads to stage {}", index, channel.to);
    if (!isInput && (channel.from != stage || channel.fromPhase != phase))
      json.fail("channel {} comes from phase {} of stage {}", index,
                letterOf(channel.fromPhase), channel.from);
    return {PlanReference::Kind::Channel, index};
  }
  if (isInput && json.has("feed"))
    return {PlanReference::Kind::Feed,
            json.at("feed").index(plan.feeds.size(), "feeds")};
  if (isInput && json.has("loss_scale")) {
    if (!plan.stages[stage].areas.lossScale.bytes)
      json.fail("stage {} has no 'loss_scale' area", stage);
    return {PlanReference::Kind::LossScale, 0};
  }
  if (!isInput && json.has("fetch"))
    return {PlanReference::Kind::Fetch,
            json.at("fetch").index(plan.fetches.size(), "fetches")};
  if (!isInput && json.has("loss")) {
    if (phase != Phase::Forward || !plan.isTraining())
      json.fail("the loss is an output of F in a training plan");
    if (!plan.stages[stage].areas.loss.bytes)
      json.fail("stage {} has no 'loss' area", stage);
    return {PlanReference::Kind::Loss, 0};
  }
  json.fail("expected the key {}", isInput ? "'feed', 'channel' or 'loss_scale'"
                                           : "'channel', 'fetch' or 'loss'");
}

static uint64_t outputBytes(const Plan &plan, PlanReference reference) {
  switch (reference.kind) {
  case PlanReference::Kind::Channel:
    return plan.channels[reference.index].bytes;
  case PlanReference::Kind::Fetch:
    return plan.fetches[reference.index].bytes;
  case PlanReference::Kind::Feed:
    return plan.feeds[reference.index].bytes;
  case PlanReference::Kind::Loss:
    return sizeOf(plan.optimizer.type);
  case PlanReference::Kind::LossScale:
    return sizeof(float);
  }
  return 0;
}

/// The bytes that a probe may look at in an area, from the offset on.
static uint64_t bytesBehind(const PlanProbe::Floats &floats,
                            const PlanAreas &areas, const PlanPhase &phase,
                            const Plan &plan) {
  auto behind = [&](uint64_t bytes) {
    return floats.offset <= bytes ? bytes - floats.offset : 0;
  };
  switch (floats.area) {
  case Area::Parameters:
    return behind(areas.parameters.bytes);
  case Area::Buffers:
    return behind(areas.buffers.bytes);
  case Area::Gradients:
    return behind(areas.gradients.bytes);
  case Area::Statistics:
    return behind(areas.statistics.bytes);
  case Area::Residuals:
    return behind(areas.residualSlotBytes);
  case Area::Scratch:
    return behind(areas.scratch.bytes);
  case Area::Prepared:
    return behind(areas.prepared.bytes);
  case Area::Input:
    return 0;
  case Area::Output:
    return floats.offset < phase.outputs.size()
               ? outputBytes(plan, phase.outputs[floats.offset])
               : 0;
  }
  return 0;
}

static PlanProbe readProbe(const JsonReader &json, const PlanAreas &areas,
                           const PlanPhase &phase, const Plan &plan) {
  PlanProbe probe;
  probe.node = json.at("node").string();
  JsonReader outputs = json.at("outputs");
  for (size_t i = 0, e = outputs.size(); i < e; ++i) {
    JsonReader entry = outputs.at(i);
    if (entry.size() != 4)
      entry.fail("expected a type, an area, an offset and a number");
    std::string typeName = entry.at(size_t(0)).string();
    std::optional<DataType> type = parseDataType(typeName);
    if (!type || !isFloatingPoint(*type))
      entry.fail("'{}' is no type of floating point", typeName);
    std::string name = entry.at(size_t(1)).string();
    std::optional<Area> area = pp::parseArea(name);
    if (!area)
      entry.fail("unknown area '{}'", name);
    PlanProbe::Floats floats{*type, *area, entry.at(size_t(2)).integer(),
                             entry.at(size_t(3)).integer()};
    uint64_t size = sizeOf(*type);
    if (floats.count > bytesBehind(floats, areas, phase, plan) / size ||
        floats.offset % size * (floats.area < Area::Input))
      entry.fail("{} of {} at {} lie outside of '{}'", floats.count, typeName,
                 floats.offset, name);
    probe.outputs.push_back(floats);
  }
  return probe;
}

static PlanPhase readPhaseLists(const JsonReader &json, const Plan &plan,
                                unsigned stage, Phase phase) {
  PlanPhase result;
  result.present = true;
  JsonReader inputs = json.at("inputs"), outputs = json.at("outputs");
  for (size_t i = 0, e = inputs.size(); i < e; ++i)
    result.inputs.push_back(
        readReference(inputs.at(i), plan, stage, phase, /*isInput=*/true));
  for (size_t i = 0, e = outputs.size(); i < e; ++i)
    result.outputs.push_back(
        readReference(outputs.at(i), plan, stage, phase, /*isInput=*/false));
  if (json.has("discards")) {
    JsonReader discards = json.at("discards");
    if (discards.size() != outputs.size())
      discards.fail("{} entries for {} outputs", discards.size(),
                    outputs.size());
    uint64_t areaBytes = plan.stages[stage].areas.discard.bytes;
    for (size_t i = 0, e = discards.size(); i < e; ++i) {
      uint64_t offset = discards.at(i).aligned();
      uint64_t end = offset + outputBytes(plan, result.outputs[i]);
      if (end > areaBytes)
        discards.at(i).fail("[{}, {}) ends behind the area's {} bytes", offset,
                            end, areaBytes);
      result.discards.push_back(offset);
    }
  }
  if (json.has("discard_statistics")) {
    JsonReader offset = json.at("discard_statistics");
    const PlanAreas &areas = plan.stages[stage].areas;
    result.discardStatistics = offset.aligned();
    if (*result.discardStatistics + areas.statistics.bytes >
        areas.discard.bytes)
      offset.fail("[{}, {}) ends behind the area's {} bytes",
                  *result.discardStatistics,
                  *result.discardStatistics + areas.statistics.bytes,
                  areas.discard.bytes);
  }
  if (json.has("probes")) {
    JsonReader probes = json.at("probes");
    for (size_t i = 0, e = probes.size(); i < e; ++i)
      result.probes.push_back(
          readProbe(probes.at(i), plan.stages[stage].areas, result, plan));
  }
  return result;
}

/// Where the update leaves parameters in 16 bits.
static void readPrepared(const JsonReader &json, const Plan &plan,
                         PlanStage &stage) {
  std::map<uint64_t, uint64_t> ranges; // end -> offset
  for (size_t i = 0; i < stage.parameters.size(); ++i) {
    if (!json.at("parameters").at(i).has("prepared"))
      continue;
    PlanTensor &tensor = stage.parameters[i];
    JsonReader entry = json.at("parameters").at(i).at("prepared");
    if (!plan.isTraining() || !plan.flushes || tensor.type != DataType::F32 ||
        !json.at("phases").has("P"))
      entry.fail("only an update of f32 that comes after all passes, of which "
                 "P is one, prepares a parameter");
    tensor.prepared = entry.aligned();
    uint64_t end = *tensor.prepared + tensor.bytes / 2;
    if (end > stage.areas.prepared.bytes)
      entry.fail("[{}, {}) ends behind the area's {} bytes", *tensor.prepared,
                 end, stage.areas.prepared.bytes);
    auto next = ranges.upper_bound(*tensor.prepared);
    if (next != ranges.end() && next->second < end)
      entry.fail("overlaps another parameter in the area 'prepared'");
    ranges.emplace(end, *tensor.prepared);
  }
}

static PlanStage readStage(const JsonReader &json, const Plan &plan,
                           unsigned number) {
  PlanStage stage;
  stage.name = json.at("name").string();
  if (json.has("nodes"))
    for (size_t i = 0, e = json.at("nodes").size(); i < e; ++i)
      stage.nodes.push_back(json.at("nodes").at(i).string());
  auto seconds = [&](const char *key) {
    return json.has(key) ? json.at(key).number() : 0.0;
  };
  stage.forwardSeconds = seconds("forward_seconds");
  stage.backwardSeconds = seconds("backward_seconds");
  stage.prepareSeconds = seconds("prepare_seconds");
  if (json.has("delay")) {
    stage.readsNewest = true;
    stage.delay = json.at("delay").number();
    if (!(stage.delay >= 0) || stage.delay > double(maxLag) || plan.flushes)
      json.at("delay").fail("{} is no delay of a plan without a flush",
                            stage.delay);
  }
  if (json.has("correction")) {
    stage.correction = json.at("correction").number();
    if (!(stage.correction > 0) || stage.correction >= 1 || !(stage.delay > 0))
      json.at("correction")
          .fail("{} is not a number between 0 and 1, or there is no 'delay'",
                stage.correction);
  }
  if (json.has("versions"))
    stage.versions = json.at("versions").integer(maxLag);
  if (!stage.versions || (plan.flushes && stage.versions != 1))
    json.at("versions")
        .fail("{} weight versions, but the plan {}", stage.versions,
              plan.flushes ? "has a flush" : "needs one");
  stage.writesGradients =
      json.has("writes_gradients") && json.at("writes_gradients").boolean();
  if (json.has("weights_together"))
    stage.weightsTogether =
        json.at("weights_together").integer(PP_MOST_TOGETHER);
  if (stage.weightsTogether < 1 || (!plan.flushes && stage.weightsTogether > 1))
    json.at("weights_together")
        .fail("{} micro-batches, must be 1 or more, and 1 without a flush",
              stage.weightsTogether);
  stage.memoryBytes = json.at("memory_bytes").aligned();
  stage.areas = readAreas(json.at("areas"), plan, number, stage.memoryBytes);
  if (uint64_t expected = (stage.versions - 1) * stage.areas.versionBytes();
      stage.areas.versions.bytes != expected)
    json.at("areas").fail("'versions' has {} bytes, but {} weight versions "
                          "take {} beside the first",
                          stage.areas.versions.bytes, stage.versions, expected);
  if (uint64_t expected = stage.correction ? stage.areas.correctedBytes() : 0;
      stage.areas.corrected.bytes != expected)
    json.at("areas").fail("'corrected' has {} bytes, but must have {}",
                          stage.areas.corrected.bytes, expected);
  if (uint64_t expected =
          plan.clockDistance ? sharedLayout(plan, stage).bytes() : 0;
      stage.areas.shared.bytes != expected)
    json.at("areas").fail("'shared' has {} bytes, but must have {}",
                          stage.areas.shared.bytes, expected);
  if (uint64_t expected = (plan.lanesOf(number) - 1) * stage.areas.laneBytes();
      stage.areas.lanes.bytes != expected)
    json.at("areas").fail("'lanes' has {} bytes, but {} lanes take {} beside "
                          "the first",
                          stage.areas.lanes.bytes, plan.lanesOf(number),
                          expected);
  stage.parameters =
      readTensors(json.at("parameters"), plan, stage.areas.parameters, true);
  readPrepared(json, plan, stage);
  checkStates(json.at("areas"), plan, stage);
  stage.buffers =
      readTensors(json.at("buffers"), plan, stage.areas.buffers, false);
  for (const PlanTensor &parameter : stage.parameters)
    for (size_t i = 0; i < stage.buffers.size(); ++i)
      if (stage.buffers[i].name == parameter.name)
        json.at("buffers").at(i).at("name").fail(
            "'{}' is the name of a parameter too", parameter.name);
  JsonReader kernels = json.at("kernels");
  for (size_t i = 0, e = kernels.size(); i < e; ++i)
    stage.kernels.push_back({kernels.at(i).at("descriptor").string(),
                             kernels.at(i).at("scratchpad").integer()});
  auto kernel = [&](const char *key) -> std::optional<unsigned> {
    if (!json.has(key))
      return std::nullopt;
    JsonReader number = json.at(key);
    uint64_t value = number.integer();
    if (value >= stage.kernels.size())
      number.fail("the stage has {} kernels", stage.kernels.size());
    return value;
  };
  stage.optimizerKernel = kernel("optimizer_kernel");
  stage.finiteKernel = kernel("finite_kernel");
  stage.finiteLossKernel = kernel("finite_loss_kernel");
  stage.lossScaleKernel = kernel("loss_scale_kernel");
  if (stage.areas.lossScale.bytes) {
    if (!stage.lossScaleKernel)
      json.fail("key 'loss_scale_kernel' is missing");
    if (stage.areas.gradients.bytes && !stage.finiteKernel)
      json.fail("key 'finite_kernel' is missing");
  }
  return stage;
}

static std::vector<unsigned> readSlots(const JsonReader &json, const Plan &plan,
                                       unsigned slots) {
  std::vector<unsigned> result;
  bool isRight = plan.flushes ? json.size() == plan.microbatchesListed()
                              : json.size() > 0 && json.size() <= maxCount;
  if (!isRight)
    json.fail("{} entries for {} micro-batches", json.size(),
              plan.microbatchesListed());
  for (size_t i = 0; i < json.size(); ++i) {
    uint64_t slot = json.at(i).integer();
    if (slot >= slots)
      json.at(i).fail("slot {} of {}", slot, slots);
    result.push_back(slot);
  }
  return result;
}

static PlanChannel readChannel(const JsonReader &json, const Plan &plan,
                               size_t stageCount) {
  PlanChannel channel;
  channel.name = json.at("name").string();
  channel.kind = json.at("kind").string();
  channel.from = json.at("from").index(stageCount, "stages");
  channel.to = json.at("to").index(stageCount, "stages");
  if (channel.from == channel.to)
    json.at("to").fail("channel leads from stage {} to itself", channel.to);
  channel.fromPhase = readPhase(json.at("from_phase"));
  channel.toPhase = readPhase(json.at("to_phase"));
  channel.type = readType(json.at("dtype"));
  channel.shape = readShape(json.at("shape"));
  channel.bytes = json.at("bytes").integer();
  if (channel.bytes != byteSize(channel.type, channel.shape))
    json.at("bytes").fail("{} differ from the {} of {} {}", channel.bytes,
                          byteSize(channel.type, channel.shape),
                          nameOf(channel.type), toString(channel.shape));
  channel.sendOffset = json.at("send_offset").aligned();
  channel.receiveOffset = json.at("receive_offset").aligned();
  channel.sendSlots = json.at("send_slots").integer(maxCount);
  channel.receiveSlots = json.at("receive_slots").integer(maxCount);
  JsonReader sendSlot = json.at("send_slot");
  if (!channel.isResident())
    channel.sendSlot = readSlots(sendSlot, plan, channel.sendSlots);
  else if (sendSlot.size() != 0)
    sendSlot.fail("{} entries, but there are no send slots", sendSlot.size());
  channel.receiveSlot =
      readSlots(json.at("receive_slot"), plan, channel.receiveSlots);
  if (!plan.flushes && !channel.isResident() &&
      channel.sendSlot.size() != channel.receiveSlot.size())
    json.at("receive_slot")
        .fail("{} entries, but 'send_slot' has {}", channel.receiveSlot.size(),
              channel.sendSlot.size());
  channel.release = readActionKind(json.at("release"));
  if (channel.release >= ActionKind::Send)
    json.at("release").fail("a channel is released by F, R, B, I or W");
  return channel;
}

/// Slots have to lie in the area `channels` of their stage.
static void checkSlotBounds(const JsonReader &channels, const Plan &plan) {
  // Per stage: begin -> (end, channel).
  std::vector<std::map<uint64_t, uint64_t>> used(plan.stages.size());
  auto check = [&](const JsonReader &json, unsigned stage, uint64_t offset,
                   uint64_t bytes, unsigned slots) {
    const PlanArea &area = plan.stages[stage].areas.channels;
    uint64_t end = offset + alignUp(bytes) * slots;
    if (offset < area.offset || end > area.offset + area.bytes)
      json.fail("[{}, {}) is outside the area 'channels' of stage {}, [{}, {})",
                offset, end, stage, area.offset, area.offset + area.bytes);
  };
  for (size_t i = 0; i < plan.channels.size(); ++i) {
    const PlanChannel &channel = plan.channels[i];
    if (channel.bytes == 0)
      continue;
    check(channels.at(i).at("send_offset"), channel.from, channel.sendOffset,
          channel.bytes, channel.sendSlots);
    check(channels.at(i).at("receive_offset"), channel.to,
          channel.receiveOffset, channel.bytes, channel.receiveSlots);
  }
}

/// What stands behind the micro-batch without a flush.
static void readLag(const JsonReader &json, size_t at, bool isTransfer,
                    PlanAction &action) {
  action.lag = json.at(at).integer(maxLag);
  if (isTransfer)
    return;
  int64_t version = json.at(at + 1).signedInteger();
  if (version < -int64_t(maxLag) || version > int64_t(maxLag))
    json.at(at + 1).fail("version {} is out of range", version);
  action.version = static_cast<int>(version);
}

static PlanAction readAction(const JsonReader &json, const Plan &plan) {
  PlanAction action;
  ActionKind kind = readActionKind(json.at(size_t(0)));
  action.kind = kind;
  bool isTransfer = pp::isTransfer(kind);
  size_t expected = isTransfer ? 3 : isPerStep(kind) ? 2 : 4;
  if (!plan.flushes)
    expected = isTransfer || isPerStep(kind) ? 4 : 5;
  if (json.size() != expected)
    json.fail("'{}' has {} elements, expected {}", nameOf(kind), json.size(),
              expected);
  if (isTransfer) {
    action.channel = json.at(1).index(plan.channels.size(), "channels");
    const PlanChannel &channel = plan.channels[action.channel];
    action.stage = kind == ActionKind::Send ? channel.from : channel.to;
  } else {
    action.stage = json.at(1).index(plan.stages.size(), "stages");
  }
  if (!isPerStep(kind))
    action.microbatch =
        json.at(2).index(plan.microbatchesListed(), "microbatches");
  if (!plan.flushes) {
    readLag(json, isPerStep(kind) ? 2 : 3, isTransfer, action);
  } else if (expected == 4) {
    uint64_t slots = plan.stages[action.stage].areas.residualSlots;
    // A stage that keeps nothing for its backward pass has no slots.
    uint64_t slot = json.at(3).integer(maxCount);
    if (slot >= std::max<uint64_t>(slots, 1))
      json.at(3).fail("residual slot {} of {}", slot, slots);
    action.slot = slot;
  }
  if (!plan.isTraining() && !isTransfer && kind != ActionKind::Forward &&
      kind != ActionKind::Prepare)
    json.fail("'{}' in an inference plan", nameOf(kind));
  return action;
}

/// Where stages have unequal numbers of replicas: each has so many ranks, of
/// which it is the only stage.
static void checkRanksOfReplicas(const JsonReader &json, const Plan &plan) {
  std::vector<unsigned> ranks(plan.stages.size(), 0);
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    if (plan.ranks[r].stages.size() != 1)
      json.at(r).at("stages").fail("{} stages, but with replicas of stages a "
                                   "rank has one",
                                   plan.ranks[r].stages.size());
    ++ranks[plan.ranks[r].stages.front()];
  }
  for (size_t s = 0; s < ranks.size(); ++s)
    if (ranks[s] != plan.stageReplicas[s])
      json.fail("{} of them have stage {}, which has {} replicas", ranks[s], s,
                plan.stageReplicas[s]);
}

/// Virtual workers have the same lists, or each its own, with all stages.
static void checkRanksOfWorkers(const JsonReader &json, const Plan &plan) {
  std::vector<unsigned> workers = plan.workersOfRanks();
  unsigned count = workers.empty() ? 0 : workers.back() + 1;
  if (count > 1 && count != plan.replicas)
    json.fail("those of {} virtual workers, but there are {}", count,
              plan.replicas);
  std::vector<size_t> stages(count, 0);
  for (size_t r = 0; r < workers.size(); ++r)
    stages[workers[r]] += plan.ranks[r].stages.size();
  for (unsigned worker = 0; worker < count; ++worker)
    if (stages[worker] != plan.stages.size())
      json.fail("virtual worker {} has {} of {} stages", worker, stages[worker],
                plan.stages.size());
}

static void readRanks(const JsonReader &json, Plan &plan) {
  bool areShared = !plan.stageReplicas.empty() || plan.clockDistance;
  std::vector<int> owner(plan.stages.size(), -1);
  for (size_t r = 0, e = json.size(); r < e; ++r) {
    JsonReader entry = json.at(r);
    PlanRank rank;
    JsonReader stages = entry.at("stages");
    for (size_t i = 0; i < stages.size(); ++i) {
      unsigned stage = stages.at(i).index(plan.stages.size(), "stages");
      if (owner[stage] >= 0 && !areShared)
        stages.at(i).fail("stage {} belongs to rank {} already", stage,
                          owner[stage]);
      owner[stage] = r;
      if (plan.clockDistance &&
          std::count(rank.stages.begin(), rank.stages.end(), stage))
        stages.at(i).fail("stage {} is on this rank already", stage);
      rank.stages.push_back(stage);
    }
    JsonReader actions = entry.at("actions");
    rank.actions.reserve(actions.size());
    for (size_t i = 0, n = actions.size(); i < n; ++i) {
      PlanAction action = readAction(actions.at(i), plan);
      if (owner[action.stage] != int(r))
        actions.at(i).fail("stage {} is not on this rank", action.stage);
      rank.actions.push_back(action);
    }
    plan.ranks.push_back(std::move(rank));
  }
  for (size_t i = 0; i < owner.size(); ++i)
    if (owner[i] < 0)
      json.fail("stage {} is on no rank", i);
  if (!plan.stageReplicas.empty())
    checkRanksOfReplicas(json, plan);
  if (plan.clockDistance)
    checkRanksOfWorkers(json, plan);
}

/// Copies of a parameter in several stages have to agree.
static void checkCopies(const JsonReader &stages, const Plan &plan) {
  std::map<std::string, const PlanTensor *> first;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (const char *section : {"parameters", "buffers"}) {
      const auto &tensors = section[0] == 'p' ? plan.stages[s].parameters
                                              : plan.stages[s].buffers;
      for (size_t i = 0; i < tensors.size(); ++i) {
        auto [it, isNew] = first.emplace(tensors[i].name, &tensors[i]);
        if (!isNew && (it->second->type != tensors[i].type ||
                       it->second->shape != tensors[i].shape))
          stages.at(s).at(section).at(i).fail(
              "'{}' has another dtype or shape in an earlier stage",
              tensors[i].name);
      }
    }
}

static PlanTie readTie(const JsonReader &json, const Plan &plan) {
  PlanTie tie;
  tie.name = json.at("name").string();
  tie.bytes = json.at("bytes").integer();
  if (!tie.bytes || tie.bytes % sizeOf(plan.optimizer.type))
    json.at("bytes").fail("{} are not those of a parameter", tie.bytes);
  // Where one lies within an area.
  auto readPlace = [&](const JsonReader &place, const PlanArea &area) {
    uint64_t offset = place.aligned();
    if (tie.bytes > area.bytes || offset < area.offset ||
        offset - area.offset > area.bytes - tie.bytes)
      place.fail("{} bytes at {} are not in the area from {} to {}", tie.bytes,
                 offset, area.offset, area.offset + area.bytes);
    return offset;
  };
  JsonReader parts = json.at("parts");
  for (size_t i = 0, e = parts.size(); i < e; ++i) {
    JsonReader entry = parts.at(i);
    PlanTie::Part &part = tie.parts.emplace_back();
    part.stage = entry.at("stage").integer(plan.stages.size() - 1);
    part.offset =
        readPlace(entry.at("offset"), plan.stages[part.stage].areas.gradients);
    unsigned home = tie.parts.front().stage;
    if (entry.has("place") != (part.stage != home))
      entry.fail("a part has a 'place' where it is of another stage than the "
                 "first one");
    if (entry.has("place"))
      part.place =
          readPlace(entry.at("place"), plan.stages[home].areas.exchange);
  }
  if (tie.parts.size() < 2)
    parts.fail("{} parts are no tie", tie.parts.size());
  return tie;
}

/// The parts are added up when the gradients are complete, so nobody else has
/// their bytes. That each copy of the parameter gets the sum: it has its place
/// in the gradients where the first part of its stage has its own.
static void checkTies(const JsonReader &json, const Plan &plan) {
  std::map<unsigned, std::map<uint64_t, uint64_t>> taken; // end by begin
  auto take = [&](unsigned stage, uint64_t offset, uint64_t bytes) {
    auto &ranges = taken[stage];
    auto next = ranges.lower_bound(offset);
    bool isFree = next == ranges.end() || next->first >= offset + bytes;
    if (next != ranges.begin())
      isFree &= std::prev(next)->second <= offset;
    if (!isFree)
      json.fail("two parts have the bytes at {} of stage {}", offset, stage);
    ranges.emplace(offset, offset + bytes);
  };
  for (const PlanTie &tie : plan.ties) {
    std::set<unsigned> seen;
    for (const PlanTie::Part &part : tie.parts) {
      take(part.stage, part.offset, tie.bytes);
      if (part.place)
        take(tie.parts.front().stage, *part.place, tie.bytes);
      const PlanStage &stage = plan.stages[part.stage];
      uint64_t place = part.offset - stage.areas.gradients.offset;
      bool isFirst = seen.insert(part.stage).second;
      bool isOfParameter =
          std::any_of(stage.parameters.begin(), stage.parameters.end(),
                      [&](const PlanTensor &tensor) {
                        return tensor.name == tie.name &&
                               tensor.bytes == tie.bytes &&
                               tensor.offset == place;
                      });
      if (isFirst != isOfParameter)
        json.fail("the {} part of '{}' in stage {} is {} that of the parameter",
                  isFirst ? "first" : "second", tie.name, part.stage,
                  isFirst ? "not where the update reads" : "where it reads");
    }
  }
}

static void readStageReplicas(const JsonReader &json, size_t stages,
                              Plan &plan) {
  if (json.size() != stages || plan.replicas != 1)
    json.fail("{} numbers for {} stages, or there is 'replicas' too",
              json.size(), stages);
  uint64_t total = 0;
  for (size_t i = 0; i < stages; ++i) {
    unsigned count = json.at(i).integer(maxCount);
    if (!count || count > plan.microbatches)
      json.at(i).fail("{} replicas cannot share {} micro-batches", count,
                      plan.microbatches);
    // They are checked one by one, each with all micro-batches.
    total += uint64_t(count) * plan.microbatches;
    if (total > (uint64_t(1) << 24))
      json.at(i).fail("{} replicas with {} micro-batches are too many", count,
                      plan.microbatches);
    plan.stageReplicas.push_back(count);
  }
}

Plan pp::runtime::fromJson(std::string_view text) {
  nlohmann::json value = parseJson(text, "plan");
  JsonReader json(value, "");
  if (!value.is_object())
    failInput("plan: expected a JSON object");
  Plan plan;
  uint64_t version = json.at("version").integer();
  if (version != 1)
    json.at("version").fail("{} is not supported: this runtime reads version 1",
                            version);
  plan.model = json.at("model").string();
  plan.mode = json.at("mode").string();
  if (plan.mode != "train" && plan.mode != "infer")
    json.at("mode").fail("unknown mode '{}'", plan.mode);
  plan.hash = json.has("hash") ? json.at("hash").string() : "";
  if (json.has("model_hash"))
    plan.modelHash = json.at("model_hash").string();
  plan.batch = json.at("batch").integer(1 << 30);
  plan.microbatches = json.at("microbatches").integer(maxCount);
  if (!plan.microbatches || !plan.batch || plan.batch % plan.microbatches)
    json.at("microbatches")
        .fail("{} micro-batches do not divide a batch of {}", plan.microbatches,
              plan.batch);
  if (json.has("replicas")) {
    plan.replicas = json.at("replicas").integer(maxCount);
    if (!plan.replicas || plan.microbatches % plan.replicas)
      json.at("replicas")
          .fail("{} replicas cannot share {} micro-batches", plan.replicas,
                plan.microbatches);
  }
  if (json.has("stage_replicas"))
    readStageReplicas(json.at("stage_replicas"), json.at("stages").size(),
                      plan);
  if (json.has("gradient_lanes")) {
    plan.gradientLanes = json.at("gradient_lanes").integer(maxCount);
    unsigned most = std::max<unsigned>(1, plan.stageReplicas.size());
    for (unsigned stage = 0; stage < most; ++stage)
      if (!std::has_single_bit(plan.gradientLanes) ||
          plan.gradientLanes % plan.replicasOf(stage) || !plan.isTraining())
        json.at("gradient_lanes")
            .fail("{} lanes: must be a power of two that the {} replicas of a "
                  "training divide",
                  plan.gradientLanes, plan.replicasOf(stage));
  }
  if (json.has("whole_batches"))
    plan.wholeBatches = json.at("whole_batches").string();
  if (json.has("flush"))
    plan.flushes = json.at("flush").boolean();
  if (json.has("clock_distance")) {
    plan.clockDistance = json.at("clock_distance").integer(maxLag);
    if (plan.flushes)
      json.at("clock_distance")
          .fail("{}, but virtual workers have no flush", *plan.clockDistance);
    // Each shard meets each worker, and checks play all of them.
    constexpr uint64_t mostMeetings = 1 << 20;
    if (uint64_t(plan.replicas) * plan.replicas * json.at("stages").size() >
        mostMeetings)
      json.at("replicas")
          .fail("{} virtual workers of {} stages are too many", plan.replicas,
                json.at("stages").size());
  }
  if (!plan.flushes && ((plan.replicas > 1 && !plan.clockDistance) ||
                        plan.gradientLanes || !plan.isTraining()))
    json.at("flush").fail("only a training program without copies of the "
                          "pipeline, except for virtual workers, and without "
                          "lanes can do without a flush");
  for (size_t i = 0; !plan.flushes && i < plan.stageReplicas.size(); ++i)
    if (plan.microbatches % plan.stageReplicas[i] || plan.clockDistance)
      json.at("stage_replicas")
          .at(i)
          .fail("{} replicas of a stage cannot share {} micro-batches equally, "
                "which they must without a flush, or there are virtual workers",
                plan.stageReplicas[i], plan.microbatches);
  if (json.has("threads")) {
    plan.threads = json.at("threads").integer(PP_MOST_THREADS);
    if (!plan.threads)
      json.at("threads").fail("must be 1 or more");
  }
  if (json.has("bucket")) {
    JsonReader bucket = json.at("bucket");
    plan.bucket = {bucket.at("dim").string(), 1};
    uint64_t size = bucket.at("size").integer();
    if (size < 1 || size > (uint64_t(1) << 48))
      bucket.at("size").fail("{} is no size", size);
    plan.bucket->size = static_cast<int64_t>(size);
  }
  plan.target = json.has("target") ? json.at("target").string() : "cpu";
  plan.schedule = json.has("schedule") ? json.at("schedule").string() : "";
  if (json.has("checkpoint")) {
    std::string name = json.at("checkpoint").string();
    auto mode = pp::parseCheckpointMode(name);
    if (!mode)
      json.at("checkpoint").fail("unknown mode '{}'", name);
    plan.checkpoint = *mode;
  }
  JsonReader weights = json.at("weights"), sizes = json.at("weights_bytes");
  for (size_t i = 0, e = weights.size(); i < e; ++i)
    plan.weights.push_back(weights.at(i).string());
  for (size_t i = 0, e = sizes.size(); i < e; ++i)
    plan.weightsBytes.push_back(sizes.at(i).integer());
  if (plan.weights.size() != plan.weightsBytes.size())
    sizes.fail("{} entries for {} weights", plan.weightsBytes.size(),
               plan.weights.size());
  plan.feeds = readPorts(json.at("feeds"), plan, /*isFeed=*/true);
  plan.fetches = readPorts(json.at("fetches"), plan, /*isFeed=*/false);
  if (plan.isTraining())
    plan.optimizer = readOptimizer(json.at("optimizer"));

  JsonReader stages = json.at("stages"), channels = json.at("channels");
  if (stages.size() == 0 || stages.size() > maxCount)
    stages.fail("{} stages", stages.size());
  for (size_t i = 0, e = channels.size(); i < e; ++i)
    plan.channels.push_back(readChannel(channels.at(i), plan, stages.size()));
  for (size_t i = 0, e = stages.size(); i < e; ++i)
    plan.stages.push_back(readStage(stages.at(i), plan, i));
  // Phases refer to channels, feeds and areas, so they come last.
  for (size_t i = 0, e = stages.size(); i < e; ++i) {
    JsonReader phases = stages.at(i).at("phases");
    plan.stages[i].prepares = phases.has("P");
    plan.stages[i].phases[0] =
        readPhaseLists(phases.at("F"), plan, i, Phase::Forward);
    if (plan.isTraining()) {
      plan.stages[i].phases[1] =
          readPhaseLists(phases.at("I"), plan, i, Phase::BackwardInput);
      plan.stages[i].phases[2] =
          readPhaseLists(phases.at("W"), plan, i, Phase::BackwardWeight);
    }
  }
  checkSlotBounds(channels, plan);
  checkCopies(stages, plan);
  readRanks(json.at("ranks"), plan);
  if (json.has("ties")) {
    JsonReader ties = json.at("ties");
    if (!plan.isTraining() || !plan.flushes || !plan.stageReplicas.empty())
      ties.fail("only a training with a flush, whose stages have as many "
                "replicas, adds up gradients of ties");
    for (size_t i = 0, e = ties.size(); i < e; ++i)
      plan.ties.push_back(readTie(ties.at(i), plan));
    checkTies(ties, plan);
  }
  if (json.has("marks")) {
    JsonReader marks = json.at("marks");
    for (size_t i = 0, e = marks.size(); i < e; ++i) {
      JsonReader mark = marks.at(i);
      plan.marks.push_back({mark.at("key").string(), mark.at("node").string(),
                            mark.at("operations").string(),
                            mark.at("flops").integer(),
                            mark.at("bytes").integer()});
    }
  }
  for (size_t i = 0; i < plan.stages.size(); ++i)
    plan.stages[i].code = i;
  // Copies of unequal numbers differ in what they do, and virtual workers meet.
  if (plan.stageReplicas.empty() && !plan.clockDistance) {
    checkActions(plan);
    return plan;
  }
  Plan all = replicate(plan, /*addsUp=*/false);
  addShards(all);
  checkActions(all);
  return plan;
}

Plan Plan::parse(std::string_view text) {
  Plan plan = fromJson(text);
  if (plan.replicas > 1 || !plan.stageReplicas.empty())
    plan = replicate(plan);
  addShards(plan);
  addTies(plan);
  return plan;
}
