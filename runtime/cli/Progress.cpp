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

void Progress::step(uint64_t step, uint64_t epoch, uint64_t rows, double loss,
                    std::optional<uint64_t> bits,
                    std::optional<LossScaleState> lossScale) {
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
  printMessage("\r\x1b[K[{:=<{}}{:<{}}] {}/{} epoch {} loss {:.5g} {:.1f} "
               "samples/s ETA {:.0f} s",
               "", filled, "", width - filled, step, total, epoch, loss, rate,
               left);
  lineOpen = true;
}
