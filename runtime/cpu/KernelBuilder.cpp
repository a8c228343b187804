//===- KernelBuilder.cpp --------------------------------------------------===//
#include "cpu/KernelBuilder.h"
#include "cpu/LibraryKernel.h"

#include <algorithm>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace pp::runtime;

// Vector instructions for maxima and minima give their second operand where one
// is not a number, so that nothing of it is left. But they, and all that makes
// one, set a flag that stays until it is cleared.
#if defined(__x86_64__)
static constexpr bool canSeeInvalidNumbers = true;
static void forgetInvalidNumbers() {
  _mm_setcsr(_mm_getcsr() & ~_MM_EXCEPT_INVALID);
}
static bool hasMetInvalidNumbers() {
  return (_mm_getcsr() & _MM_EXCEPT_INVALID) != 0;
}
#else
static constexpr bool canSeeInvalidNumbers = false;
static void forgetInvalidNumbers() {}
static bool hasMetInvalidNumbers() { return true; }
#endif

KernelBuilder::KernelBuilder(Part part)
    : part(part), engine(dnnl::engine::kind::cpu, 0), stream(engine) {
  // Debian's oneDNN keeps the library's own scratchpad per thread and crashes
  // when a primitive runs in another thread than the one that made it.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
}

KernelBuilder::Dims KernelBuilder::stridesOf(const MemoryDesc &desc) {
  const auto &strides = desc.data.format_desc.blocking.strides;
  return KernelBuilder::Dims(strides, strides + desc.data.ndims);
}

KernelBuilder::Range KernelBuilder::share(int64_t extent, int64_t grain) {
  isShared = true;
  int64_t grains = (extent + grain - 1) / grain;
  auto bound = [&](int64_t index) {
    return std::min(extent, grains * index / part.count * grain);
  };
  if (grains < part.count)
    throw DescriptorError("parts: there is not enough to share");
  int64_t begin = bound(part.index);
  return {begin, bound(part.index + 1) - begin};
}

KernelBuilder::Slice KernelBuilder::slice(const MemoryDesc &strided,
                                          int64_t axis, Range range) {
  Dims dims = strided.dims(), strides = stridesOf(strided);
  // One that is broadcast is whole in every part.
  if (dims[axis] == 1)
    return {strided, 0};
  dims[axis] = range.count;
  uint64_t size = dnnl::memory::data_type_size(strided.data_type());
  return {MemoryDesc(dims, strided.data_type(), strides),
          range.begin * strides[axis] * size};
}

uint64_t KernelBuilder::offsetOfSamples(const MemoryDesc &whole, Range range) {
  return whole.get_size() / whole.dims()[0] * range.begin;
}

int64_t KernelBuilder::elementCount(const Dims &dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    if (__builtin_mul_overflow(count, dim, &count) ||
        count > (int64_t(1) << 40))
      throw DescriptorError("a tensor has more than 2^40 elements");
  return count;
}

KernelBuilder::MemoryDesc KernelBuilder::dense(const Dims &dims, Type type) {
  elementCount(dims);
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dims[i];
  return MemoryDesc(dims, type, strides);
}

KernelBuilder::MemoryDesc
KernelBuilder::strided(const Dims &dims, const Dims &strides, Type type) {
  elementCount(dims);
  return MemoryDesc(dims, type, strides);
}

ImageAxes KernelBuilder::imageAxes(const Dims &sizes, size_t from,
                                   int64_t rest) {
  ImageAxes axes;
  axes.fill(rest);
  std::copy(sizes.begin() + from, sizes.end(),
            axes.end() - (sizes.size() - from));
  return axes;
}

ImagePlaces KernelBuilder::imagePlaces(const MemoryDesc &desc) {
  Dims strides = stridesOf(desc);
  const auto &blocking = desc.data.format_desc.blocking;
  return {strides[0], strides[1], imageAxes(strides, 2, 0),
          blocking.inner_nblks == 0 ? 1 : blocking.inner_blks[0]};
}

WindowSizes
KernelBuilder::windowSizes(const MemoryDesc &src, const MemoryDesc &dst,
                           const ImageAxes &window, const Dims &strides,
                           const Dims &dilations, const Dims &padding) {
  WindowSizes sizes{src.dims()[0],
                    src.dims()[1],
                    imageAxes(src.dims(), 2, 1),
                    window,
                    imageAxes(dst.dims(), 2, 1),
                    imageAxes(strides, 0, 1),
                    imageAxes(dilations, 0, 0),
                    imageAxes(padding, 0, 0),
                    imagePlaces(src),
                    imagePlaces(dst)};
  for (int64_t &dilation : sizes.dilations)
    ++dilation;
  return sizes;
}

std::string KernelBuilder::layout(Descriptor &descriptor) {
  return descriptor.has("layout") ? descriptor.getText("layout") : "plain";
}

KernelBuilder::MemoryDesc KernelBuilder::inLayout(const Dims &dims,
                                                  const std::string &layout,
                                                  Type type) {
  using Tag = dnnl::memory::format_tag;
  struct Named {
    const char *name;
    int64_t block;
    Tag tags[3]; // by spatial dimensions
  };
  static constexpr Named layouts[] = {
      {"channels_last", 1, {Tag::nwc, Tag::nhwc, Tag::ndhwc}},
      {"blocked8", 8, {Tag::nCw8c, Tag::nChw8c, Tag::nCdhw8c}},
      {"blocked16", 16, {Tag::nCw16c, Tag::nChw16c, Tag::nCdhw16c}}};
  if (layout == "plain")
    return dense(dims, type);
  for (const Named &named : layouts) {
    if (layout != named.name)
      continue;
    if (dims.size() < 3 || dims.size() > 5)
      throw DescriptorError("layout: expected one to three spatial dimensions");
    if (type == Type::f16)
      throw DescriptorError("layout: not of f16");
    elementCount(dims);
    if (dims[1] % named.block != 0)
      return dense(dims, type);
    return MemoryDesc(dims, type, named.tags[dims.size() - 3]);
  }
  throw DescriptorError("layout: unknown word '" + layout +
                        "', expected plain, channels_last, blocked8 or "
                        "blocked16");
}

std::vector<KernelBuilder::Type> KernelBuilder::types(Descriptor &descriptor,
                                                      size_t count) {
  std::vector<Type> types(count, Type::f32);
  if (!descriptor.has("types"))
    return types;
  auto words = descriptor.getWords("types", count, {"f32", "bf16", "f16"});
  for (size_t i = 0; i < count; ++i)
    types[i] = words[i] == "bf16"  ? Type::bf16
               : words[i] == "f16" ? Type::f16
                                   : Type::f32;
  return types;
}

DataType KernelBuilder::dataType(Type type) {
  return type == Type::bf16  ? DataType::BF16
         : type == Type::f16 ? DataType::F16
                             : DataType::F32;
}

KernelBuilder::MemoryDesc KernelBuilder::widened(const MemoryDesc &desc) {
  if (desc.data_type() != Type::f16)
    return desc;
  return MemoryDesc(desc.dims(), Type::f32, stridesOf(desc));
}

/// Makes axes one that lie behind each other.
static void joinAxes(KernelBuilder::Dims &dims, KernelBuilder::Dims &strides) {
  for (size_t axis = dims.size() - 1; axis-- > 0;)
    if (strides[axis] == dims[axis + 1] * strides[axis + 1]) {
      dims[axis] *= dims[axis + 1];
      strides[axis] = strides[axis + 1];
      dims.erase(dims.begin() + static_cast<ptrdiff_t>(axis) + 1);
      strides.erase(strides.begin() + static_cast<ptrdiff_t>(axis) + 1);
    }
}

/// Calls `visit` with the place of each element, from axis `axis` on.
template <typename Visit>
static void visitAxis(const KernelBuilder::Dims &dims,
                      const KernelBuilder::Dims &strides, size_t axis,
                      int64_t place, const Visit &visit) {
  for (int64_t i = 0; i < dims[axis]; ++i, place += strides[axis])
    if (axis + 1 == dims.size())
      visit(place);
    else
      visitAxis(dims, strides, axis + 1, place, visit);
}

dnnl::memory KernelBuilder::addTensor(const MemoryDesc &desc, uint64_t offset) {
  return add(desc, /*isResult=*/false, offset);
}

dnnl::memory KernelBuilder::addResult(const MemoryDesc &desc, uint64_t offset) {
  return add(desc, /*isResult=*/true, offset);
}

dnnl::memory KernelBuilder::add(const MemoryDesc &desc, bool isResult,
                                uint64_t offset) {
  tensors.push_back(dnnl::memory(desc, engine, DNNL_MEMORY_NONE));
  offsets.push_back(offset);
  if (desc.data_type() != Type::f16)
    return tensors.back();
  dnnl::memory wide = addTemporary(widened(desc));
  Dims dims = desc.dims(), strides = stridesOf(desc);
  joinAxes(dims, strides);
  conversions.push_back({tensors.size() - 1, wide, dims, strides, isResult});
  return wide;
}

KernelBuilder::Tensor KernelBuilder::tensorOf(const MemoryDesc &desc,
                                              uint64_t bytes) {
  return {bytes == 0 ? desc.get_size() : bytes, dataType(desc.data_type())};
}

KernelBuilder::Tensor KernelBuilder::tensorOf(DataType type, int64_t count,
                                              int64_t limit) {
  return {count * sizeOf(type), type, limit};
}

void KernelBuilder::setFunction(std::vector<Tensor> tensors, Function work,
                                uint64_t bytes) {
  setPartFunction(
      std::move(tensors),
      [work = std::move(work)](void *const *own, void *scratchpad, bool) {
        work(own, scratchpad);
      },
      bytes);
}

void KernelBuilder::setPartFunction(std::vector<Tensor> tensors,
                                    PartFunction work, uint64_t bytes) {
  scratchpadBytes = std::max(scratchpadBytes, alignUp(bytes));
  functionTensors = std::move(tensors);
  function = std::move(work);
}

void KernelBuilder::setSumFunction(unsigned most, SumFunction work,
                                   uint64_t bytes) {
  sumFunction = std::move(work);
  mostTogether = most;
  scratchpadBytes = std::max(scratchpadBytes, alignUp(bytes));
}

dnnl::memory KernelBuilder::addView(const dnnl::memory &memory,
                                    const MemoryDesc &desc, uint64_t offset) {
  views.push_back(
      {dnnl::memory(desc, engine, DNNL_MEMORY_NONE), memory, offset});
  return views.back().memory;
}

dnnl::memory KernelBuilder::addTemporary(const MemoryDesc &desc) {
  dnnl::memory memory(desc, engine, DNNL_MEMORY_NONE);
  temporaries.push_back({memory, scratchpadBytes});
  scratchpadBytes += alignUp(desc.get_size());
  return memory;
}

void KernelBuilder::addPrimitive(const dnnl::primitive &primitive,
                                 const MemoryDesc &scratchpad,
                                 const std::vector<Argument> &arguments) {
  Step step{primitive, {}, {}, {}};
  auto add = [&](int index, const dnnl::memory &memory) {
    step.arguments.push_back({index, memory.get()});
    step.owners.push_back(memory);
  };
  for (const auto &[index, memory] : arguments)
    add(index, memory);
  if (size_t bytes = scratchpad.get_size()) {
    dnnl::memory memory(scratchpad, engine, DNNL_MEMORY_NONE);
    add(DNNL_ARG_SCRATCHPAD, memory);
    scratchpads.push_back(memory);
    sharedBytes = std::max<uint64_t>(sharedBytes, alignUp(bytes));
  }
  steps.push_back(std::move(step));
}

void KernelBuilder::addWork(Work work) {
  steps.push_back({{}, {}, {}, std::move(work)});
}

static void addRow(const float *from, int64_t count, float *to,
                   int64_t stride) {
  if (stride == 1) // vectorised
    for (int64_t i = 0; i < count; ++i)
      to[i] += from[i];
  else
    for (int64_t i = 0; i < count; ++i)
      to[i * stride] += from[i];
}

/// All indices of the axes from `axis` on; returns the end of `from`.
static const float *addAxis(const float *from, const KernelBuilder::Dims &dims,
                            const KernelBuilder::Dims &strides, size_t axis,
                            float *to) {
  if (axis + 1 == dims.size()) {
    addRow(from, dims[axis], to, strides[axis]);
    return from + dims[axis];
  }
  for (int64_t i = 0; i < dims[axis]; ++i, to += strides[axis])
    from = addAxis(from, dims, strides, axis + 1, to);
  return from;
}

void KernelBuilder::addSum(const dnnl::memory &from, const dnnl::memory &to) {
  Dims dims = to.get_desc().dims(), strides = stridesOf(to.get_desc());
  joinAxes(dims, strides);
  addWork([from, to, dims, strides] {
    addAxis(static_cast<const float *>(from.get_data_handle()), dims, strides,
            0, static_cast<float *>(to.get_data_handle()));
  });
}

bool pp::runtime::readAccumulation(Descriptor &descriptor,
                                   KernelBuilder::Type type) {
  bool isAdded = descriptor.has("accumulate") &&
                 descriptor.getInteger("accumulate", 0, 1) == 1;
  if (isAdded && type != KernelBuilder::Type::f32)
    throw DescriptorError("accumulate: the result must be f32");
  return isAdded;
}

int64_t pp::runtime::readTogether(Descriptor &descriptor, bool isAdded) {
  if (!descriptor.has("together"))
    return 1;
  int64_t most = descriptor.getInteger("together", 2, PP_MOST_TOGETHER);
  if (!isAdded)
    throw DescriptorError("together: needs accumulate=1");
  return most;
}

bool KernelBuilder::canGuard() {
  // Another thread has flags of its own.
  return canSeeInvalidNumbers && getKernelThreads() == 1;
}

void KernelBuilder::guardNext(unsigned count) { steps.back().guarded = count; }

int64_t KernelBuilder::placeOf(const MemoryDesc &desc, const Dims &index) {
  const auto &blocking = desc.data.format_desc.blocking;
  int64_t place = 0;
  for (int axis = 0; axis < desc.data.ndims; ++axis) {
    // The layouts of inLayout() have one block at most.
    bool isBlocked =
        blocking.inner_nblks == 1 && blocking.inner_idxs[0] == axis;
    int64_t block = isBlocked ? blocking.inner_blks[0] : 1;
    place += index[axis] / block * blocking.strides[axis] + index[axis] % block;
  }
  return place;
}

void KernelBuilder::run(const Step &step) {
  if (step.work)
    return step.work();
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(step.primitive.get(), stream.get(),
                             step.arguments.size(), step.arguments.data()),
      "the library refused to run the kernel");
}

std::vector<KernelBuilder::Tensor> KernelBuilder::getTensors() const {
  if (function)
    return functionTensors;
  std::vector<Tensor> described;
  for (const dnnl::memory &tensor : tensors)
    described.push_back(tensorOf(tensor.get_desc()));
  return described;
}

void KernelBuilder::finish() {
  if (!isWhole() && !isShared)
    throw DescriptorError("parts: such a kernel has none");
  for (const dnnl::memory &memory : scratchpads)
    temporaries.push_back({memory, scratchpadBytes});
  scratchpadBytes += sharedBytes;
}

void KernelBuilder::execute(void *const *pointers, void *scratchpad,
                            bool isContinued) {
  if (function)
    return function(pointers, scratchpad, isContinued);
  auto placeOf = [&](size_t i) {
    return static_cast<char *>(pointers[i]) + offsets[i];
  };
  for (size_t i = 0; i < tensors.size(); ++i)
    tensors[i].set_data_handle(placeOf(i));
  for (Temporary &temporary : temporaries)
    temporary.memory.set_data_handle(static_cast<char *>(scratchpad) +
                                     temporary.offset);
  for (View &view : views)
    view.memory.set_data_handle(
        static_cast<char *>(view.whole.get_data_handle()) + view.offset);
  auto convert = [&](const Conversion &c, const auto &element) {
    auto *half = reinterpret_cast<_Float16 *>(placeOf(c.tensor));
    auto *wide = static_cast<float *>(c.wide.get_data_handle());
    visitAxis(c.dims, c.strides, 0, 0,
              [&](int64_t place) { element(half[place], wide[place]); });
  };
  for (const Conversion &c : conversions)
    if (!c.isResult)
      convert(c, [](_Float16 half, float &wide) { wide = half; });
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].guarded != 0)
      forgetInvalidNumbers();
    run(steps[i]);
    if (steps[i].guarded != 0 && !hasMetInvalidNumbers())
      i += steps[i].guarded;
  }
  for (const Conversion &c : conversions)
    if (c.isResult)
      convert(c, [](_Float16 &half, float wide) {
        half = static_cast<_Float16>(wide);
      });
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

dnnl::memory pp::runtime::readAs(KernelBuilder &builder,
                                 const dnnl::memory &tensor,
                                 const KernelBuilder::MemoryDesc &wanted,
                                 dnnl::memory inside) {
  if (tensor.get_desc() == wanted)
    return tensor;
  if (!inside)
    inside = builder.addTemporary(wanted);
  dnnl::reorder::primitive_desc desc(builder.getEngine(), tensor.get_desc(),
                                     builder.getEngine(), wanted,
                                     builder.getAttributes());
  builder.addPrimitive(dnnl::reorder(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_FROM, tensor}, {DNNL_ARG_TO, inside}});
  return inside;
}

dnnl::memory pp::runtime::writeAs(KernelBuilder &builder,
                                  const dnnl::memory &tensor,
                                  const KernelBuilder::MemoryDesc &wanted,
                                  const dnnl::memory &inside) {
  if (tensor.get_desc() == wanted)
    return tensor;
  return inside ? inside : builder.addTemporary(wanted);
}
void pp::runtime::writeBack(KernelBuilder &builder, const dnnl::memory &inside,
                            const dnnl::memory &tensor) {
  if (tensor.get_desc() == inside.get_desc())
    return;
  dnnl::reorder::primitive_desc desc(builder.getEngine(), inside.get_desc(),
                                     builder.getEngine(), tensor.get_desc(),
                                     builder.getAttributes());
  builder.addPrimitive(dnnl::reorder(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_FROM, inside}, {DNNL_ARG_TO, tensor}});
}
