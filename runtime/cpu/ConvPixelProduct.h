//===- ConvPixelProduct.h - Convolutions as products ------------*- C++ -*-===//
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
// So are convolutions for which oneDNN 2.6 has no generated code, or slow one,
// some pixels at a time, which threads share: of one channel with a window of
// hundreds of places, with a window that reaches far, and for AVX2 of images of
// one pixel, and where channels lie together with strides or few outputs. Where
// most pixels see nothing but padding at most places of the window, each place
// has a product of its own (PixelRows.h).
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_CONVPIXELPRODUCT_H
#define PP_RUNTIME_CPU_CONVPIXELPRODUCT_H

#include "cpu/ConvDirection.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/ConvShape.h"

namespace pp::runtime {

/// Whether a convolution, or the gradient of its image, is computed so, with
/// the weights that the descriptor has.
bool isPixelProduct(Descriptor &descriptor, KernelBuilder &builder,
                    ConvDirection direction);
/// Whether it is with packed ones.
bool packsForPixelProduct(Descriptor &descriptor, KernelBuilder &builder,
                          ConvDirection direction);

/// `whole` is that of the whole kernel; a part has some of the channels that
/// are written.
void buildPixelProduct(const ConvShape &whole, ConvDirection direction,
                       const ConvEpilogue &epilogue, KernelBuilder &builder);
void buildPackPixelProduct(const ConvShape &whole, ConvDirection direction,
                           KernelBuilder &builder);
uint64_t measurePackedPixelProduct(const ConvShape &whole,
                                   ConvDirection direction);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVPIXELPRODUCT_H
