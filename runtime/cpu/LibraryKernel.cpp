//===- LibraryKernel.cpp --------------------------------------------------===//
#include "cpu/LibraryKernel.h"
#include "cpu/KernelBuilder.h"
#include "cpu/PartClaims.h"
#include "pprt/pprt.h"

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <random>

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
  if (implementation->parts.front().getMostTogether() == 0) {
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

/// Memory that starts at a multiple of 64.
static std::shared_ptr<char> allocate(uint64_t bytes) {
  constexpr uint64_t line = 64;
  auto *memory = static_cast<char *>(
      std::aligned_alloc(line, (bytes + line) / line * line));
  if (!memory)
    throw std::bad_alloc();
  return {memory, [](char *pointer) { std::free(pointer); }};
}

/// Numbers between -1 and 1, the same ones each time.
static void fillWithNumbers(char *memory, uint64_t bytes,
                            KernelBuilder::Type type) {
  std::minstd_rand random(1); // NOLINT(bugprone-random-generator-seed)
  auto next = [&] {
    return static_cast<float>(random()) * 2 /
               static_cast<float>(std::minstd_rand::max()) -
           1;
  };
  for (uint64_t at = 0, size = dnnl::memory::data_type_size(type);
       at + size <= bytes; at += size) {
    float number = next();
    if (type == KernelBuilder::Type::f16) {
      auto half = static_cast<_Float16>(number);
      std::memcpy(memory + at, &half, size);
    } else {
      // A bf16 is the upper half of an f32.
      auto *bits = reinterpret_cast<const char *>(&number);
      std::memcpy(memory + at, bits + sizeof(number) - size, size);
    }
  }
}

/// Whether more parts than there are threads cost nothing.
static bool areManyPartsCheap(const std::string &text, unsigned parts) {
  Descriptor descriptor(text);
  const std::string &kind = descriptor.getKind();
  return kind == "matmul"
             ? arePartsCheap(descriptor, parts)
             : kind == "attention_forward" || kind == "attention_backward" ||
                   kind == "check_finite";
}

std::string pp::runtime::divideKernel(const std::string &descriptor,
                                      unsigned threads) noexcept {
  try {
    constexpr unsigned many = 4;
    for (unsigned each = many; each > 0; each /= 2)
      if (each == 1 || areManyPartsCheap(descriptor, each * threads))
        if (std::string divided =
                divideKernel(descriptor, threads, each * threads);
            !divided.empty())
          return divided;
  } catch (const std::exception &) { // NOLINT(bugprone-empty-catch)
    // The library says what is wrong where the kernel is made.
  }
  return descriptor;
}

std::string pp::runtime::divideKernel(const std::string &descriptor,
                                      unsigned threads,
                                      unsigned parts) noexcept {
  try {
    std::string error, text = descriptor + " parts=" + std::to_string(parts);
    if (parts != threads)
      text += " threads=" + std::to_string(threads);
    auto whole = LibraryKernel::create(descriptor, error);
    auto divided = LibraryKernel::create(text, error);
    if (!whole || !divided)
      return {};
    const KernelBuilder &builder = whole->implementation->parts.front();
    std::vector<uint64_t> bytes = builder.getTensorBytes();
    std::vector<KernelBuilder::Type> types = builder.getTensorTypes();
    auto run = [&](LibraryKernel &kernel) {
      std::vector<std::shared_ptr<char>> tensors;
      std::vector<void *> pointers;
      for (size_t i = 0; i < bytes.size(); ++i) {
        tensors.push_back(allocate(bytes[i]));
        fillWithNumbers(tensors[i].get(), bytes[i], types[i]);
        pointers.push_back(tensors[i].get());
      }
      auto scratchpad = allocate(kernel.scratchpadBytes());
      if (!kernel.execute(pointers.data(), scratchpad.get()))
        tensors.clear();
      return tensors;
    };
    // A function of our own on heads, which have nothing to do with each other.
    if (bytes.empty())
      return text;
    auto expected = run(*whole), found = run(*divided);
    takeKernelError();
    if (expected.empty() || found.empty())
      return {};
    for (size_t i = 0; i < bytes.size(); ++i)
      if (std::memcmp(expected[i].get(), found[i].get(), bytes[i]) != 0)
        return {};
    return text;
  } catch (const std::exception &) {
    return {};
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
