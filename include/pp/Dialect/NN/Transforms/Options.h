//===- Options.h - Enumerations of the nn passes' options -------*- C++ -*-===//

#ifndef PP_DIALECT_NN_TRANSFORMS_OPTIONS_H
#define PP_DIALECT_NN_TRANSFORMS_OPTIONS_H

#include "pp/Support/NamedEnum.h"

namespace pp::nn {

enum class Loss {
  CrossEntropy,
  MeanSquaredError,
  SoftCrossEntropy,
  BinaryCrossEntropy,
  MeanAbsoluteError,
  Huber,
  KullbackLeibler,
  Cosine,
  ConnectionistTemporal,
  Output
};

enum class Optimizer {
  SGD,
  AdamW,
  Adam,
  RMSprop,
  Adagrad,
  Lion,
  LAMB,
  LARS,
  Adafactor,
  Muon
};

/// Of the factors of products and convolutions; sums are of f32.
enum class Precision { F32, TF32, BF16, F16 };

/// Where the channels of convolutions' tensors lie. Blocks have the length of
/// the processor's vectors.
enum class LayoutChoice { Auto, Plain, ChannelsLast, Blocked };

/// Which algorithms convolutions may take.
enum class ConvolutionChoice {
  Auto,
  Direct,
  Winograd,
  Winograd2,
  Winograd4,
  Winograd2BF16
};

/// Which weights are packed for the products that read them.
enum class PackWeightsMode { Auto, Always, Never };

} // namespace pp::nn

namespace pp {

template <> struct EnumNames<nn::Loss> {
  static constexpr NamedValue<nn::Loss> values[] = {
      {nn::Loss::CrossEntropy, "cross_entropy", "targets are class numbers"},
      {nn::Loss::MeanSquaredError, "mse", "targets have the output's shape"},
      {nn::Loss::SoftCrossEntropy, "soft_cross_entropy",
       "targets are probabilities of the classes"},
      {nn::Loss::BinaryCrossEntropy, "bce_with_logits",
       "targets are probabilities, of the output's shape"},
      {nn::Loss::MeanAbsoluteError, "l1", "targets have the output's shape"},
      {nn::Loss::Huber, "huber", "targets have the output's shape"},
      {nn::Loss::KullbackLeibler, "kl",
       "the output are logarithms of probabilities, targets probabilities; "
       "divided by the samples, as PyTorch's batchmean"},
      {nn::Loss::Cosine, "cosine",
       "1 - the cosine of the angle between rows of output and targets"},
      {nn::Loss::ConnectionistTemporal, "ctc",
       "the output has logits or logarithms of probabilities of samples x "
       "frames x classes, targets are the classes in their order, filled up "
       "with -1; as PyTorch's with mean"},
      {nn::Loss::Output, "output",
       "the model computes the loss: its mean is made small; output:NAME says "
       "which output it is"}};
};

template <> struct EnumNames<nn::Optimizer> {
  static constexpr NamedValue<nn::Optimizer> values[] = {
      {nn::Optimizer::SGD, "sgd", "with momentum, as PyTorch's"},
      {nn::Optimizer::AdamW, "adamw", "as PyTorch's"},
      {nn::Optimizer::Adam, "adam", "as PyTorch's: decay is in the gradient"},
      {nn::Optimizer::RMSprop, "rmsprop", "as PyTorch's"},
      {nn::Optimizer::Adagrad, "adagrad", "as PyTorch's"},
      {nn::Optimizer::Lion, "lion", "the sign of a mean of gradients"},
      {nn::Optimizer::LAMB, "lamb",
       "AdamW, scaled by the norms of each parameter and its step"},
      {nn::Optimizer::LARS, "lars",
       "sgd, scaled by the norms of each parameter and its gradient"},
      {nn::Optimizer::Adafactor, "adafactor",
       "as PyTorch's: means of squares by row and column"},
      {nn::Optimizer::Muon, "muon",
       "as PyTorch's for matrices, and adamw for all others"}};
};

template <> struct EnumNames<nn::ConvolutionChoice> {
  static constexpr NamedValue<nn::ConvolutionChoice> values[] = {
      {nn::ConvolutionChoice::Auto, "auto", "what is faster"},
      {nn::ConvolutionChoice::Direct, "direct", "never Winograd's"},
      {nn::ConvolutionChoice::Winograd, "winograd",
       "Winograd's wherever the library has one"},
      {nn::ConvolutionChoice::Winograd2, "winograd2",
       "Winograd's in our own tiles of 2 x 2"},
      {nn::ConvolutionChoice::Winograd4, "winograd4",
       "Winograd's in our own tiles of 4 x 4"},
      {nn::ConvolutionChoice::Winograd2BF16, "winograd2_bf16",
       "of bf16, tiles of 2 x 2 that are rounded to bf16"}};
};

template <> struct EnumNames<nn::LayoutChoice> {
  static constexpr NamedValue<nn::LayoutChoice> values[] = {
      {nn::LayoutChoice::Auto, "auto", "the best of the others"},
      {nn::LayoutChoice::Plain, "plain", "as in the model"},
      {nn::LayoutChoice::ChannelsLast, "channels_last", ""},
      {nn::LayoutChoice::Blocked, "blocked", ""}};
};

template <> struct EnumNames<nn::PackWeightsMode> {
  static constexpr NamedValue<nn::PackWeightsMode> values[] = {
      {nn::PackWeightsMode::Auto, "auto",
       "where several micro-batches read more than a cache holds"},
      {nn::PackWeightsMode::Always, "always", ""},
      {nn::PackWeightsMode::Never, "never", ""}};
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
