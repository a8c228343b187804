//===- Options.h - Enumerations of the nn passes' options -------*- C++ -*-===//

#ifndef PP_DIALECT_NN_TRANSFORMS_OPTIONS_H
#define PP_DIALECT_NN_TRANSFORMS_OPTIONS_H

#include "pp/Support/NamedEnum.h"

namespace pp::nn {

enum class Loss { CrossEntropy, MeanSquaredError };

enum class Optimizer { SGD, AdamW };

/// Of the factors of products and convolutions; sums are of f32.
enum class Precision { F32, TF32, BF16, F16 };

} // namespace pp::nn

namespace pp {

template <> struct EnumNames<nn::Loss> {
  static constexpr NamedValue<nn::Loss> values[] = {
      {nn::Loss::CrossEntropy, "cross_entropy", "targets are class numbers"},
      {nn::Loss::MeanSquaredError, "mse", "targets have the output's shape"}};
};

template <> struct EnumNames<nn::Optimizer> {
  static constexpr NamedValue<nn::Optimizer> values[] = {
      {nn::Optimizer::SGD, "sgd", "with momentum, as PyTorch's"},
      {nn::Optimizer::AdamW, "adamw", "as PyTorch's"}};
};

template <> struct EnumNames<nn::Precision> {
  static constexpr NamedValue<nn::Precision> values[] = {
      {nn::Precision::F32, "f32", ""},
      {nn::Precision::TF32, "tf32", "GPUs from sm_80 on"},
      {nn::Precision::BF16, "bf16", ""},
      {nn::Precision::F16, "f16", "GPUs only"}};
};

} // namespace pp

#endif // PP_DIALECT_NN_TRANSFORMS_OPTIONS_H
