//===- LearningRate.cpp ---------------------------------------------------===//
#include "exec/LearningRate.h"
#include "support/Error.h"
#include "support/JsonReader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numbers>

using namespace pp::runtime;
using Kind = LearningRateSchedule::Kind;

static constexpr unsigned bit(Kind kind) {
  return 1U << static_cast<unsigned>(kind);
}
static constexpr unsigned all = ~0U;
static constexpr unsigned toAnEnd =
    bit(Kind::Linear) | bit(Kind::Cosine) | bit(Kind::Polynomial);
static constexpr double mostSteps = uint64_t(1) << 48;

const std::array<const char *, 7> LearningRateSchedule::kindNames = {
    "constant",    "linear",     "cosine",   "step",
    "exponential", "polynomial", "one-cycle"};

const std::array<LearningRateSchedule::Parameter,
                 LearningRateSchedule::parameterCount>
    LearningRateSchedule::parameters = {{
        {"warmup_steps", "--warmup-steps",
         "Steps in which the learning rate grows to the full one", all, true, 0,
         mostSteps, 0},
        {"warmup_start", "--warmup-start",
         "What it begins with, as a share of the full one (default 0)", all,
         false, 0, 1, 0, true},
        {"steps", "--lr-steps",
         "Steps from the start of the training until the schedule ends "
         "(default: the training's)",
         toAnEnd | bit(Kind::OneCycle), true, 1, mostSteps, std::nullopt},
        {"end", "--lr-end",
         "linear, cosine, polynomial: the last learning rate, as a share of "
         "the full one (default 0)",
         toAnEnd, false, 0, FLT_MAX, 0, true},
        {"every", "--lr-every", "step: steps between two changes",
         bit(Kind::Step), true, 1, mostSteps, std::nullopt},
        {"gamma", "--lr-gamma",
         "step, exponential: factor of each change (step: default 0.1)",
         bit(Kind::Step) | bit(Kind::Exponential), false, 0, FLT_MAX,
         std::nullopt},
        {"power", "--lr-power", "polynomial: the exponent (default 1)",
         bit(Kind::Polynomial), false, 0, 1000, 1},
        {"pct_start", "--lr-pct-start",
         "one-cycle: share of the steps in which it grows (default 0.3)",
         bit(Kind::OneCycle), false, 0, 1, 0.3, true},
        {"div_factor", "--lr-div-factor",
         "one-cycle: the full rate is that many times the first (default 25)",
         bit(Kind::OneCycle), false, 0, FLT_MAX, 25},
        {"final_div_factor", "--lr-final-div-factor",
         "one-cycle: the first rate is that many times the last (default 1e4)",
         bit(Kind::OneCycle), false, 0, FLT_MAX, 1e4},
    }};

LearningRateSchedule::Settings
LearningRateSchedule::fromJson(std::string_view text, const std::string &what) {
  nlohmann::json json = parseJson(text, what);
  JsonReader reader(json, what);
  if (!json.is_object())
    reader.fail("expected an object");
  Settings settings;
  for (const auto &[key, value] : json.items()) {
    JsonReader entry = reader.at(key.c_str());
    if (key == "schedule") {
      settings.kind = entry.string();
      continue;
    }
    bool isKnown =
        std::any_of(parameters.begin(), parameters.end(),
                    [&](const Parameter &p) { return p.name == key; });
    if (!isKnown)
      entry.fail("a schedule has no such value");
    settings.values[key] = entry.number();
  }
  return settings;
}

LearningRateSchedule::LearningRateSchedule(
    const Settings &settings, std::optional<uint64_t> trainingSteps) {
  if (!settings.kind.empty()) {
    auto found = std::find(kindNames.begin(), kindNames.end(), settings.kind);
    if (found == kindNames.end())
      failUsage("--lr-schedule '{}': there are {}", settings.kind,
                fmt::join(kindNames, ", "));
    kind = static_cast<Kind>(found - kindNames.begin());
  }
  for (size_t i = 0; i < parameterCount; ++i) {
    const Parameter &parameter = parameters[i];
    auto given = settings.values.find(parameter.name);
    bool takes = parameter.kinds & bit(kind);
    if (given == settings.values.end()) {
      if (!takes)
        continue;
      std::optional<double> initial = parameter.initial;
      if (std::string_view(parameter.name) == "steps" && trainingSteps)
        initial = static_cast<double>(*trainingSteps);
      if (std::string_view(parameter.name) == "gamma" && kind == Kind::Step)
        initial = 0.1;
      if (!initial)
        failUsage("--lr-schedule {} needs {}",
                  kindNames[static_cast<size_t>(kind)], parameter.flag);
      values[i] = *initial;
      continue;
    }
    double value = given->second;
    if (!takes)
      failUsage("{}: the schedule '{}' has no such value", parameter.flag,
                kindNames[static_cast<size_t>(kind)]);
    bool isGood =
        value >= parameter.least && value <= parameter.most &&
        (!parameter.isInteger || value == std::floor(value)) &&
        (value != 0 || parameter.isInteger || parameter.isZeroAllowed);
    if (!isGood)
      failUsage("{}: {:g} is not {} from {:g} to {:g}", parameter.flag, value,
                parameter.isInteger ? "a whole number" : "a number",
                parameter.least, parameter.most);
    values[i] = value;
  }
  bool ends = (toAnEnd | bit(Kind::OneCycle)) & bit(kind);
  if (ends && valueOf("steps") < valueOf("warmup_steps"))
    failUsage("--warmup-steps: the schedule ends after {:.0f} steps, before "
              "its {:.0f} steps of warm-up have",
              valueOf("steps"), valueOf("warmup_steps"));
}

double LearningRateSchedule::valueOf(std::string_view name) const {
  for (size_t i = 0; i < parameterCount; ++i)
    if (parameters[i].name == name)
      return values[i];
  return 0;
}

double LearningRateSchedule::factor(uint64_t done) const {
  double warmup = valueOf("warmup_steps"), start = valueOf("warmup_start");
  auto number = static_cast<double>(done);
  if (number < warmup)
    return start + (1 - start) * number / warmup;
  return decayed(number - warmup);
}

/// The cosine between two values, a at 0 and b at 1.
static double between(double a, double b, double share) {
  return b + (a - b) / 2 * (1 + std::cos(std::numbers::pi * share));
}

double LearningRateSchedule::decayed(double done) const {
  double steps = valueOf("steps") - valueOf("warmup_steps");
  double share = steps > 0 ? std::min(done / steps, 1.0) : 1;
  double end = valueOf("end");
  switch (kind) {
  case Kind::Constant:
    return 1;
  case Kind::Linear:
    return 1 + (end - 1) * share;
  case Kind::Cosine:
    return between(1, end, share);
  case Kind::Step:
    return std::pow(valueOf("gamma"), std::floor(done / valueOf("every")));
  case Kind::Exponential:
    return std::pow(valueOf("gamma"), done);
  case Kind::Polynomial:
    return end + (1 - end) * std::pow(1 - share, valueOf("power"));
  case Kind::OneCycle:
    return oneCycle(done, steps);
  }
  return 1;
}

double LearningRateSchedule::oneCycle(double done, double steps) const {
  double first = 1 / valueOf("div_factor");
  double last = first / valueOf("final_div_factor");
  // The steps after which the peak and the end are reached.
  double peak = valueOf("pct_start") * steps - 1, end = steps - 1;
  if (done <= peak && peak > 0)
    return between(first, 1, done / peak);
  if (done >= end || end <= peak)
    return last;
  return between(1, last, (done - peak) / (end - peak));
}

std::string LearningRateSchedule::toJson() const {
  nlohmann::ordered_json json;
  json["schedule"] = kindNames[static_cast<size_t>(kind)];
  for (size_t i = 0; i < parameterCount; ++i) {
    if (!(parameters[i].kinds & bit(kind)))
      continue;
    if (parameters[i].isInteger)
      json[parameters[i].name] = static_cast<uint64_t>(values[i]);
    else
      json[parameters[i].name] = values[i];
  }
  return json.dump();
}
