//===- Progress.cpp -------------------------------------------------------===//
#include "cli/Progress.h"
#include "support/Print.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cmath>
#include <cstdio>

using namespace pp::runtime;

Progress::Progress(uint64_t firstStep, uint64_t totalSteps)
    : first(firstStep), total(totalSteps), isTerminal(::isatty(STDERR_FILENO)),
      start(std::chrono::steady_clock::now()) {}

Progress::~Progress() { finish(); }

void Progress::finish() {
  if (lineOpen)
    printMessage("\n");
  lineOpen = false;
}

void Progress::step(const Line &line) {
  const auto &[step, epoch, rows, loss, bits, lossScale, learningRate,
               gradientNorm] = line;
  auto now = std::chrono::steady_clock::now();
  double seconds = std::chrono::duration<double>(now - start).count();
  uint64_t done = step - first;
  samples += rows;
  double rate = seconds > 0 ? samples / seconds : 0;
  if (!isTerminal) {
    nlohmann::ordered_json json;
    json["step"] = step;
    json["epoch"] = epoch;
    // JSON has neither NaN nor infinity; the dump writes null for them.
    json["loss"] = loss;
    json["samples_per_second"] = rate;
    if (learningRate)
      json["lr"] = *learningRate;
    if (gradientNorm)
      json["gradient_norm"] = *gradientNorm;
    if (bits)
      json["loss_bits"] = fmt::format("{:016x}", *bits);
    if (lossScale) {
      json["loss_scale"] = lossScale->scale;
      json["skipped_steps"] = static_cast<uint64_t>(lossScale->skippedSteps);
    }
    printOutput("{}\n", json.dump());
    return;
  }
  if (bits)
    printOutput("{} {:016x}\n", step, *bits);
  if (step != total && now - lastDraw < std::chrono::milliseconds(100))
    return;
  lastDraw = now;
  constexpr unsigned width = 24;
  unsigned filled = total ? width * step / total : 0;
  double left = done ? seconds / done * (total - step) : 0;
  std::string more;
  if (learningRate)
    more += fmt::format("lr {:.3g} ", *learningRate);
  if (gradientNorm)
    more += fmt::format("norm {:.3g} ", *gradientNorm);
  printMessage("\r\x1b[K[{:=<{}}{:<{}}] {}/{} epoch {} loss {:.5g} {}{:.1f} "
               "samples/s ETA {:.0f} s",
               "", filled, "", width - filled, step, total, epoch, loss, more,
               rate, left);
  lineOpen = true;
}
