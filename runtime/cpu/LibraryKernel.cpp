//===- LibraryKernel.cpp --------------------------------------------------===//
#include "cpu/LibraryKernel.h"
#include "cpu/KernelBuilder.h"
#include "pprt/pprt.h"

#include <iterator>
#include <new>

using namespace pp::runtime;

// clang finds no omp.h without its own OpenMP package, and oneDNN links GNU's
// libgomp, which is what this has to reach.
extern "C" void omp_set_num_threads(int);

struct LibraryKernel::Implementation {
  std::string descriptor;
  KernelBuilder builder;
};

namespace {
struct Kind {
  const char *name;
  void (*build)(Descriptor &, KernelBuilder &);
};
} // namespace

static constexpr Kind kinds[] = {
    {"matmul", buildMatmul},
    {"pack_matmul", buildPackMatmul},
    {"pack_conv_forward", buildPackConvForward},
    {"pack_conv_backward_data", buildPackConvBackwardData},
    {"conv_forward", buildConvForward},
    {"conv_backward_data", buildConvBackwardData},
    {"conv_backward_weights", buildConvBackwardWeights},
    {"max_pool_forward", buildMaxPoolForward},
    {"max_pool_backward", buildMaxPoolBackward},
    {"avg_pool_forward", buildAvgPoolForward},
    {"avg_pool_backward", buildAvgPoolBackward},
    {"batch_norm_forward", buildBatchNormForward},
    {"batch_norm_backward", buildBatchNormBackward},
    {"reorder", buildReorder},
    {"attention_forward", buildAttentionForward},
    {"attention_backward", buildAttentionBackward},
    {"check_finite", buildCheckFinite},
    {"loss_scale", buildLossScale},
    {"add", buildAdd},
};

/// Kernels with a factor that may be packed.
static constexpr struct {
  const char *name;
  uint64_t (*measure)(Descriptor &, KernelBuilder &);
} packable[] = {
    {"matmul", measurePackedMatmul},
    {"conv_forward", measurePackedConvForward},
    {"conv_backward_data", measurePackedConvBackwardData},
};

static thread_local std::string pendingError;

LibraryKernel::LibraryKernel(std::unique_ptr<Implementation> implementation)
    : implementation(std::move(implementation)) {}
LibraryKernel::~LibraryKernel() = default;

std::unique_ptr<LibraryKernel>
LibraryKernel::create(std::string_view text, std::string &error) noexcept {
  std::string reason;
  try {
    Descriptor descriptor(text);
    for (const Kind &kind : kinds) {
      if (descriptor.getKind() != kind.name)
        continue;
      auto implementation = std::make_unique<Implementation>();
      implementation->descriptor = std::string(text);
      kind.build(descriptor, implementation->builder);
      descriptor.checkAllUsed();
      implementation->builder.finish();
      return std::unique_ptr<LibraryKernel>(
          new LibraryKernel(std::move(implementation)));
    }
    reason = "unknown kind '" + descriptor.getKind() + "'";
  } catch (const dnnl::error &e) {
    reason = e.status == dnnl_out_of_memory ? "oneDNN is out of memory: "
                                            : "oneDNN refuses these shapes: ";
    reason += e.what();
  } catch (const std::bad_alloc &) {
    reason = "out of memory";
  } catch (const std::exception &e) {
    reason = e.what();
  }
  try {
    error = "library kernel '" + std::string(text) + "': " + reason;
  } catch (const std::bad_alloc &) {
    error = "out of memory"; // short enough to need none
  }
  return nullptr;
}

uint64_t LibraryKernel::scratchpadBytes() const {
  return implementation->builder.getScratchpadBytes();
}

unsigned LibraryKernel::tensorCount() const {
  return implementation->builder.getTensorCount();
}

bool LibraryKernel::execute(void *const *tensors, void *scratchpad) noexcept {
  try {
    implementation->builder.execute(tensors, scratchpad);
    return true;
  } catch (const std::exception &e) {
    try {
      keepKernelError("library kernel '" + implementation->descriptor +
                      "': " + e.what());
    } catch (const std::bad_alloc &) {
      keepKernelError("out of memory");
    }
    return false;
  }
}

uint64_t pp::runtime::getPackedBytes(std::string_view product) noexcept {
  try {
    Descriptor descriptor(product);
    KernelBuilder builder;
    for (const auto &kind : packable)
      if (descriptor.getKind() == kind.name)
        return kind.measure(descriptor, builder);
  } catch (const std::exception &) {
    return 0;
  }
  return 0;
}

void pp::runtime::setKernelThreads(int count) { omp_set_num_threads(count); }

std::string pp::runtime::takeKernelError() {
  return std::exchange(pendingError, std::string());
}

void pp::runtime::keepKernelError(std::string text) noexcept {
  if (pendingError.empty())
    pendingError = std::move(text);
}

void pp_execute_kernel(void *kernel, void *const *tensors, void *scratchpad) {
  static_cast<Kernel *>(kernel)->execute(tensors, scratchpad);
}
