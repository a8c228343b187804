//===- DataSet.cpp --------------------------------------------------------===//
#include "exec/DataSet.h"
#include "exec/Shuffle.h"
#include "plan/NumberArray.h"
#include "plan/ShortFloat.h"
#include "support/ContentHash.h"
#include "support/Error.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace pp::runtime;

template <typename From, typename To> static void convert(Array &array) {
  const ArrayData &source = array.data;
  std::vector<char> result(source.size() / sizeof(From) * sizeof(To));
  for (size_t i = 0; i < source.size() / sizeof(From); ++i) {
    From from;
    std::memcpy(&from, &source[i * sizeof(From)], sizeof(From));
    To to = static_cast<To>(from);
    std::memcpy(&result[i * sizeof(To)], &to, sizeof(To));
  }
  array.data = ArrayData(std::move(result));
}

/// Rounds numbers of f32.
static void shorten(Array &array, DataType type) {
  size_t count = array.data.size() / sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, &array.data[i * sizeof(value)], sizeof(value));
    uint16_t bits = toShortFloat(type, value);
    std::memcpy(&array.data[i * sizeof(bits)], &bits, sizeof(bits));
  }
  array.data.resize(count * sizeof(uint16_t));
  array.type = type;
}

static std::string textOf(const PlanPort &port) {
  std::string shape = "[";
  for (size_t i = 0; i < port.shape.size(); ++i)
    shape += (i ? ", " : "") + (i == 0 && port.batched
                                    ? std::string("samples")
                                    : std::to_string(port.shape[i]));
  return fmt::format("{} {}]", nameOf(port.type), shape);
}

/// Element `i` of an array of whole numbers.
static int64_t integerAt(const char *data, DataType type, uint64_t i) {
  if (type == DataType::I32) {
    int32_t value;
    std::memcpy(&value, data + i * sizeof(value), sizeof(value));
    return value;
  }
  int64_t value;
  std::memcpy(&value, data + i * sizeof(value), sizeof(value));
  return value;
}

void pp::runtime::checkIndices(const PlanPort &port, const Array &array) {
  if (port.range.empty())
    return;
  constexpr uint64_t mostNamed = 5;
  uint64_t count = array.data.size() / sizeOf(array.type), wrong = 0;
  uint64_t inSample =
      port.batched ? count / std::max<uint64_t>(array.shape[0], 1) : count;
  bool isSame = port.range.size() == 2;
  std::string places;
  for (uint64_t i = 0; i < count; ++i) {
    int64_t value = integerAt(array.data.data(), array.type, i);
    uint64_t rest = i % inSample;
    auto [low, high] = port.rangeAt(rest);
    if ((value >= low && value <= high) || value == port.ignoreIndex)
      continue;
    if (++wrong > mostNamed)
      continue;
    std::vector<uint64_t> position;
    for (size_t axis = array.shape.size(); axis-- > (port.batched ? 1 : 0);) {
      position.insert(position.begin(), rest % array.shape[axis]);
      rest /= array.shape[axis];
    }
    places += fmt::format("\n  {} at sample {}", value, i / inSample);
    if (!position.empty())
      places += fmt::format(", position [{}]", fmt::join(position, ", "));
    if (!isSame)
      places += fmt::format(", which takes [{}, {}]", low, high);
  }
  if (wrong == 0)
    return;
  failInput("data: array '{}' holds {} number{} outside of {}{}:{}{}",
            port.name, wrong, wrong == 1 ? "" : "s",
            isSame ? fmt::format("[{}, {}]", port.range[0], port.range[1])
                   : "what its position takes",
            port.ignoreIndex
                ? fmt::format(" that are not {}, which is left out",
                              *port.ignoreIndex)
                : "",
            places, wrong > mostNamed ? "\n  ..." : "");
}

DataSet::DataSet(const Plan &plan, std::map<std::string, Array> arrays,
                 bool allowOthers, const Normalizations &normalizations)
    : plan(plan) {
  normalizations.requireInputs(plan);
  bool haveSamples = false;
  std::string sampleSource;
  for (const PlanPort &port : plan.feeds) {
    if (port.isFedByRuntime()) {
      feeds.emplace_back();
      normalized.emplace_back();
      continue;
    }
    normalized.push_back(normalizations.find(port));
    auto it = arrays.find(port.name);
    if (it == arrays.end())
      failInput("data: no array '{}' ({}); give it in --data FILE.npz or with "
                "--input {}=FILE.npy",
                port.name, textOf(port), port.name);
    Array array = std::move(it->second);
    arrays.erase(it);
    if (array.type == DataType::I32 && port.type == DataType::I64) {
      convert<int32_t, int64_t>(array);
      array.type = DataType::I64;
    } else if (array.type == DataType::F64 &&
               (port.type == DataType::F32 || isShortFloat(port.type))) {
      convert<double, float>(array);
      array.type = DataType::F32;
    } else if (array.type == DataType::F32 && port.type == DataType::F64) {
      convert<float, double>(array);
      array.type = DataType::F64;
    }
    bool isNormalized = normalized.back().has_value();
    if (array.type == DataType::F32 && isShortFloat(port.type) && !isNormalized)
      shorten(array, port.type);
    bool isOfType =
        isNormalized ? array.type == DataType::F32 || array.type == DataType::U8
                     : array.type == port.type;
    bool fits = isOfType && array.shape.size() == port.shape.size();
    for (size_t i = port.batched; fits && i < port.shape.size(); ++i)
      fits = array.shape[i] == port.shape[i];
    if (!fits)
      failInput("data: array '{}' is {} {}, expected {}{}", port.name,
                nameOf(array.type), toString(array.shape), textOf(port),
                array.type == DataType::U8 && port.type == DataType::F32
                    ? "; --input-scale " + port.name +
                          "=0.00392157, with --input-mean and --input-std, "
                          "makes numbers of bytes"
                    : "");
    if (port.batched) {
      uint64_t count = array.shape[0];
      if (haveSamples && count != samples)
        failInput("data: array '{}' has {} samples, '{}' has {}", port.name,
                  count, sampleSource, samples);
      haveSamples = true;
      samples = count;
      sampleSource = port.name;
    }
    checkIndices(port, array);
    feeds.push_back(std::move(array));
  }
  if (!haveSamples)
    samples = plan.batch;
  if (samples == 0)
    failInput("data: array '{}' has no samples", sampleSource);
  if (!allowOthers && !arrays.empty())
    failInput("data: the model has no input '{}'", arrays.begin()->first);
}

void DataSet::fill(Step &step, const std::vector<uint64_t> &order,
                   uint64_t first) const {
  step.rows = std::min<uint64_t>(plan.batch, order.size() - first);
  step.samples.resize(plan.batch);
  for (uint64_t row = 0; row < plan.batch; ++row)
    step.samples[row] =
        order[std::min<uint64_t>(first + row, order.size() - 1)];
  for (size_t i = 0; i < feeds.size(); ++i) {
    PortBuffer &target = step.feeds[i];
    const char *source = feeds[i].data.data();
    if (plan.feeds[i].isLossWeight()) {
      fillLossWeight(target, plan.feeds[i], step);
      continue;
    }
    if (plan.feeds[i].isSampleMask()) {
      NumberArray isSample(plan.feeds[i].type, 1);
      for (uint64_t row = 0; row < plan.batch; ++row) {
        isSample.set(0, row < step.rows ? 1 : 0);
        target.write(row, 1, isSample.data());
      }
      continue;
    }
    if (plan.feeds[i].isRandomCounter()) {
      fillRandomCounter(target, step);
      continue;
    }
    if (!plan.feeds[i].batched) {
      if (!feeds[i].data.empty())
        std::memcpy(target.at(0), source, feeds[i].data.size());
      continue;
    }
    uint64_t bytes = target.bytesPerSample();
    for (uint64_t row = 0; row < plan.batch; ++row) {
      if (normalized[i])
        fillNormalized(target, i, row, step.samples[row]);
      else
        target.write(row, 1, source + step.samples[row] * bytes);
    }
    if (plan.feeds[i].ignoreIndex)
      ignoreRows(target, plan.feeds[i], step.rows, plan.batch - step.rows);
  }
}

void DataSet::fillNormalized(PortBuffer &target, size_t feed, uint64_t row,
                             uint64_t sample) const {
  DataType type = plan.feeds[feed].type;
  const Array &array = feeds[feed];
  uint64_t count = target.bytesPerSample() / sizeOf(type);
  std::vector<float> values(count);
  normalized[feed]->apply(array.data.data() +
                              sample * count * sizeOf(array.type),
                          array.type, values.data(), count);
  if (!isShortFloat(type))
    return target.write(row, 1, reinterpret_cast<const char *>(values.data()));
  std::vector<uint16_t> rounded(count);
  for (uint64_t i = 0; i < count; ++i)
    rounded[i] = toShortFloat(type, values[i]);
  target.write(row, 1, reinterpret_cast<const char *>(rounded.data()));
}

void DataSet::ignoreRows(PortBuffer &target, const PlanPort &port,
                         uint64_t first, uint64_t count) const {
  std::vector<char> row(target.bytesPerSample());
  uint64_t size = sizeOf(port.type);
  for (uint64_t at = 0; at < row.size(); at += size) {
    if (port.type == DataType::I32) {
      auto ignored = static_cast<int32_t>(*port.ignoreIndex);
      std::memcpy(&row[at], &ignored, sizeof(ignored));
    } else {
      std::memcpy(&row[at], &*port.ignoreIndex, sizeof(int64_t));
    }
  }
  for (uint64_t i = 0; i < count; ++i)
    target.write(first + i, 1, row.data());
}

void DataSet::fillLossWeight(PortBuffer &target, const PlanPort &weightPort,
                             const Step &step) const {
  // Whole numbers of labels are exact.
  double labels = 0;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const PlanPort &port = plan.feeds[i];
    bool isCounted =
        weightPort.counted.empty() || weightPort.counted == port.name;
    if (port.role != "target" || !isCounted)
      continue;
    uint64_t inSample = *elementCount(port.shape) / port.shape[0];
    if (!port.ignoreIndex)
      labels += static_cast<double>(step.rows * inSample);
    for (uint64_t row = 0; port.ignoreIndex && row < step.rows; ++row)
      for (uint64_t k = 0; k < inSample; ++k) {
        int64_t label = integerAt(feeds[i].data.data(), port.type,
                                  step.samples[row] * inSample + k);
        if (label != *port.ignoreIndex)
          labels += port.classWeights.empty() ? 1 : port.classWeights[label];
      }
  }
  // Where nothing counts, the loss and its gradients are 0.
  NumberArray weight(weightPort.type, 1);
  weight.set(0, labels > 0 ? 1 / labels : 1);
  std::memcpy(target.at(0), weight.data(), weight.bytes());
}

void DataSet::fillRandomCounter(PortBuffer &target, const Step &step) const {
  for (unsigned k = 0; k < plan.microbatches; ++k) {
    uint32_t words[] = {static_cast<uint32_t>(step.seed),
                        static_cast<uint32_t>(step.seed >> 32),
                        static_cast<uint32_t>(step.number),
                        k * plan.microbatchSize(),
                        static_cast<uint32_t>(step.rows)};
    std::memcpy(target.at(k), words, sizeof(words));
  }
}

/// Of a feed of whole numbers: any class or token, where the program says which
/// it takes; else 1, which is what masks have where they let through.
static int64_t syntheticInteger(const PlanPort &port, uint64_t position,
                                uint64_t bits) {
  if (port.range.empty())
    return 1;
  auto [low, high] = port.rangeAt(position);
  low = std::max<int64_t>(low, 0);
  if (high == std::numeric_limits<int64_t>::max())
    return 1;
  if (high <= low)
    return high;
  return low +
         static_cast<int64_t>(bits % (static_cast<uint64_t>(high - low) + 1));
}

std::map<std::string, Array> pp::runtime::syntheticData(const Plan &plan,
                                                        uint64_t samples) {
  std::map<std::string, Array> arrays;
  for (size_t f = 0; f < plan.feeds.size(); ++f) {
    const PlanPort &port = plan.feeds[f];
    if (port.isFedByRuntime())
      continue;
    Array array{port.type, port.shape, {}};
    if (port.batched)
      array.shape[0] = samples;
    uint64_t count = *elementCount(array.shape);
    array.data.resize(count * sizeOf(port.type));
    uint64_t inSample =
        port.batched ? count / std::max<uint64_t>(samples, 1) : count;
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t bits = mixBits(f, i);
      int64_t whole = syntheticInteger(port, i % inSample, bits >> 8);
      float value = static_cast<float>(bits >> 40) / float(1 << 23) - 1.0f;
      auto put = [&](auto element) {
        std::memcpy(&array.data[i * sizeof(element)], &element,
                    sizeof(element));
      };
      switch (port.type) {
      case DataType::F32:
        put(value);
        break;
      case DataType::F64:
        put(static_cast<double>(value));
        break;
      case DataType::I64:
        put(whole);
        break;
      case DataType::I32:
        put(static_cast<int32_t>(whole));
        break;
      case DataType::I8:
      case DataType::U8:
      case DataType::I1:
        put(static_cast<int8_t>(whole));
        break;
      case DataType::I16:
      case DataType::U16:
        put(static_cast<int16_t>(whole));
        break;
      case DataType::U32:
        put(static_cast<int32_t>(whole));
        break;
      case DataType::U64:
        put(whole);
        break;
      case DataType::BF16:
      case DataType::F16:
        put(toShortFloat(port.type, value));
        break;
      }
    }
    arrays.emplace(port.name, std::move(array));
  }
  return arrays;
}

uint64_t pp::runtime::hashArray(const std::string &name, const Array &array) {
  ContentHash hash;
  hash.addText(name);
  hash.addText(toString(array.shape));
  hash.add(array.data.data(), array.data.size());
  return hash.get();
}

std::vector<uint64_t> DataSet::hashFeeds() const {
  std::vector<uint64_t> hashes;
  for (size_t f = 0; f < feeds.size(); ++f)
    hashes.push_back(hashArray(plan.feeds[f].name, feeds[f]));
  return hashes;
}
