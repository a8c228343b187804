//===- Step.cpp -----------------------------------------------------------===//
#include "exec/Step.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace pp::runtime;

void PortBuffer::Free::operator()(char *pointer) const { std::free(pointer); }

PortBuffer::PortBuffer(const PlanPort &port, unsigned microbatches)
    : stride(alignUp(port.bytes)), isOfMicrobatch(port.isOfMicrobatch()) {
  if (port.batched) {
    samplesPerMicrobatch = port.shape[0];
    sampleBytes = port.bytes / samplesPerMicrobatch;
  } else {
    sampleBytes = port.bytes;
  }
  uint64_t bytes =
      std::max<uint64_t>(stride * (isOfMicrobatch ? microbatches : 1), 64);
  base.reset(static_cast<char *>(std::aligned_alloc(64, bytes)));
  if (!base)
    throw Error(ErrorKind::IO, fmt::format("'{}': cannot allocate {} bytes",
                                           port.name, bytes));
  std::memset(base.get(), 0, bytes);
}

template <typename Copy>
void PortBuffer::forRows(uint64_t first, uint64_t samples, Copy copy) const {
  uint64_t done = 0;
  while (done < samples) {
    uint64_t microbatch = (first + done) / samplesPerMicrobatch;
    uint64_t row = (first + done) % samplesPerMicrobatch;
    uint64_t count = std::min(samples - done, samplesPerMicrobatch - row);
    copy(at(microbatch) + row * sampleBytes, done * sampleBytes,
         count * sampleBytes);
    done += count;
  }
}

void PortBuffer::write(uint64_t first, uint64_t samples, const char *source) {
  forRows(first, samples, [&](char *here, uint64_t offset, uint64_t bytes) {
    std::memcpy(here, source + offset, bytes);
  });
}

void PortBuffer::read(uint64_t first, uint64_t samples, char *target) const {
  forRows(first, samples, [&](char *here, uint64_t offset, uint64_t bytes) {
    std::memcpy(target + offset, here, bytes);
  });
}

void Step::setScalars(
    const Plan &plan, uint64_t number,
    const std::function<UpdateScalars(uint64_t, uint64_t)> &evaluate) {
  uint64_t updates = plan.updatesPerStep(), first = (number - 1) * updates + 1;
  scalars = evaluate(number, first);
  laterScalars.clear();
  dealtScalars.clear();
  if (plan.dealsUpdates()) {
    for (const PlanStage &stage : plan.stages) {
      uint64_t own = plan.updatesOf(stage);
      std::vector<UpdateScalars> &values = dealtScalars[own];
      for (uint64_t update = values.size(); update < own; ++update)
        values.push_back(evaluate(number, (number - 1) * own + 1 + update));
    }
    return;
  }
  for (uint64_t update = 1; update < updates; ++update)
    laterScalars.push_back(evaluate(number, first + update));
}

Step::Step(const Plan &plan) : rows(plan.batch) {
  for (const PlanPort &port : plan.feeds)
    feeds.emplace_back(port, plan.microbatches);
  for (const PlanPort &port : plan.fetches)
    fetches.emplace_back(port, plan.microbatches);
  if (plan.isTraining())
    losses = NumberArray(plan.optimizer.type, plan.microbatches);
}

double Step::loss() const {
  // Rounded after each addition to what the losses are of.
  NumberArray sum(losses.getType(), 1);
  for (size_t i = 0; i < losses.size(); ++i)
    sum.set(0, sum.get(0) + losses.get(i));
  return sum.get(0);
}
