//===- PairWeights.h - Weights of convolutions in pairs of bf16 -----------===//
#ifndef PP_RUNTIME_CPU_PAIRWEIGHTS_H
#define PP_RUNTIME_CPU_PAIRWEIGHTS_H

#include <cstdint>

namespace pp::runtime {

/// Brings weights, outputs x channels x places and dense, into panels of 16
/// outputs, one after the other: for each place, for each pair of channels, 16
/// pairs. So 32 channels are a tile of MatrixTiles' b. Outputs are a multiple
/// of 16, channels even; needs AVX-512 with BW and VL.
void packPairWeights(const uint16_t *weights, int64_t outputs, int64_t channels,
                     int64_t places, uint16_t *to);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PAIRWEIGHTS_H
