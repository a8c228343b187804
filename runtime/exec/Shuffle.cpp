//===- Shuffle.cpp --------------------------------------------------------===//
#include "exec/Shuffle.h"

#include <numeric>
#include <utility>

using namespace pp::runtime;

static uint64_t finalize(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t pp::runtime::mixBits(uint64_t seed, uint64_t counter) {
  return finalize(finalize(seed + 0x9e3779b97f4a7c15u) +
                  (counter + 1) * 0x9e3779b97f4a7c15u);
}

std::vector<uint64_t> pp::runtime::shuffledOrder(uint64_t seed, uint64_t epoch,
                                                 uint64_t samples) {
  std::vector<uint64_t> order(samples);
  std::iota(order.begin(), order.end(), 0);
  uint64_t key = mixBits(seed, epoch);
  for (uint64_t i = samples; i > 1; --i) {
    // Multiply-shift instead of a remainder: no bias worth naming, no division.
    uint64_t j = static_cast<uint64_t>(
        (static_cast<unsigned __int128>(mixBits(key, i)) * i) >> 64);
    std::swap(order[i - 1], order[j]);
  }
  return order;
}
