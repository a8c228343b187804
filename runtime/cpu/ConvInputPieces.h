//===- ConvInputPieces.h - Channels of an image's gradient ----------------===//
#ifndef PP_RUNTIME_CPU_CONVINPUTPIECES_H
#define PP_RUNTIME_CPU_CONVINPUTPIECES_H

#include "cpu/ConvShape.h"

#include <vector>

namespace pp::runtime {

/// Some channels of a single image's gradient (dX), as a gradient of their own.
struct ConvInputPiece {
  ConvShape shape;
  dnnl::convolution_backward_data::primitive_desc desc;
  uint64_t packedOffset; ///< of its weights, in bytes
};

/// The gradient of a single image as the library's gradients of some of its
/// channels each, with weights that are packed for them one after the other.
/// Threads share these pieces: there are no samples to share, and of weights
/// that are packed at once, those of some input channels do not lie together.
/// It is so with one thread, too, which makes the bits the same; pieces take
/// 0.91 to 1.12 of the time of all, 1.01 in the mean of ResNet-50's (measured
/// on Zen 3).
///
///   dX  [ piece 0 | piece 1 | piece 2 | piece 3 ]   whole blocks of channels
///   W   [ packed 0 | packed 1 | packed 2 | packed 3 ]
///   dY  read by all
///
/// None for several samples, groups, few channels, little work and other types
/// than f32, and where the library has no generated code. `whole` is not a
/// part.
std::vector<ConvInputPiece> findInputPieces(const ConvShape &whole,
                                            KernelBuilder &builder);

/// 0 where nothing is to be gained.
uint64_t measurePackedInputPieces(const std::vector<ConvInputPiece> &pieces);
void buildPackInputPieces(const ConvShape &whole,
                          const std::vector<ConvInputPiece> &pieces,
                          KernelBuilder &builder);
/// From dY, weights and dX.
void buildInputPieces(const ConvShape &whole,
                      const std::vector<ConvInputPiece> &pieces,
                      KernelBuilder &builder);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVINPUTPIECES_H
