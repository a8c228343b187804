//===- ToyProgram.cpp -----------------------------------------------------===//
#include "ToyProgram.h"
#include "plan/SharePlan.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <thread>

using nlohmann::ordered_json;
using pp::runtime::Array;
using pp::runtime::DataType;

namespace toy {

constexpr int rows = microbatchSize, elements = rows * width;
constexpr uint64_t tensorBytes = 64; // 2 x 4 floats, padded
constexpr uint64_t weightBytes = 64; // 4 x 4 floats
constexpr uint64_t residualBytes = 6 * tensorBytes;

static std::atomic<int> faultLayer{-1}, faultKind{NoFault};
static std::atomic<bool> hangsReleased{false};

void setFault(int layer, int kind) {
  hangsReleased = false;
  faultKind = kind;
  faultLayer = layer;
}
void releaseHangs() { hangsReleased = true; }

static std::atomic<int> overflowLayer{-1}, overflowCountdown{0};

void setOverflow(int layer, int step) {
  overflowCountdown = step * microbatches;
  overflowLayer = layer;
}

static void maybeOverflow(int layer, float *gradient) {
  if (overflowLayer == layer && overflowCountdown-- == 0)
    gradient[5] = layer == 1 ? NAN : -INFINITY;
}

static void maybeFail(int layer) {
  if (faultLayer != layer)
    return;
  if (faultKind == ThrowFault)
    throw std::runtime_error("toy fault");
  while (faultKind == HangFault && !hangsReleased)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  while (faultKind == ComputeFault && !hangsReleased)
    ;
}

//===----------------------------------------------------------------------===//
// Phase functions
//===----------------------------------------------------------------------===//

/// c = a b, with b transposed on demand.
static void multiply(const float *a, const float *b, float *c, bool transpose) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < width; ++j) {
      float sum = 0;
      for (int k = 0; k < width; ++k)
        sum += a[i * width + k] *
               (transpose ? b[j * width + k] : b[k * width + j]);
      c[i * width + j] = sum;
    }
}

/// g += a^T d.
static void accumulate(const float *a, const float *d, float *g) {
  for (int i = 0; i < width; ++i)
    for (int j = 0; j < width; ++j) {
      float sum = 0;
      for (int r = 0; r < rows; ++r)
        sum += a[r * width + i] * d[r * width + j];
      g[i * width + j] += sum;
    }
}

static float *slot(const pp_phase_arguments *a, int index) {
  return reinterpret_cast<float *>(a->residuals + index * tensorBytes);
}
static float *weight(char *base, int index) {
  return reinterpret_cast<float *>(base + index * weightBytes);
}
static const float *in(const pp_phase_arguments *a, int index) {
  return reinterpret_cast<const float *>(a->inputs[index]);
}
static float *out(const pp_phase_arguments *a, int index) {
  return reinterpret_cast<float *>(a->outputs[index]);
}
static void copy(float *to, const float *from) {
  std::memcpy(to, from, elements * sizeof(float));
}

enum Slot { H1, H2, Difference, D1, D2, DY };

/// F of a stage with layers [A, B) that sends h1 to `H1Outputs` stages.
template <int A, int B, int H1Outputs, bool Train>
static void forward(const pp_phase_arguments *a) {
  float *h1 = slot(a, H1), *h2 = slot(a, H2), *y = slot(a, Difference);
  int input = 0, output = 0;
  if (A == 0) {
    maybeFail(0);
    multiply(in(a, input++), weight(a->parameters, 0), h1, false);
    for (int i = 0; i < elements; ++i)
      h1[i] = std::tanh(h1[i]);
    if (Train) // sums of the columns, for the running mean
      for (int i = 0; i < elements; ++i)
        reinterpret_cast<float *>(a->statistics)[i % width] += h1[i];
  } else if (A == 1) {
    copy(h1, in(a, input++));
  }
  if (A <= 1 && B >= 2) {
    maybeFail(1);
    multiply(h1, weight(a->parameters, 1 - A), h2, false);
    for (int i = 0; i < elements; ++i)
      h2[i] = std::tanh(h2[i]);
  } else if (A == 2) {
    copy(h2, in(a, input++));
    copy(h1, in(a, input++));
  }
  for (int i = 0; i < H1Outputs; ++i)
    copy(out(a, output++), h1);
  if (A <= 1 && B == 2)
    copy(out(a, output++), h2);
  if (B == 3) {
    maybeFail(2);
    multiply(h2, weight(a->parameters, 2 - A), y, false);
    for (int i = 0; i < elements; ++i)
      y[i] += h1[i];
    if (Train) {
      const float *target = in(a, input++);
      float sum = 0;
      for (int i = 0; i < elements; ++i) {
        y[i] -= target[i];
        sum += y[i] * y[i];
      }
      *out(a, output++) = sum / batch;
    } else {
      copy(out(a, output++), y);
    }
  }
}

/// With a loss scale, that is the last input of the phase that starts with the
/// loss.
template <int A, int B, bool IsScaled>
static void backwardInput(const pp_phase_arguments *a) {
  float *h1 = slot(a, H1), *h2 = slot(a, H2), *d1 = slot(a, D1),
        *d2 = slot(a, D2), *dy = slot(a, DY);
  float dh2[elements], dh1[elements];
  int input = 0, output = 0;
  if (B == 3) {
    float scale = IsScaled ? *in(a, 0) : 1;
    for (int i = 0; i < elements; ++i)
      dy[i] = 2 * slot(a, Difference)[i] / batch * scale;
    multiply(dy, weight(a->parameters, 2 - A), dh2, true);
    if (A == 2)
      copy(out(a, output++), dh2);
  } else if (B == 2) {
    copy(dh2, in(a, input++));
  }
  if (A <= 1 && B >= 2) {
    for (int i = 0; i < elements; ++i)
      d2[i] = dh2[i] * (1 - h2[i] * h2[i]);
    multiply(d2, weight(a->parameters, 1 - A), dh1, true);
    if (A == 1)
      copy(out(a, output++), dh1);
  } else if (B == 1) {
    copy(dh1, in(a, input++));
  }
  if (A > 0 && B == 3)
    copy(out(a, output++), dy);
  if (A == 0) {
    const float *skip = B == 3 ? dy : in(a, input++);
    for (int i = 0; i < elements; ++i)
      d1[i] = (dh1[i] + skip[i]) * (1 - h1[i] * h1[i]);
  }
}

template <int A, int B>
static void backwardWeight(const pp_phase_arguments *a) {
  if (A == 0)
    accumulate(in(a, 0), slot(a, D1), weight(a->gradients, 0));
  // Layer 1 reads h1 where it came from, so the receive slot lives until W.
  if (A <= 1 && B >= 2)
    accumulate(A == 1 ? in(a, 0) : slot(a, H1), slot(a, D2),
               weight(a->gradients, 1 - A));
  if (B == 3)
    accumulate(slot(a, H2), slot(a, DY), weight(a->gradients, 2 - A));
  for (int layer = A; layer < B; ++layer)
    maybeOverflow(layer, weight(a->gradients, layer - A));
}

/// running = 0.9 running + 0.1 mean.
static void commit(const pp_phase_arguments *a) {
  float *running = reinterpret_cast<float *>(a->buffers);
  for (int i = 0; i < width; ++i)
    running[i] = 0.9f * running[i] +
                 0.1f * reinterpret_cast<float *>(a->statistics)[i] / batch;
}

/// SGD with momentum; scalars: lr, momentum, first_step, correction.
static void optimizer(int64_t count, void *parameterMemory,
                      const void *gradientMemory, void *stateMemory,
                      int64_t stride, const void *scalarMemory) {
  if (stride != count)
    throw std::runtime_error("unexpected stride");
  auto *parameters = static_cast<float *>(parameterMemory);
  auto *states = static_cast<float *>(stateMemory);
  auto *gradients = static_cast<const float *>(gradientMemory);
  auto *scalars = static_cast<const float *>(scalarMemory);
  for (int64_t i = 0; i < count; ++i) {
    states[i] = scalars[2] == 1.0f ? gradients[i]
                                   : scalars[1] * states[i] + gradients[i];
    parameters[i] -= scalars[0] * states[i] * scalars[3];
  }
}

/// The same; the scalars loss_scale and skipped come after the others.
static void scaledOptimizer(int64_t count, void *parameters,
                            const void *gradientMemory, void *states,
                            int64_t stride, const void *scalarMemory) {
  auto *gradients = static_cast<const float *>(gradientMemory);
  auto *scalars = static_cast<const float *>(scalarMemory);
  if (scalars[5] != 0)
    return;
  std::vector<float> divided(gradients, gradients + count);
  for (float &gradient : divided)
    gradient /= scalars[4];
  optimizer(count, parameters, divided.data(), states, stride, scalars);
}

template <int A, int B, int H1Outputs>
static pp_stage_functions stageFunctions(bool train, bool isScaled) {
  if (!train)
    return {forward<A, B, H1Outputs, false>, nullptr, nullptr, nullptr,
            nullptr};
  return {forward<A, B, H1Outputs, true>,
          isScaled && B == 3 ? backwardInput<A, B, true>
                             : backwardInput<A, B, false>,
          backwardWeight<A, B>, A == 0 ? commit : nullptr, nullptr};
}

static std::vector<pp_stage_functions> functions(const std::vector<int> &cuts,
                                                 bool train, bool isScaled) {
  if (cuts.size() == 1)
    return {stageFunctions<0, 3, 0>(train, isScaled)};
  if (cuts.size() == 3)
    return {stageFunctions<0, 1, 2>(train, isScaled),
            stageFunctions<1, 2, 0>(train, isScaled),
            stageFunctions<2, 3, 0>(train, isScaled)};
  if (cuts[1] == 1)
    return {stageFunctions<0, 1, 1>(train, isScaled),
            stageFunctions<1, 3, 0>(train, isScaled)};
  return {stageFunctions<0, 2, 1>(train, isScaled),
          stageFunctions<2, 3, 0>(train, isScaled)};
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

float initialWeight(int layer, int index) {
  return 0.5f * std::sin(1.0f + 7.0f * layer + 1.3f * index);
}

namespace {

/// Builds a plan piece by piece.
class Builder {
public:
  Builder(const std::vector<int> &cuts, bool train, int replicas)
      : cuts(cuts), train(train), replicas(replicas),
        own(microbatches / replicas) {
    for (int layer = 0, stage = -1; layer < 3; ++layer) {
      if (stage + 1 < int(cuts.size()) && cuts[stage + 1] == layer)
        ++stage;
      stageOf[layer] = stage;
    }
    stages = cuts.size();
    channelBytes.assign(stages, 0);
    phases.assign(stages, ordered_json::object());
    for (ordered_json &phase : phases)
      for (const char *name : {"F", "I", "W"})
        phase[name] = {{"inputs", ordered_json::array()},
                       {"outputs", ordered_json::array()}};
  }

  int addChannel(const char *name, const char *kind, int from, int to,
                 const char *phase, const char *release, int slots) {
    std::vector<int> sendSlot(own, 0), receiveSlot;
    for (int m = 0; m < own; ++m)
      receiveSlot.push_back(m % slots);
    ordered_json channel{{"name", name},
                         {"kind", kind},
                         {"from", from},
                         {"to", to},
                         {"from_phase", phase},
                         {"to_phase", phase},
                         {"dtype", "f32"},
                         {"shape", {rows, width}},
                         {"bytes", elements * 4},
                         {"send_offset", channelBytes[from]},
                         {"send_slots", 1},
                         {"send_slot", sendSlot},
                         {"receive_offset", channelBytes[to]},
                         {"receive_slots", slots},
                         {"receive_slot", receiveSlot},
                         {"release", release}};
    channelBytes[from] += tensorBytes;
    channelBytes[to] += tensorBytes * slots;
    channels.push_back(channel);
    return channels.size() - 1;
  }
  void input(int stage, const char *phase, const char *kind, int index) {
    phases[stage][phase]["inputs"].push_back({{kind, index}});
  }
  void output(int stage, const char *phase, const char *kind,
              ordered_json value) {
    phases[stage][phase]["outputs"].push_back({{kind, std::move(value)}});
  }
  int firstLayer(int stage) const { return cuts[stage]; }
  int endLayer(int stage) const {
    return stage + 1 < stages ? cuts[stage + 1] : 3;
  }

  std::vector<int> cuts;
  bool train;
  int replicas, own; // micro-batches of a replica
  int stages, stageOf[3];
  std::vector<uint64_t> channelBytes;
  ordered_json channels = ordered_json::array();
  std::vector<ordered_json> phases;
};

} // namespace

static ordered_json hexWeights(int layer) {
  std::string text;
  for (int i = 0; i < width * width; ++i) {
    float value = initialWeight(layer, i);
    unsigned char bytes[4];
    std::memcpy(bytes, &value, 4);
    for (unsigned char byte : bytes) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
  }
  return {{"hex", text}};
}

static ordered_json makeStage(Builder &b, int s, int residualSlots) {
  int layers = b.endLayer(s) - b.firstLayer(s);
  bool hasBuffer = b.firstLayer(s) == 0;
  ordered_json areas;
  uint64_t offset = b.channelBytes[s];
  areas["channels"] = {{"offset", 0}, {"bytes", offset}};
  auto area = [&](const char *name, uint64_t bytes) {
    areas[name] = {{"offset", offset}, {"bytes", bytes}};
    offset += bytes;
  };
  area("parameters", layers * weightBytes);
  area("buffers", hasBuffer ? 64 : 0);
  area("gradients", b.train ? layers * weightBytes : 0);
  area("optimizer", b.train ? layers * weightBytes : 0);
  area("statistics", b.train && hasBuffer ? 64 : 0);
  area("residuals", residualSlots * residualBytes);
  areas["residuals"]["slots"] = residualSlots;
  areas["residuals"]["slot_bytes"] = residualBytes;
  area("scratch", 0);
  area("discard", 5 * 64);
  area("loss", b.train && b.endLayer(s) == 3 ? 64 : 0);
  auto exchange = [&](const char *name) {
    uint64_t bytes = areas[name]["bytes"];
    uint64_t part = (bytes + b.replicas - 1) / b.replicas;
    return (b.replicas - 1) * ((part + 63) / 64 * 64);
  };
  if (b.train && b.replicas > 1)
    area("exchange", exchange("gradients") + exchange("statistics"));
  ordered_json parameters = ordered_json::array();
  for (int i = 0; i < layers; ++i)
    parameters.push_back({{"name", "w" + std::to_string(b.firstLayer(s) + i)},
                          {"dtype", "f32"},
                          {"shape", {width, width}},
                          {"offset", i * weightBytes},
                          {"source", hexWeights(b.firstLayer(s) + i)}});
  ordered_json buffers = ordered_json::array();
  if (hasBuffer)
    buffers.push_back({{"name", "running_mean"},
                       {"dtype", "f32"},
                       {"shape", {width}},
                       {"offset", 0},
                       {"mutable", b.train},
                       {"source", {{"splat", 0.5}}}});
  ordered_json &phases = b.phases[s];
  ordered_json discards = ordered_json::array();
  for (size_t i = 0; i < phases["F"]["outputs"].size(); ++i)
    discards.push_back(i * 64);
  phases["F"]["discards"] = discards;
  phases["F"]["discard_statistics"] = 4 * 64;
  return {{"name", "stage" + std::to_string(s)},
          {"nodes", {"first", "last"}},
          {"forward_seconds", 0.001},
          {"backward_seconds", 0.002},
          {"memory_bytes", offset},
          {"areas", areas},
          {"parameters", parameters},
          {"buffers", buffers},
          {"kernels", ordered_json::array()},
          {"phases", phases}};
}

/// Orders (kind, micro-batch) of one stage and adds its transfers.
static ordered_json makeRank(const Builder &b, int s, const Options &options,
                             int residualSlots) {
  ordered_json actions = ordered_json::array();
  auto transfers = [&](const char *phase, int m, bool incoming) {
    for (size_t c = 0; c < b.channels.size(); ++c) {
      const ordered_json &channel = b.channels[c];
      if (channel["from_phase"] != phase ||
          channel[incoming ? "to" : "from"] != s)
        continue;
      actions.push_back({incoming ? "RECV" : "SEND", c, m});
    }
  };
  auto forward = [&](int m) {
    transfers("F", m, true);
    actions.push_back({"F", s, m, m % residualSlots});
    transfers("F", m, false);
  };
  auto backward = [&](int m) {
    if (m < options.recompute)
      actions.push_back({"R", s, m, m % residualSlots});
    transfers("I", m, true);
    actions.push_back({options.split ? "I" : "B", s, m, m % residualSlots});
    transfers("I", m, false);
  };
  int warmup = !b.train || !options.oneForwardOneBackward
                   ? b.own
                   : std::min(b.own, b.stages - s);
  for (int m = 0; m < warmup; ++m)
    forward(m);
  if (b.train) {
    for (int m = 0; m < b.own; ++m) {
      backward(m);
      if (m + warmup < b.own)
        forward(m + warmup);
    }
    if (options.split)
      for (int m = 0; m < b.own; ++m)
        actions.push_back({"W", s, m, m % residualSlots});
    if (b.replicas > 1)
      actions.push_back({"REDUCE_GRAD", s});
    actions.push_back({"U", s});
  }
  return {{"stages", {s}}, {"actions", actions}};
}

static void addLossScale(ordered_json &stage, int ranks, int growthInterval) {
  uint64_t end = stage["memory_bytes"];
  stage["areas"]["loss_scale"] = {{"offset", end}, {"bytes", 64}};
  stage["memory_bytes"] = end + 64;
  uint64_t parameters = stage["areas"]["parameters"]["bytes"];
  std::string descriptors[] = {
      "check_finite count=" + std::to_string(parameters / sizeof(float)),
      "loss_scale ranks=" + std::to_string(ranks) + " scale=4 skipped=5" +
          (growthInterval ? " interval=6" : "")};
  for (const std::string &descriptor : descriptors)
    stage["kernels"].push_back({{"descriptor", descriptor}, {"scratchpad", 0}});
  stage["finite_kernel"] = 0;
  stage["loss_scale_kernel"] = 1;
}

static ordered_json makePlan(const Options &options, bool train) {
  Builder b(options.cuts, train, options.replicas);
  int *st = b.stageOf;
  bool lean = options.oneForwardOneBackward && !options.split;
  const char *readTwice = train ? "B" : "F";
  const char *readOnce = options.recompute ? "R" : "F";
  auto slots = [&](int stage) {
    return !train ? 2 : lean ? std::min(b.own, b.stages - stage + 1) : b.own;
  };
  // Channels in the order in which the phase functions list them.
  int h1ToLayer1 = -1, h1ToLayer2 = -1, h2 = -1;
  if (st[0] != st[1])
    h1ToLayer1 = b.addChannel("h1", "next", st[0], st[1], "F",
                              train ? "W" : "F", slots(st[1]));
  if (st[0] != st[2] && st[1] != st[2])
    h1ToLayer2 = b.addChannel("h1 skip", st[2] - st[0] > 1 ? "portal" : "next",
                              st[0], st[2], "F", train ? readOnce : "F", b.own);
  if (st[1] != st[2])
    h2 = b.addChannel("h2", "next", st[1], st[2], "F", train ? readTwice : "F",
                      slots(st[2]));
  b.input(0, "F", "feed", 0);
  if (h1ToLayer1 >= 0) {
    b.output(st[0], "F", "channel", h1ToLayer1);
    b.input(st[1], "F", "channel", h1ToLayer1);
  }
  if (h1ToLayer2 >= 0)
    b.output(st[0], "F", "channel", h1ToLayer2);
  if (h2 >= 0) {
    // A stage with layers 0 and 1 lists h1 before h2; both are there by now.
    b.output(st[1], "F", "channel", h2);
    b.input(st[2], "F", "channel", h2);
  }
  if (h1ToLayer2 >= 0)
    b.input(st[2], "F", "channel", h1ToLayer2);
  if (train) {
    b.input(st[2], "F", "feed", 1);
    b.output(st[2], "F", "loss", true);
    int dh2 = -1, dh1 = -1, skip = -1;
    if (st[1] != st[2])
      dh2 = b.addChannel("dh2", "gradient", st[2], st[1], "I", "I", b.own);
    if (st[0] != st[1])
      dh1 = b.addChannel("dh1", "gradient", st[1], st[0], "I", "I", 1);
    if (st[0] != st[2])
      skip =
          b.addChannel("dy", "gradient_portal", st[2], st[0], "I", "I", b.own);
    if (dh2 >= 0) {
      b.output(st[2], "I", "channel", dh2);
      b.input(st[1], "I", "channel", dh2);
    }
    if (dh1 >= 0) {
      b.output(st[1], "I", "channel", dh1);
      b.input(st[0], "I", "channel", dh1);
    }
    if (skip >= 0) {
      b.output(st[2], "I", "channel", skip);
      b.input(st[0], "I", "channel", skip);
    }
    if (options.lossScale != 0)
      b.phases[st[2]]["I"]["inputs"].push_back({{"loss_scale", true}});
    b.input(0, "W", "feed", 0);
    if (h1ToLayer1 >= 0)
      b.input(st[1], "W", "channel", h1ToLayer1);
  } else {
    b.output(st[2], "F", "fetch", 0);
  }
  ordered_json plan{{"version", 1},
                    {"model", "toy"},
                    {"mode", train ? "train" : "infer"},
                    {"hash", "00"},
                    {"batch", batch},
                    {"microbatches", microbatches},
                    // Its loss counts every row.
                    {"whole_batches", "the toy's loss counts every row"},
                    {"schedule", "gpipe"},
                    {"checkpoint", "never"},
                    {"weights", ordered_json::array()},
                    {"weights_bytes", ordered_json::array()}};
  if (options.replicas > 1)
    plan["replicas"] = options.replicas;
  plan["feeds"] = {{{"name", "x"},
                    {"role", "input"},
                    {"dtype", "f32"},
                    {"shape", {rows, width}},
                    {"batched", true}}};
  if (train)
    plan["feeds"].push_back({{"name", "target"},
                             {"role", "target"},
                             {"dtype", "f32"},
                             {"shape", {rows, width}},
                             {"batched", true}});
  plan["fetches"] = ordered_json::array();
  if (!train)
    plan["fetches"].push_back({{"name", "y"},
                               {"dtype", "f32"},
                               {"shape", {rows, width}},
                               {"batched", true}});
  if (train) {
    plan["optimizer"]["kind"] = "sgd";
    plan["optimizer"]["states"] = {"momentum"};
    plan["optimizer"]["scalars"] = ordered_json::array();
    auto scalar = [&](const char *name, const char *key, ordered_json value) {
      ordered_json entry;
      entry["name"] = name;
      entry[key] = std::move(value);
      plan["optimizer"]["scalars"].push_back(entry);
    };
    scalar("lr", "value", 0.05);
    scalar("momentum", "value", 0.9);
    scalar("first_step", "is_first_step", true);
    scalar("correction", "one_minus_power_of", 0.5);
    if (options.lossScale != 0) {
      scalar("loss_scale", "initial_scale", options.lossScale);
      scalar("skipped", "is_skipped", true);
    }
    if (options.lossScale != 0 && options.growthInterval)
      scalar("growth_interval", "value", options.growthInterval);
  }
  plan["channels"] = b.channels;
  plan["stages"] = ordered_json::array();
  plan["ranks"] = ordered_json::array();
  for (int s = 0; s < b.stages; ++s) {
    int residualSlots = !train ? 1
                        : lean ? std::min(b.own, b.stages - s)
                               : b.own;
    plan["stages"].push_back(makeStage(b, s, residualSlots));
    if (train && options.lossScale != 0)
      addLossScale(plan["stages"].back(), b.stages * b.replicas,
                   options.growthInterval);
    plan["ranks"].push_back(makeRank(b, s, options, residualSlots));
  }
  return plan;
}

ordered_json trainingPlan(const Options &options) {
  return makePlan(options, true);
}

namespace {

/// The list of a rank of a virtual worker: 1F1B, as the planner makes it.
class WaveList {
public:
  WaveList(const ordered_json &plan, int first, int count, int ahead, int wave,
           int distance)
      : plan(plan), first(first), count(count), ahead(ahead), wave(wave),
        distance(distance) {}

  ordered_json run() {
    for (int k = 0; k < wave; ++k) {
      for (int s = first; s < first + count; ++s) {
        transfer("RECV", "F", s, k, 0);
        list.push_back({"F", s, k, 0, k - wave + 1});
        transfer("SEND", "F", s, k, 0);
      }
      int lag = k < ahead, done = k - ahead + lag * wave;
      for (int s = first + count - 1; s >= first; --s) {
        transfer("RECV", "I", s, done, lag);
        list.push_back({"B", s, done, lag, done - wave + 1});
        transfer("SEND", "I", s, done, lag);
      }
      bool isReadAtOnce = ahead == wave - 1;
      if (done == 0 && !isReadAtOnce)
        add("PULL", lag + 1 + distance, (distance + 1) * wave);
      add("U", lag, done + 1);
      if (done < wave - 1)
        continue;
      add("PUSH", lag, wave);
      if (isReadAtOnce)
        add("PULL", lag + distance, (distance + 1) * wave);
    }
    return std::move(list);
  }

private:
  void add(const char *kind, int lag, int version) {
    for (int s = first; s < first + count; ++s)
      list.push_back({kind, s, lag, version});
  }
  bool isHere(int stage) const {
    return stage >= first && stage < first + count;
  }
  void transfer(const char *kind, const char *phase, int stage, int k,
                int lag) {
    const char *end = kind[0] == 'S' ? "from" : "to";
    for (size_t c = 0; c < plan["channels"].size(); ++c) {
      const ordered_json &channel = plan["channels"][c];
      if (channel[end] == stage && channel["from_phase"] == phase &&
          !(isHere(channel["from"]) && isHere(channel["to"])))
        list.push_back({kind, c, k, lag});
    }
  }

  const ordered_json &plan;
  int first, count, ahead, wave, distance;
  ordered_json list = ordered_json::array();
};

} // namespace

ordered_json wavePlan(const std::vector<int> &cuts, int workers, int distance,
                      const std::vector<std::vector<int>> &stagesOfRanks) {
  Options options;
  options.cuts = cuts;
  options.oneForwardOneBackward = true;
  options.replicas = workers;
  ordered_json plan = trainingPlan(options);
  int wave = microbatches / workers;
  plan["flush"] = false;
  plan["clock_distance"] = distance;
  for (ordered_json &stage : plan["stages"]) {
    ordered_json &areas = stage["areas"];
    uint64_t end = stage["memory_bytes"];
    uint64_t parameters = areas["parameters"]["bytes"];
    if (areas.contains("exchange"))
      areas["exchange"]["bytes"] = 0;
    stage["versions"] = wave;
    areas["versions"] = {{"offset", end}, {"bytes", (wave - 1) * parameters}};
    end += (wave - 1) * parameters;
    uint64_t shared =
        pp::runtime::SharedLayout(parameters, workers, distance).bytes();
    areas["shared"] = {{"offset", end}, {"bytes", shared}};
    stage["memory_bytes"] = end + shared;
  }
  for (ordered_json &channel : plan["channels"]) {
    uint64_t slots = channel["receive_slots"];
    channel["send_slot"] = ordered_json::array();
    channel["receive_slot"] = ordered_json::array();
    for (uint64_t slot = 0; slot < slots; ++slot) {
      channel["send_slot"].push_back(0);
      channel["receive_slot"].push_back(slot);
    }
  }
  std::vector<std::vector<int>> counts = stagesOfRanks;
  if (counts.empty())
    counts.emplace_back(cuts.size(), 1);
  plan["ranks"] = ordered_json::array();
  for (const std::vector<int> &worker : counts) {
    auto ranks = int(worker.size());
    for (int rank = 0, first = 0; rank < ranks; first += worker[rank++]) {
      ordered_json stages = ordered_json::array();
      for (int s = first; s < first + worker[rank]; ++s)
        stages.push_back(s);
      plan["ranks"].push_back(
          {{"stages", stages},
           {"actions",
            WaveList(plan, first, worker[rank],
                     std::min(wave, ranks - rank) - 1, wave, distance)
                .run()}});
    }
  }
  return plan;
}

void addPreparation(ordered_json &plan) {
  for (ordered_json &stage : plan["stages"]) {
    uint64_t end = stage["memory_bytes"];
    uint64_t bytes = stage["areas"]["parameters"]["bytes"];
    stage["areas"]["prepared"] = {{"offset", end}, {"bytes", bytes}};
    stage["memory_bytes"] = end + bytes;
    stage["phases"]["P"] = ordered_json::object();
  }
  for (ordered_json &rank : plan["ranks"])
    for (const ordered_json &stage : rank["stages"])
      rank["actions"].insert(rank["actions"].begin(),
                             ordered_json::array({"P", stage}));
}

ordered_json stageReplicasPlan() {
  Options options;
  options.cuts = {0, 2};
  ordered_json plan = trainingPlan(options);
  plan["stage_replicas"] = {2, 1};
  // A place for the part of the other replica: 64 bytes of gradients, and of
  // statistics.
  ordered_json &stage = plan["stages"][0];
  uint64_t end = stage["memory_bytes"];
  stage["areas"]["exchange"] = {{"offset", end}, {"bytes", 128}};
  stage["memory_bytes"] = end + 128;
  // A slot for each micro-batch, behind all other areas.
  for (ordered_json &owner : plan["stages"])
    owner["areas"]["channels"] = {{"offset", owner["memory_bytes"]},
                                  {"bytes", 0}};
  for (ordered_json &channel : plan["channels"])
    for (std::string key : {"send", "receive"}) {
      ordered_json &owner =
          plan["stages"][channel[key == "send" ? "from" : "to"].get<int>()];
      uint64_t offset = owner["memory_bytes"];
      uint64_t bytes =
          microbatches * ((channel["bytes"].get<uint64_t>() + 63) / 64 * 64);
      channel[key + "_slots"] = microbatches;
      channel[key + "_slot"] = {0, 1, 2, 3};
      channel[key + "_offset"] = offset;
      ordered_json &all = owner["areas"]["channels"]["bytes"];
      all = all.get<uint64_t>() + bytes;
      owner["memory_bytes"] = offset + bytes;
    }
  ordered_json lists[2] = {ordered_json::array(), ordered_json::array()};
  for (const ordered_json &action : plan["ranks"][0]["actions"]) {
    bool isUpdate = action[0] == "U";
    for (int copy = 0; copy < 2; ++copy) {
      if (isUpdate)
        lists[copy].push_back({"REDUCE_GRAD", 0});
      if (isUpdate || action[0] == "P" || action[2].get<int>() % 2 == copy)
        lists[copy].push_back(action);
    }
  }
  plan["ranks"] = {{{"stages", {0}}, {"actions", lists[0]}},
                   {{"stages", {0}}, {"actions", lists[1]}},
                   plan["ranks"][1]};
  return plan;
}

ordered_json dealtPlan() {
  ordered_json plan = stageReplicasPlan();
  plan["flush"] = false;
  plan["stages"][1]["areas"]["statistics"]["bytes"] = 0;
  ordered_json &first = plan["stages"][0];
  uint64_t end = first["memory_bytes"];
  uint64_t bytes = first["areas"]["parameters"]["bytes"];
  first["versions"] = 2;
  first["areas"]["statistics"]["bytes"] = 0;
  first["areas"]["versions"] = {{"offset", end}, {"bytes", bytes}};
  first["memory_bytes"] = end + bytes;
  auto transfer = [&](ordered_json &list, int stage, const char *kind, int k,
                      int lag) {
    for (size_t c = 0; c < plan["channels"].size(); ++c)
      if (plan["channels"][c][kind[0] == 'S' ? "from" : "to"] == stage)
        list.push_back({kind, c, k, lag});
  };
  for (int replica = 0; replica < 2; ++replica) {
    ordered_json list = ordered_json::array();
    for (int k = 0; k < 2; ++k) {
      int done = 1 - k, lag = 1 - k;
      list.push_back({"F", 0, 2 * k + replica, 0, k - 1});
      transfer(list, 0, "SEND", 2 * k + replica, 0);
      transfer(list, 0, "RECV", 2 * done + replica, lag);
      list.push_back({"B", 0, 2 * done + replica, lag, done - 1});
      list.push_back({"REDUCE_GRAD", 0, lag, done + 1});
      list.push_back({"U", 0, lag, done + 1});
    }
    plan["ranks"][replica]["actions"] = list;
  }
  ordered_json list = ordered_json::array();
  for (int k = 0; k < microbatches; ++k) {
    transfer(list, 1, "RECV", k, 0);
    list.push_back({"F", 1, k, 0, k});
    list.push_back({"B", 1, k, 0, k});
    transfer(list, 1, "SEND", k, 0);
    list.push_back({"U", 1, 0, k + 1});
  }
  plan["ranks"][2]["actions"] = list;
  return plan;
}

ordered_json inferencePlan(const std::vector<int> &cuts) {
  Options options;
  options.cuts = cuts;
  return makePlan(options, false);
}

Binary::Binary(const std::vector<int> &cuts, const ordered_json &trainingJson,
               const ordered_json &inferenceJson, bool hasLossScale)
    : trainingText(trainingJson.dump()), inferenceText(inferenceJson.dump()),
      trainingStages(functions(cuts, true, hasLossScale)),
      inferenceStages(functions(cuts, false, false)),
      training{trainingText.data(),
               trainingText.size(),
               trainingStages.data(),
               trainingStages.size(),
               hasLossScale ? scaledOptimizer : optimizer,
               nullptr,
               nullptr,
               nullptr,
               0},
      inference{inferenceText.data(),
                inferenceText.size(),
                inferenceStages.data(),
                inferenceStages.size(),
                nullptr,
                nullptr,
                nullptr,
                nullptr,
                0},
      table{PP_ABI_VERSION, 0, &training, &inference, nullptr} {}

std::map<std::string, Array> data(uint64_t samples) {
  auto make = [&](float phase) {
    Array array{DataType::F32, {int64_t(samples), width}, {}};
    array.data.resize(samples * width * 4);
    for (uint64_t i = 0; i < samples * width; ++i) {
      float value = std::sin(phase + 0.37f * i);
      std::memcpy(&array.data[i * 4], &value, 4);
    }
    return array;
  };
  return {{"x", make(0)}, {"target", make(2)}};
}

Reference reference(const std::vector<float> *w, const float *x,
                    const float *target) {
  Reference result;
  for (auto &gradient : result.gradients)
    gradient.assign(width * width, 0);
  auto row = [&](const double *v, const std::vector<float> &m, bool transpose,
                 double *r) {
    for (int j = 0; j < width; ++j) {
      r[j] = 0;
      for (int k = 0; k < width; ++k)
        r[j] += v[k] * (transpose ? m[j * width + k] : m[k * width + j]);
    }
  };
  for (int r = 0; r < batch; ++r) {
    double xr[width], h1[width], h2[width], y[width], dy[width], d2[width],
        d1[width], t[width];
    for (int j = 0; j < width; ++j)
      xr[j] = x[r * width + j];
    row(xr, w[0], false, h1);
    for (double &v : h1)
      v = std::tanh(v);
    row(h1, w[1], false, h2);
    for (double &v : h2)
      v = std::tanh(v);
    row(h2, w[2], false, y);
    for (int j = 0; j < width; ++j) {
      y[j] += h1[j];
      result.outputs.push_back(y[j]);
      double difference = y[j] - target[r * width + j];
      result.loss += difference * difference / batch;
      dy[j] = 2 * difference / batch;
    }
    row(dy, w[2], true, t);
    for (int j = 0; j < width; ++j)
      d2[j] = t[j] * (1 - h2[j] * h2[j]);
    row(d2, w[1], true, t);
    for (int j = 0; j < width; ++j)
      d1[j] = (t[j] + dy[j]) * (1 - h1[j] * h1[j]);
    for (int i = 0; i < width; ++i)
      for (int j = 0; j < width; ++j) {
        result.gradients[0][i * width + j] += xr[i] * d1[j];
        result.gradients[1][i * width + j] += h1[i] * d2[j];
        result.gradients[2][i * width + j] += h2[i] * dy[j];
      }
  }
  return result;
}

} // namespace toy
