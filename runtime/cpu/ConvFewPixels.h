//===- ConvFewPixels.h - Windows of one place over few pixels ---*- C++ -*-===//
//
// At the end of a convolutional network, images of a sample have 7 x 7 pixels,
// and weights of a convolution with windows of one place take megabytes: to
// read them takes as long as to multiply them. As products in tiles of our own
// (TiledProduct.h), they are read ahead, and threads share them, where the
// library's code would have each thread read all of them for some of the
// pixels:
//
//                        outputs                  channels last
//                   ┌────────┬────────┐
//          channels │thread 0│thread 1│
//        ┌─────────┐└────────┴────────┘
//  pixels│    x    │┌────────┬────────┐
//        └─────────┘│        y        │  + bias + residual, activation
//                   └────────┴────────┘
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_CONVFEWPIXELS_H
#define PP_RUNTIME_CPU_CONVFEWPIXELS_H

#include "cpu/ConvEpilogue.h"
#include "cpu/ConvShape.h"

namespace pp::runtime {

/// Whether a whole convolution, and so each part of it, is computed so.
bool isOfFewPixels(Descriptor &descriptor, KernelBuilder &builder);
/// Of the convolution, or of a part with some of its outputs.
void buildFewPixels(const ConvShape &of, const ConvEpilogue &epilogue,
                    KernelBuilder &builder);
void buildPackFewPixels(const ConvShape &of, KernelBuilder &builder);
uint64_t measurePackedFewPixels(const ConvShape &of);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVFEWPIXELS_H
