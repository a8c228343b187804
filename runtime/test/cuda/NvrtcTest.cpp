//===- NvrtcTest.cpp - The toolkit compiles the plugin's kernels ----------===//
#include "Failure.h"
#include "Libraries.h"

#include <gtest/gtest.h>

using namespace pp::cuda;

TEST(Nvrtc, CompilesTheKernelsForEachChip) {
  for (int architecture : {80, 86, 89, 90, 100, 120}) {
    std::string text;
    try {
      text = compileDeviceKernels(architecture);
    } catch (const Failure &e) {
      if (e.getKind() != Failure::Usage)
        throw;
      GTEST_SKIP() << e.what();
    }
    EXPECT_NE(text.find(".target sm_" + std::to_string(architecture)),
              std::string::npos);
    for (const char *name :
         {"max_pool_forward", "max_pool_backward", "max_pool_backward_planes",
          "avg_pool_forward", "avg_pool_backward", "batch_norm_forward",
          "batch_norm_backward", "widen_bf16", "widen_f16", "check_finite",
          "loss_scale", "add"})
      EXPECT_NE(text.find(std::string(".entry ") + name + "("),
                std::string::npos)
          << name;
    // Nothing is contracted.
    EXPECT_EQ(text.find("fma.rn.f32"), std::string::npos);
  }
}
