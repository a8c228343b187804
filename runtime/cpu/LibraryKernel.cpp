//===- LibraryKernel.cpp --------------------------------------------------===//
#include "cpu/LibraryKernel.h"
#include "cpu/KernelBuilder.h"
#include "cpu/PartClaims.h"
#include "pprt/pprt.h"

#include <iterator>
#include <new>

using namespace pp::runtime;

// clang finds no omp.h without its own OpenMP package, and oneDNN links GNU's
// libgomp, which is what this has to reach.
extern "C" void omp_set_num_threads(int);
extern "C" int omp_get_max_threads();

struct LibraryKernel::Implementation {
  std::string descriptor;
  /// OpenMP's of the thread that made it.
  int threads = omp_get_max_threads();
  std::vector<KernelBuilder> parts;
  /// Each thread has a scratchpad of so many bytes.
  unsigned scratchpads = 1;
  uint64_t scratchpadBytes = 0;
  PartClaims claims{0, 0};
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
    {"scatter_add", buildScatterAdd},
    {"integer_product", buildIntegerProduct},
    {"block_product", buildBlockProduct},
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
      unsigned parts = descriptor.has("parts")
                           ? descriptor.getInteger("parts", 2, PP_MOST_THREADS)
                           : 1;
      implementation->scratchpads =
          descriptor.has("threads") ? descriptor.getInteger("threads", 2, parts)
                                    : parts;
      for (unsigned index = 0; index < parts; ++index) {
        KernelBuilder &builder =
            implementation->parts.emplace_back(Part{index, parts});
        kind.build(descriptor, builder);
        builder.finish();
        implementation->scratchpadBytes = std::max(
            implementation->scratchpadBytes, builder.getScratchpadBytes());
      }
      implementation->claims = PartClaims(parts, implementation->scratchpads);
      descriptor.checkAllUsed();
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
  return implementation->scratchpadBytes * implementation->scratchpads;
}

unsigned LibraryKernel::tensorCount() const {
  return implementation->parts.front().getTensorCount();
}

std::vector<KernelTensor> LibraryKernel::describeTensors() const {
  return implementation->parts.front().getTensors();
}

unsigned LibraryKernel::mostTogether() const {
  return implementation->parts.front().getMostTogether();
}

template <typename Run>
bool LibraryKernel::runParts(void *scratchpad, const Run &run) noexcept {
  try {
    // The calls of some primitives divide their sums by the number of threads
    // that they have when they run.
    if (omp_get_max_threads() != implementation->threads)
      setKernelThreads(implementation->threads);
    const Part own = currentPart();
    if (own.index >= implementation->scratchpads)
      return true;
    const Part sharer{own.index,
                      std::min(own.count, implementation->scratchpads),
                      own.isFixed};
    bool isContinued = false;
    implementation->claims.runEach(sharer, [&](unsigned part) {
      run(implementation->parts[part],
          static_cast<char *>(scratchpad) +
              own.index * implementation->scratchpadBytes,
          std::exchange(isContinued, true));
    });
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

bool LibraryKernel::execute(void *const *tensors, void *scratchpad) noexcept {
  return runParts(scratchpad,
                  [&](KernelBuilder &part, void *own, bool isContinued) {
                    part.execute(tensors, own, isContinued);
                  });
}

bool LibraryKernel::executeTogether(std::span<void *const *const> tensors,
                                    Kernel *first, void *scratchpad) noexcept {
  if (mostTogether() == 0) {
    // One run adds to what the one before it left.
    FixedParts own;
    return Kernel::executeTogether(tensors, first, scratchpad);
  }
  return runParts(scratchpad, [&](KernelBuilder &part, void *own, bool) {
    size_t most = part.getMostTogether();
    for (size_t at = 0; at < tensors.size(); at += most)
      part.executeTogether(
          tensors.subspan(at, std::min(most, tensors.size() - at)),
          /*isFirst=*/first && at == 0, own);
  });
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

bool pp::runtime::isFused(std::string_view convolution) noexcept {
  try {
    Descriptor descriptor(convolution);
    KernelBuilder builder;
    return descriptor.getKind() == "conv_forward" &&
           isConvFused(descriptor, builder);
  } catch (const std::exception &) {
    return false;
  }
}

bool pp::runtime::addsInPlace(std::string_view gradient) noexcept {
  try {
    Descriptor descriptor(gradient);
    KernelBuilder builder;
    const std::string &kind = descriptor.getKind();
    return kind == "matmul" ? isMatmulAddedInPlace(descriptor)
           : kind == "conv_backward_weights"
               ? isConvAddedInPlace(descriptor, builder)
               : false;
  } catch (const std::exception &) {
    return false;
  }
}

bool pp::runtime::addsTogether(std::string_view gradient) noexcept {
  try {
    Descriptor descriptor(gradient);
    KernelBuilder builder;
    const std::string &kind = descriptor.getKind();
    return kind == "matmul" ? isMatmulAddedTogether(descriptor)
           : kind == "conv_backward_weights"
               ? isConvAddedTogether(descriptor, builder)
               : false;
  } catch (const std::exception &) {
    return false;
  }
}

void pp::runtime::setKernelThreads(int count) { omp_set_num_threads(count); }
int pp::runtime::getKernelThreads() { return omp_get_max_threads(); }

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
