//===- Shuffle.h - The order of samples in an epoch -----------------------===//
#ifndef PP_RUNTIME_EXEC_SHUFFLE_H
#define PP_RUNTIME_EXEC_SHUFFLE_H

#include <cstdint>
#include <vector>

namespace pp::runtime {

/// A permutation of [0, samples) that depends on (seed, epoch) alone, so that a
/// resumed run needs no state of a generator. Same on every machine.
std::vector<uint64_t> shuffledOrder(uint64_t seed, uint64_t epoch,
                                    uint64_t samples);

/// A well mixed function of its arguments (splitmix64).
uint64_t mixBits(uint64_t seed, uint64_t counter);

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_SHUFFLE_H
