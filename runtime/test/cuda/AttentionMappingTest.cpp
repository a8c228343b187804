//===- AttentionMappingTest.cpp - Dimensions, strides and what is refused -===//
#include "cuda/AttentionMapping.h"

#include <gtest/gtest.h>

using namespace pp::cuda;
using pp::runtime::Descriptor;
using pp::runtime::DescriptorError;

namespace {

using Dims = std::vector<int64_t>;

AttentionMapping map(const std::string &text) {
  Descriptor descriptor(text);
  AttentionMapping map = mapAttention(descriptor);
  descriptor.checkAllUsed();
  return map;
}

std::string refuse(const std::string &text) {
  try {
    map(text);
  } catch (const DescriptorError &e) {
    return e.what();
  }
  return "no error";
}

TEST(AttentionMapping, DenseTensorsInTheOrderOfTheDescriptor) {
  AttentionMapping forward =
      map("attention_forward q=2x3x5x16 k=2x3x7x16 v=2x3x7x24 scale=0.25 "
          "causal=0 types=f16");
  ASSERT_EQ(forward.tensors.size(), 5u);
  EXPECT_FALSE(forward.isBackward);
  EXPECT_FALSE(forward.isCausal);
  EXPECT_EQ(forward.scale, 0.25f);
  const Dims dims[] = {
      {2, 3, 5, 16}, {2, 3, 7, 16}, {2, 3, 7, 24}, {2, 3, 5, 24}, {2, 3, 5, 1}};
  const Dims strides[] = {{240, 80, 16, 1},
                          {336, 112, 16, 1},
                          {504, 168, 24, 1},
                          {360, 120, 24, 1},
                          {15, 5, 1, 1}};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(forward.tensors[i].dims, dims[i]) << i;
    EXPECT_EQ(forward.tensors[i].strides, strides[i]) << i;
    EXPECT_EQ(forward.tensors[i].type,
              i == 4 ? ElementType::F32 : ElementType::F16);
  }
  AttentionMapping backward =
      map("attention_backward q=2x3x5x16 k=2x3x7x16 v=2x3x7x24 scale=0.25 "
          "causal=0 types=bf16");
  ASSERT_EQ(backward.tensors.size(), 9u);
  EXPECT_TRUE(backward.isBackward);
  const size_t like[] = {0, 1, 2, 3, 4, 3, 0, 1, 2};
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(backward.tensors[i].dims, dims[like[i]]) << i;
    EXPECT_EQ(backward.tensors[i].strides, strides[like[i]]) << i;
    EXPECT_EQ(backward.tensors[i].type,
              i == 4 ? ElementType::F32 : ElementType::BF16);
  }
}

TEST(AttentionMapping, EveryTensorHasStridesOfItsOwn) {
  const char *keys[] = {"qs", "ks", "vs", "os", "", "dos", "dqs", "dks", "dvs"};
  std::string text =
      "attention_backward q=2x3x8x16 k=2x3x8x16 v=2x3x8x16 scale=1 causal=1 "
      "types=bf16";
  std::vector<Dims> strides;
  for (int64_t i = 0; i < 9; ++i) {
    strides.push_back({1024 + 8 * i, 16, 64 + 8 * i, 1});
    if (i == AttentionMapping::Stats)
      strides.back() = {24, 8, 1, 1};
    else
      text += " " + std::string(keys[i]) + "=" + std::to_string(1024 + 8 * i) +
              "x16x" + std::to_string(64 + 8 * i) + "x1";
  }
  AttentionMapping backward = map(text);
  EXPECT_TRUE(backward.isCausal);
  for (size_t i = 0; i < 9; ++i)
    EXPECT_EQ(backward.tensors[i].strides, strides[i]) << i;
}

TEST(AttentionMapping, WhatCudnnCannotDoIsRefused) {
  struct Case {
    const char *shapes, *rest, *message;
  };
  for (const Case &c : std::vector<Case>{
           {"q=2x3x5x16 k=2x3x7x8 v=2x3x7x8", "causal=0 types=bf16",
            "k: batch, heads or columns disagree with q"},
           {"q=2x3x5x16 k=2x3x7x16 v=2x3x5x8", "causal=0 types=bf16",
            "v: batch, heads or rows disagree with k"},
           {"q=2x3x5x12 k=2x3x5x12 v=2x3x5x8", "causal=0 types=bf16",
            "q=2x3x5x12: cuDNN wants a multiple of 8 columns, and at most "
            "128; compile the model with --fuse-attention=never"},
           {"q=2x3x5x16 k=2x3x5x16 v=2x3x5x136", "causal=0 types=bf16",
            "v=2x3x5x136: cuDNN wants a multiple of 8 columns"},
           {"q=2x3x5x16 k=2x3x7x16 v=2x3x7x16", "causal=1 types=bf16",
            "causal=1: q and k have different numbers of rows"},
           {"q=2x3x5x16 k=2x3x5x16 v=2x3x5x16", "causal=2 types=bf16",
            "causal=2: expected at most 1"},
           {"q=2x3x5x16 k=2x3x5x16 v=2x3x5x16", "causal=0 types=f32",
            "types=f32: cuDNN has attention only for bf16 and f16; compile "
            "the model with --fuse-attention=never, or with --precision=bf16"},
           {"q=2x3x5x16 k=2x3x5x16 v=2x3x5x16", "causal=0 types=bf16xbf16",
            "expected 1 words"},
           {"q=2x3x5x16 k=2x3x5x16 v=2x3x5x16", "causal=0",
            "key 'types' is missing"},
           {"q=2x3x5x16 k=2x3x5x16 v=2x3x5x16",
            "causal=0 types=bf16 ks=240x80x1x5",
            "ks=240x80x1x5: cuDNN wants the last dimension contiguous"},
           {"q=2x3x5x16 k=2x3x5x16 v=2x3x5x16",
            "causal=0 types=bf16 os=240x80x20x1",
            "os=240x80x20x1: cuDNN wants strides that are multiples of 8"},
           {"q=2x3x5x16 k=2x3x5x16 v=2x3x5x16",
            "causal=0 types=bf16 vs=240x0x16x1",
            "vs=240x0x16x1: cuDNN takes no tensors that are broadcast"},
           {"q=2x3x5x16 k=2x3x5x16 v=2x3x5x16",
            "causal=0 types=bf16 dqs=240x80x16x1",
            "unknown key 'dqs' for kind 'attention_forward'"}}) {
    std::string message = refuse("attention_forward " + std::string(c.shapes) +
                                 " scale=1 " + c.rest);
    EXPECT_NE(message.find(c.message), std::string::npos) << message;
  }
  // The stride of a dimension with one element does not matter.
  EXPECT_EQ(refuse("attention_forward q=1x3x5x16 k=1x3x5x16 v=1x3x5x16 scale=1 "
                   "causal=0 types=bf16 qs=1x80x16x1"),
            "no error");
}

} // namespace
