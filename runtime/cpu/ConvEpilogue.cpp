//===- ConvEpilogue.cpp ---------------------------------------------------===//
#include "cpu/ConvEpilogue.h"
#include "cpu/ChannelLanes.h"
#include "cpu/Processor.h"

#include <algorithm>

using namespace pp::runtime;

namespace {
using Work = void(const ConvEpilogue &epilogue, float *numbers,
                  const ConvSummands &summands, uint64_t count);
} // namespace

PP_INLINE void finishBody(const ConvEpilogue &epilogue, float *numbers,
                          const ConvSummands &summands, uint64_t count) {
  // So few that they stay in the first cache between two loops.
  constexpr uint64_t most = 1024;
  for (uint64_t begin = 0; begin < count; begin += most) {
    const uint64_t own = std::min(most, count - begin);
    for (const float *from : {summands.bias, summands.residual})
      for (uint64_t i = 0; from && i < own; ++i)
        numbers[begin + i] += from[begin + i];
    epilogue.apply(numbers + begin, own);
  }
}

__attribute__((target("avx512f"))) static void
finishAvx512(const ConvEpilogue &epilogue, float *numbers,
             const ConvSummands &summands, uint64_t count) {
  finishBody(epilogue, numbers, summands, count);
}
static void finishAnywhere(const ConvEpilogue &epilogue, float *numbers,
                           const ConvSummands &summands, uint64_t count) {
  finishBody(epilogue, numbers, summands, count);
}

void ConvEpilogue::finish(float *numbers, const ConvSummands &summands,
                          uint64_t count) const {
  Work *work = hasAvx512() ? finishAvx512 : finishAnywhere;
  work(*this, numbers, summands, count);
}
