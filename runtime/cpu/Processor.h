//===- Processor.h - What this processor is good at -------------*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_PROCESSOR_H
#define PP_RUNTIME_CPU_PROCESSOR_H

namespace pp::runtime {
struct MatrixTiles;

/// Whether the library's products and convolutions of bf16 are faster than
/// those of f32: with AMX, and on AMD's processors with AVX512_BF16. Intel's
/// AVX512_BF16 does as many terms per cycle as their f32; without either, bf16
/// is emulated.
bool hasFastBFloat16();

/// Whether there are AMX's tiles for bf16, and the system keeps them for this
/// process, which is asked the first time.
bool hasMatrixTiles();

/// The tiles for products of bf16; null unless hasFastBFloat16().
const MatrixTiles *shortTiles();

/// With BW and VL, which all have but those of Xeon Phi.
bool hasAvx512();
/// The same, and VNNI: sums of four products of bytes at once.
bool hasByteProducts();
/// Whether products of bytes take less time than those of f32: with these, or
/// with AVX2's products of 16 bits.
bool hasIntegerProducts();
bool isFromIntel();
/// AMD's first with AVX-512 as wide as its registers.
bool isZen5();
/// Intel's first for servers with AVX-512, and Cascade Lake.
bool isSkylakeServer();

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PROCESSOR_H
