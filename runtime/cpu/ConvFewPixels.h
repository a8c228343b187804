//===- ConvFewPixels.h - Few pixels and many weights ------------*- C++ -*-===//
//
// At the end of a convolutional network, images of a sample have 7 x 7 pixels,
// and weights take megabytes: to read them takes as long as to multiply them.
// As products in tiles of our own (TiledProduct.h), they are read ahead, and
// threads share them, where the library's code would have each thread read all
// of them for some of the pixels. Of a convolution, or of the gradient of an
// image without strides, whose windows look the other way:
//
//                               outputs of the window
//                               ┌────────┬────────┐
//            window x channels  │thread 0│thread 1│
//           ┌──────────────────┐└────────┴────────┘
//    pixels │what each sees in │┌────────┬────────┐
//           │x, 0 outside of it││        y        │  + bias + residual,
//           └──────────────────┘└────────┴────────┘  activation
//
// So is a convolution of one channel with a window of hundreds of places, for
// which oneDNN 2.6 has nothing but loops, or with a window that reaches farther
// than its generated code: some pixels at a time, which threads share.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_CONVFEWPIXELS_H
#define PP_RUNTIME_CPU_CONVFEWPIXELS_H

#include "cpu/ConvDirection.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/ConvShape.h"

namespace pp::runtime {

/// Whether a convolution, or the gradient of its image, is computed so, with
/// the weights that the descriptor has.
bool isOfFewPixels(Descriptor &descriptor, KernelBuilder &builder,
                   ConvDirection direction);
/// Whether it is with packed ones.
bool packsForFewPixels(Descriptor &descriptor, KernelBuilder &builder,
                       ConvDirection direction);

/// `whole` is that of the whole kernel; a part has some of the channels that
/// are written.
void buildFewPixels(const ConvShape &whole, ConvDirection direction,
                    const ConvEpilogue &epilogue, KernelBuilder &builder);
void buildPackFewPixels(const ConvShape &whole, ConvDirection direction,
                        KernelBuilder &builder);
uint64_t measurePackedFewPixels(const ConvShape &whole,
                                ConvDirection direction);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVFEWPIXELS_H
