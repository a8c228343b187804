//===- KernelBuilder.h - Chains oneDNN primitives into one kernel ---------===//
//
// Internal to runtime/cpu. A kernel is a list of primitives over memories; a
// memory is bound to one of the caller's tensors or to a place in the
// scratchpad. So a kernel that wants another layout inside adds a temporary and
// two reorders, and nothing outside notices.
//
// oneDNN 2.6 has no products of f16. A tensor of f16 is one of f32 to the
// primitives: it is widened before the first of them, or narrowed after the
// last. For tests of what surrounds such kernels, not for speed.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_KERNELBUILDER_H
#define PP_RUNTIME_CPU_KERNELBUILDER_H

#include "cpu/Descriptor.h"
#include "cpu/ImagePlaces.h"
#include "cpu/KernelTensor.h"
#include "kernel/Part.h"
#include "plan/DataType.h"
#include "pprt/pprt.h"

#include <dnnl.hpp>

#include <array>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace pp::runtime {

/// Collects the primitives of one kernel and runs them.
class KernelBuilder {
public:
  using MemoryDesc = dnnl::memory::desc;
  using Dims = dnnl::memory::dims;
  using Argument = std::pair<int, dnnl::memory>;

  /// For this part of a kernel.
  explicit KernelBuilder(Part part = {});

  /// This part's share of an axis, or of anything that is counted.
  struct Range {
    int64_t begin, count;
  };
  /// The shares of the parts of `extent` things; shares begin at multiples of
  /// `grain`. Throws DescriptorError if one would be empty.
  Range share(int64_t extent, int64_t grain = 1);
  bool isWhole() const { return part.count == 1; }
  unsigned countParts() const { return part.count; }
  /// A tensor of which the part has `range` of an axis: its description, and
  /// how many bytes before it there are.
  struct Slice {
    MemoryDesc desc;
    uint64_t offset = 0;
  };
  static Slice slice(const MemoryDesc &strided, int64_t axis, Range range);
  /// The same for samples of a tensor that is dense in any layout; `whole` has
  /// as many as there are.
  static uint64_t offsetOfSamples(const MemoryDesc &whole, Range range);

  dnnl::engine &getEngine() { return engine; }
  /// Attributes for every primitive: scratchpad memory comes from the caller.
  const dnnl::primitive_attr &getAttributes() const { return attributes; }

  using Type = dnnl::memory::data_type;
  /// A row-major description.
  static MemoryDesc dense(const Dims &dims, Type type = Type::f32);
  static MemoryDesc strided(const Dims &dims, const Dims &strides,
                            Type type = Type::f32);
  /// A description of a tensor N x C x spatial that lies in a layout: `plain`,
  /// `channels_last`, `blocked8` or `blocked16`. A blocked one leaves a tensor
  /// plain whose channels are no multiple of the block.
  static MemoryDesc inLayout(const Dims &dims, const std::string &layout,
                             Type type = Type::f32);
  /// The key `layout` of a kernel; `plain` without it.
  static std::string layout(Descriptor &descriptor);
  /// The key `types` of a product: f32, bf16 or f16 for each of `count`
  /// tensors; without the key all are f32.
  static std::vector<Type> types(Descriptor &descriptor, size_t count);
  static int64_t elementCount(const Dims &dims);
  /// Of a description without blocks, as dense() and strided() make it.
  static Dims stridesOf(const MemoryDesc &desc);
  /// Sizes of the spatial axes, from entry `from` on, as those of three; `rest`
  /// for those that there are not.
  static ImageAxes imageAxes(const Dims &sizes, size_t from, int64_t rest);
  /// Where the numbers of a tensor N x C x spatial lie.
  static ImagePlaces imagePlaces(const MemoryDesc &desc);
  /// `window` are the extents of one; dilations are oneDNN's, 0 without holes.
  static WindowSizes windowSizes(const MemoryDesc &src, const MemoryDesc &dst,
                                 const ImageAxes &window, const Dims &strides,
                                 const Dims &dilations, const Dims &padding);
  /// The name that plans have for f32, bf16 and f16.
  static DataType dataType(Type type);

  /// `desc`, in f32 where it is in f16: what a primitive works on.
  static MemoryDesc widened(const MemoryDesc &desc);

  /// The caller's next tensor (in order of the calls), which is read. The
  /// result has the description widened(desc). `offset` is that of a part, in
  /// bytes.
  dnnl::memory addTensor(const MemoryDesc &desc, uint64_t offset = 0);
  /// The same for a tensor that is written.
  dnnl::memory addResult(const MemoryDesc &desc, uint64_t offset = 0);
  /// A part of `memory`, which this builder has added, from `offset` bytes on.
  dnnl::memory addView(const dnnl::memory &memory, const MemoryDesc &desc,
                       uint64_t offset);
  /// Memory inside the scratchpad, live for the whole kernel.
  dnnl::memory addTemporary(const MemoryDesc &desc);
  /// Appends a primitive. Adds its scratchpad; scratchpads of primitives share
  /// their bytes, since primitives run one after the other.
  void addPrimitive(const dnnl::primitive &primitive,
                    const MemoryDesc &scratchpad,
                    const std::vector<Argument> &arguments);

  /// Appends work of our own on memories of this builder.
  using Work = std::function<void()>;
  void addWork(Work work);
  /// Appends the addition of dense numbers of f32 to a tensor of as many, which
  /// may have strides.
  void addSum(const dnnl::memory &from, const dnnl::memory &to);
  /// Whether the processor tells what guardNext() asks.
  static bool canGuard();
  /// Lets the next `count` additions run only where the last primitive has met,
  /// or made, what is not a number. The library's maxima and minima hide it.
  /// Only with canGuard().
  void guardNext(unsigned count);
  /// Where an element of a tensor lies, in elements.
  static int64_t placeOf(const MemoryDesc &desc, const Dims &index);

  using Tensor = KernelTensor;
  /// `bytes`: of another layout than that of `desc`, or 0.
  static Tensor tensorOf(const MemoryDesc &desc, uint64_t bytes = 0);
  static Tensor tensorOf(DataType type, int64_t count, int64_t limit = 0);

  using Function = std::function<void(void *const *tensors, void *scratchpad)>;
  /// Makes the kernel this function instead, on these tensors, whole ones, and
  /// a scratchpad of at least `bytes`.
  void setFunction(std::vector<Tensor> tensors, Function work,
                   uint64_t bytes = 0);
  /// The same for a function that is told whether another part of the kernel
  /// has just run with the scratchpad.
  using PartFunction = std::function<void(void *const *tensors,
                                          void *scratchpad, bool isContinued)>;
  void setPartFunction(std::vector<Tensor> tensors, PartFunction work,
                       uint64_t bytes);

  /// Lets a kernel that adds to its last tensor do so for up to `most` calls in
  /// one pass over it; `tensors` has those of each call, and with `isFirst` the
  /// first one writes. Like setFunction beside that.
  using SumFunction = std::function<void(std::span<void *const *const> tensors,
                                         bool isFirst, void *scratchpad)>;
  void setSumFunction(unsigned most, SumFunction work, uint64_t bytes);
  /// A tensor of a kernel, from so many bytes on.
  struct Place {
    int tensor;
    uint64_t offset;
  };
  /// The same for a kernel that adds products to its result: `sums` is like
  /// MatrixSums.
  template <typename Sums>
  void setSums(const Sums &sums, Place a, Place b, Place result) {
    setSumFunction(
        static_cast<unsigned>(sums.atOnce()),
        [=](std::span<void *const *const> tensors, bool isFirst,
            void *scratchpad) {
          auto at = [](void *const *own, Place place) {
            return static_cast<char *>(own[place.tensor]) + place.offset;
          };
          std::array<typename Sums::Factors, PP_MOST_TOGETHER> factors;
          for (size_t i = 0; i < tensors.size(); ++i)
            factors[i] = {at(tensors[i], a), at(tensors[i], b)};
          sums.run(std::span(factors.data(), tensors.size()),
                   reinterpret_cast<float *>(at(tensors[0], result)), isFirst,
                   scratchpad);
        },
        sums.getScratchpadBytes());
  }
  /// The most calls at once; 0: it has no such function.
  unsigned getMostTogether() const { return mostTogether; }
  void executeTogether(std::span<void *const *const> tensors, bool isFirst,
                       void *scratchpad) const {
    sumFunction(tensors, isFirst, scratchpad);
  }

  /// Places temporaries and scratchpads; call once after the last add. Throws
  /// DescriptorError where this is a part of a kernel that cannot be divided.
  void finish();
  uint64_t getScratchpadBytes() const { return scratchpadBytes; }
  unsigned getTensorCount() const {
    return function ? functionTensors.size() : tensors.size();
  }
  /// Those of a whole kernel.
  std::vector<Tensor> getTensors() const;

  /// Points all memories at the caller's data and runs. Throws dnnl::error.
  /// With `isContinued`, another part of the kernel has just done so with this
  /// scratchpad.
  void execute(void *const *pointers, void *scratchpad,
               bool isContinued = false);

private:
  struct Temporary {
    dnnl::memory memory;
    uint64_t offset;
  };
  struct View {
    dnnl::memory memory, whole;
    uint64_t offset;
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
    std::vector<dnnl::memory> owners; // keeps the handles of `arguments` alive
    Work work;                        // instead of a primitive
    unsigned guarded = 0;             // so many steps behind it; see guardNext
  };

  /// A tensor in f16 and its form in f32, with the same strides. What lies
  /// between its elements is other parts'.
  struct Conversion {
    size_t tensor;
    dnnl::memory wide;
    Dims dims, strides;
    bool isResult;
  };
  dnnl::memory add(const MemoryDesc &desc, bool isResult, uint64_t offset);
  void run(const Step &step);

  Part part;
  bool isShared = false; // whether share() was asked
  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::primitive_attr attributes;
  std::vector<dnnl::memory> tensors;
  std::vector<uint64_t> offsets; // by tensor
  std::vector<Temporary> temporaries;
  std::vector<View> views;
  std::vector<dnnl::memory> scratchpads;
  std::vector<Step> steps;
  std::vector<Conversion> conversions;
  PartFunction function;
  std::vector<Tensor> functionTensors;
  SumFunction sumFunction;
  unsigned mostTogether = 0;
  uint64_t scratchpadBytes = 0;
  uint64_t sharedBytes = 0;
};

// One function per kind; each reads its keys and fills the builder.
void buildMatmul(Descriptor &descriptor, KernelBuilder &builder);
/// c = a^T b, with the tensors in the order b, a, c: dense matrices of a row
/// for each term. With `isAdded`, c += a^T b, and c is f32; `together` as
/// readTogether.
void buildTransposedProduct(const KernelBuilder::MemoryDesc &b,
                            const KernelBuilder::MemoryDesc &a,
                            const KernelBuilder::MemoryDesc &c, bool isAdded,
                            int64_t together, KernelBuilder &builder);
/// The key `accumulate` of a kernel: whether it adds to its result, which is of
/// `type`. A number is complete before it is added, so it has the bits of a
/// kernel that writes it and another one that adds.
bool readAccumulation(Descriptor &descriptor, KernelBuilder::Type type);
/// The key `together` of a kernel that adds: for how many micro-batches it may
/// do so at once, 1 without it.
int64_t readTogether(Descriptor &descriptor, bool isAdded);
void buildPackMatmul(Descriptor &descriptor, KernelBuilder &builder);
void buildPackConvForward(Descriptor &descriptor, KernelBuilder &builder);
void buildPackConvBackwardData(Descriptor &descriptor, KernelBuilder &builder);
// See getPackedBytes.
uint64_t measurePackedMatmul(Descriptor &descriptor, KernelBuilder &builder);
uint64_t measurePackedConvForward(Descriptor &descriptor,
                                  KernelBuilder &builder);
uint64_t measurePackedConvBackwardData(Descriptor &descriptor,
                                       KernelBuilder &builder);
void buildConvForward(Descriptor &descriptor, KernelBuilder &builder);
/// See isFused.
bool isConvFused(Descriptor &descriptor, KernelBuilder &builder);
/// Whether threads may share a `matmul` in so many parts: each packs nothing
/// but its own, and is large enough.
bool arePartsCheap(Descriptor &matmul, unsigned parts);
/// See addsTogether.
bool isMatmulAddedTogether(Descriptor &descriptor);
bool isConvAddedTogether(Descriptor &descriptor, KernelBuilder &builder);
/// See addsInPlace.
bool isMatmulAddedInPlace(Descriptor &descriptor);
bool isConvAddedInPlace(Descriptor &descriptor, KernelBuilder &builder);
void buildConvBackwardData(Descriptor &descriptor, KernelBuilder &builder);
void buildConvBackwardWeights(Descriptor &descriptor, KernelBuilder &builder);
void buildMaxPoolForward(Descriptor &descriptor, KernelBuilder &builder);
void buildMaxPoolBackward(Descriptor &descriptor, KernelBuilder &builder);
void buildAvgPoolForward(Descriptor &descriptor, KernelBuilder &builder);
void buildAvgPoolBackward(Descriptor &descriptor, KernelBuilder &builder);
void buildBatchNormForward(Descriptor &descriptor, KernelBuilder &builder);
void buildBatchNormBackward(Descriptor &descriptor, KernelBuilder &builder);
void buildAttentionForward(Descriptor &descriptor, KernelBuilder &builder);
void buildAttentionBackward(Descriptor &descriptor, KernelBuilder &builder);
void buildReorder(Descriptor &descriptor, KernelBuilder &builder);
void buildCheckFinite(Descriptor &descriptor, KernelBuilder &builder);
void buildLossScale(Descriptor &descriptor, KernelBuilder &builder);
/// The key `type` of what works on parameters and losses: f64, or f32, which it
/// is without the key.
bool isDouble(Descriptor &descriptor);
void buildAdd(Descriptor &descriptor, KernelBuilder &builder);
void buildScatterAdd(Descriptor &descriptor, KernelBuilder &builder);
void buildIntegerProduct(Descriptor &descriptor, KernelBuilder &builder);
void buildBlockProduct(Descriptor &descriptor, KernelBuilder &builder);

/// A tensor in the layout and type that a primitive wants, copied if it must
/// be: to `inside`, or to memory of its own.
dnnl::memory readAs(KernelBuilder &builder, const dnnl::memory &tensor,
                    const KernelBuilder::MemoryDesc &wanted,
                    dnnl::memory inside = {});
/// Memory that a primitive writes, of which writeBack makes the tensor:
/// `inside`, or memory of its own.
dnnl::memory writeAs(KernelBuilder &builder, const dnnl::memory &tensor,
                     const KernelBuilder::MemoryDesc &wanted,
                     const dnnl::memory &inside = {});
void writeBack(KernelBuilder &builder, const dnnl::memory &inside,
               const dnnl::memory &tensor);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_KERNELBUILDER_H
