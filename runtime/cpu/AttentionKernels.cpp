//===- AttentionKernels.cpp - `attention_forward` and `attention_backward` ===//
//
// One head after the other, a block of rows of the query at a time: the scores
// of a block are all that is in memory at once. Everything is f32 inside
// (AttentionProducts.h), but where the processor has products of bf16
// (AttentionTiles.h).
//
//===----------------------------------------------------------------------===//
#include "cpu/AttentionProducts.h"
#include "cpu/AttentionTiles.h"
#include "cpu/KernelBuilder.h"
#include "cpu/Processor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace pp::runtime;

// See LibraryKernel.cpp.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int);
}

namespace {

using Type = KernelBuilder::Type;
using Dims = Descriptor::Dims;

/// Products run on the calling thread alone, whichever it is.
class OneThread {
public:
  OneThread() : before(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before); }
  OneThread(const OneThread &) = delete;
  OneThread &operator=(const OneThread &) = delete;

private:
  int before;
};

/// The upper half of a float.
struct Bfloat {
  uint16_t bits;

  explicit operator float() const {
    uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
  }
  /// Rounds to nearest, ties to even.
  explicit Bfloat(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, sizeof(wide));
    bits =
        std::isnan(value)
            ? static_cast<uint16_t>((wide >> 16) | 0x40)
            : static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
};

/// A tensor of the caller: batch x head x row x column, with strides.
class HeadTensor {
public:
  HeadTensor(Descriptor &descriptor, const Dims &dims, const std::string &key,
             Type type)
      : dims(dims), type(type) {
    int64_t elements = KernelBuilder::elementCount(dims);
    strides = {elements / dims[0], dims[2] * dims[3], dims[3], 1};
    if (descriptor.has(key))
      strides = descriptor.getDims(key, 4, 0);
  }

  int64_t rows() const { return dims[2]; }
  int64_t columns() const { return dims[3]; }
  /// Of rows and columns.
  MatrixStrides matrixStrides() const { return {strides[2], strides[3]}; }

  KernelBuilder::Tensor describe() const {
    return KernelBuilder::tensorOf(KernelBuilder::strided(dims, strides, type));
  }

  /// The first number of one of the batch x heads matrices.
  int64_t offsetOf(int64_t head) const {
    return head / dims[1] * strides[0] + head % dims[1] * strides[1];
  }
  uint16_t *shorts(void *data, int64_t head) const {
    return static_cast<uint16_t *>(data) + offsetOf(head);
  }

  float *floats(void *data, int64_t head) const {
    return static_cast<float *>(data) + offsetOf(head);
  }
  void addTo(RowsAhead &ahead, void *data, int64_t head) const {
    ahead.add(floats(data, head), matrixStrides(), rows(), columns());
  }

  /// One of the batch x heads matrices, dense and of f32: where it lies, or
  /// copied.
  const float *read(void *data, int64_t head, float *to) const {
    if (isDense())
      return floats(data, head);
    visit(static_cast<const void *>(data), head,
          [to](const auto *from, int64_t index) {
            to[index] = static_cast<float>(*from);
          });
    return to;
  }

  /// Where such a matrix is to be written: at its place, or into `buffer`, from
  /// where write() copies it.
  float *placeOf(void *data, int64_t head, float *buffer) const {
    return isDense() ? floats(data, head) : buffer;
  }
  void write(void *data, int64_t head, const float *buffer) const {
    if (!isDense())
      visit(data, head, [buffer](auto *to, int64_t index) {
        *to = static_cast<std::remove_pointer_t<decltype(to)>>(buffer[index]);
      });
  }

private:
  bool isDense() const {
    return type == Type::f32 && strides[3] == 1 && strides[2] == dims[3];
  }

  template <typename Pointer, typename Visitor>
  void visit(Pointer *data, int64_t head, Visitor visitor) const {
    constexpr bool isRead = std::is_const_v<Pointer>;
    auto as = [&]<typename Element>(const Element *) {
      using Kept = std::conditional_t<isRead, const Element, Element>;
      visitAs(static_cast<Kept *>(data), head, visitor);
    };
    if (type == Type::bf16)
      as(static_cast<const Bfloat *>(nullptr));
    else if (type == Type::f16)
      as(static_cast<const _Float16 *>(nullptr));
    else
      as(static_cast<const float *>(nullptr));
  }

  template <typename Element, typename Visitor>
  void visitAs(Element *data, int64_t head, Visitor visitor) const {
    data += offsetOf(head);
    for (int64_t row = 0; row < dims[2]; ++row)
      for (int64_t column = 0; column < dims[3]; ++column)
        visitor(data + row * strides[2] + column * strides[3],
                row * dims[3] + column);
  }

  Dims dims, strides;
  Type type;
};

/// Where the mask of a head lies: `shape` has 1 for an axis that it is the same
/// along. There is none without a shape.
class HeadMask {
public:
  HeadMask(Descriptor &descriptor, const Dims &scores) {
    if (!descriptor.has("mask"))
      return;
    isZeroed =
        descriptor.has("zeroed") && descriptor.getInteger("zeroed", 0, 1) != 0;
    shape = descriptor.getDims("mask", 4, 1);
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] != scores[axis] && (shape[axis] != 1 || axis == 3))
        throw DescriptorError("mask: expected the batch, heads and rows of q, "
                              "or 1 instead, and a column for each row of k");
  }

  explicit operator bool() const { return !shape.empty(); }
  KernelBuilder::Tensor describe() const {
    return KernelBuilder::tensorOf(DataType::F32,
                                   KernelBuilder::elementCount(shape));
  }
  /// That of one of batch x `heads`.
  AttentionMask of(const void *data, int64_t head, int64_t heads) const {
    if (shape.empty())
      return {};
    const int64_t batch = shape[0] == 1 ? 0 : head / heads,
                  own = shape[1] == 1 ? 0 : head % heads;
    return {static_cast<const float *>(data) +
                (batch * shape[1] + own) * shape[2] * shape[3],
            shape[2] == 1 ? 0 : shape[3], isZeroed};
  }

private:
  Dims shape;
  bool isZeroed = false;
};

/// What a descriptor says.
struct Attention {
  HeadTensor query, key, value, output;
  HeadMask mask;
  int64_t headsOfBatch;
  int64_t heads;
  float scale;
  bool isCausal;
  Type type;

  int64_t rows() const { return query.rows(); }
  int64_t columns() const { return key.rows(); }
  /// The result and the logarithms of its sums.
  std::vector<KernelBuilder::Tensor> describeResults() const {
    return {output.describe(),
            KernelBuilder::tensorOf(DataType::F32, heads * rows())};
  }
  AttentionMask maskOf(const void *data, int64_t head) const {
    return mask.of(data, head, headsOfBatch);
  }
  AttentionLayouts layouts() const {
    return {query.matrixStrides(), key.matrixStrides(), value.matrixStrides(),
            output.matrixStrides()};
  }
  AttentionProducts products(const AttentionLayouts &layouts) const {
    return {
        {rows(), columns(), query.columns(), value.columns(), scale, isCausal},
        layouts};
  }
  AttentionProducts denseProducts() const {
    return products(AttentionLayouts::dense(query.columns(), value.columns()));
  }
  /// What both passes read of a head.
  void addInputsTo(RowsAhead &ahead, void *const *tensors, int64_t head) const {
    query.addTo(ahead, tensors[0], head);
    key.addTo(ahead, tensors[1], head);
    value.addTo(ahead, tensors[2], head);
  }
  /// Whether products of f32 read and write the tensors themselves.
  bool isInPlace() const {
    return type == Type::f32 && TiledProduct::isPossible();
  }
};

/// Places in a scratchpad.
class Scratchpad {
public:
  size_t add(uint64_t size) {
    size_t offset = bytes;
    bytes += (size + 63) / 64 * 64;
    return offset;
  }
  /// Of a matrix that is dense and f32.
  size_t add(const HeadTensor &tensor) {
    return add(tensor.rows() * tensor.columns() * sizeof(float));
  }
  uint64_t size() const { return bytes; }

private:
  size_t bytes = 0;
};

float *at(void *scratchpad, size_t offset) {
  return reinterpret_cast<float *>(static_cast<char *>(scratchpad) + offset);
}

} // namespace

static Attention readAttention(Descriptor &descriptor) {
  Dims q = descriptor.getDims("q", 4, 1), k = descriptor.getDims("k", 4, 1),
       v = descriptor.getDims("v", 4, 1);
  for (size_t axis : {0, 1})
    if (k[axis] != q[axis] || v[axis] != q[axis])
      throw DescriptorError("q, k and v: expected the same batch and heads");
  if (k[3] != q[3])
    throw DescriptorError("k: expected as many columns as q has");
  if (v[2] != k[2])
    throw DescriptorError("v: expected as many rows as k has");
  bool isCausal = descriptor.getInteger("causal", 0, 1) != 0;
  if (isCausal && q[2] != k[2])
    throw DescriptorError("causal=1: expected as many rows of k as q has");
  Type type = KernelBuilder::types(descriptor, 1)[0];
  // What a scratchpad has of them, with room for a block of scores.
  KernelBuilder::elementCount({k[2], std::max(k[3], v[3]), 64});
  return {HeadTensor(descriptor, q, "qs", type),
          HeadTensor(descriptor, k, "ks", type),
          HeadTensor(descriptor, v, "vs", type),
          HeadTensor(descriptor, {q[0], q[1], q[2], v[3]}, "os", type),
          HeadMask(descriptor, {q[0], q[1], q[2], k[2]}),
          q[1],
          q[0] * q[1],
          descriptor.getFloat("scale"),
          isCausal,
          type};
}

/// Those that the processor has for the type; null if it has none.
static const MatrixTiles *tilesFor(Type type) {
  return type == Type::bf16 ? shortTiles() : nullptr;
}

static AttentionTiles inTiles(const Attention &a,
                              const AttentionLayouts &layouts,
                              const MatrixTiles &tiles) {
  return {a.rows(), a.columns(), a.query.columns(), a.value.columns(),
          a.scale,  a.isCausal,  layouts,           tiles};
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

/// Of the blocks of all heads, those of a part: whole heads, if there are
/// enough of them.
static KernelBuilder::Range shareBlocks(const Attention &a, int64_t ofHead,
                                        KernelBuilder &builder) {
  const bool areEnough = a.heads >= builder.countParts();
  return builder.share(a.heads * ofHead, areEnough ? ofHead : 1);
}

void pp::runtime::buildAttentionForward(Descriptor &descriptor,
                                        KernelBuilder &builder) {
  Attention a = readAttention(descriptor);
  std::vector<KernelBuilder::Tensor> described = {
      a.query.describe(), a.key.describe(), a.value.describe()};
  if (a.mask)
    described.push_back(a.mask.describe());
  const size_t result = described.size();
  for (const KernelBuilder::Tensor &tensor : a.describeResults())
    described.push_back(tensor);
  if (const MatrixTiles *tiles = tilesFor(a.type)) {
    const KernelBuilder::Range heads = builder.share(a.heads);
    auto work = [a, heads, result, own = inTiles(a, a.layouts(), *tiles)](
                    void *const *tensors, void *scratchpad) {
      for (int64_t head = heads.begin; head < heads.begin + heads.count; ++head)
        own.forward(
            a.query.shorts(tensors[0], head), a.key.shorts(tensors[1], head),
            a.value.shorts(tensors[2], head), a.maskOf(tensors[3], head),
            a.output.shorts(tensors[result], head),
            static_cast<float *>(tensors[result + 1]) + head * a.rows(),
            scratchpad);
    };
    builder.setFunction(described, work,
                        inTiles(a, a.layouts(), *tiles).measureForward());
    return;
  }
  if (a.isInPlace()) {
    const AttentionProducts own = a.products(a.layouts());
    const int64_t ofHead = own.countBlocks();
    auto work = [a, own, ofHead, result,
                 blocks = shareBlocks(a, ofHead, builder)](void *const *tensors,
                                                           void *scratchpad) {
      const int64_t end = blocks.begin + blocks.count;
      for (int64_t block = blocks.begin; block < end;) {
        const int64_t head = block / ofHead, first = block % ofHead;
        const KernelBuilder::Range some{first,
                                        std::min(ofHead - first, end - block)};
        block += some.count;
        RowsAhead ahead;
        if (block < end)
          a.addInputsTo(ahead, tensors, head + 1);
        own.forward(some, a.query.floats(tensors[0], head),
                    a.key.floats(tensors[1], head),
                    a.value.floats(tensors[2], head),
                    a.maskOf(tensors[3], head), ahead,
                    a.output.floats(tensors[result], head),
                    static_cast<float *>(tensors[result + 1]) + head * a.rows(),
                    scratchpad);
      }
    };
    builder.setFunction(described, work, own.measureForward());
    return;
  }
  const KernelBuilder::Range heads = builder.share(a.heads);
  const AttentionProducts own = a.denseProducts();
  Scratchpad places;
  size_t queries = places.add(a.query), keys = places.add(a.key),
         values = places.add(a.value), outputs = places.add(a.output),
         rest = places.add(own.measureForward());
  auto work = [=](void *const *tensors, void *scratchpad) {
    OneThread oneThread;
    for (int64_t head = heads.begin; head < heads.begin + heads.count; ++head) {
      float *output =
          a.output.placeOf(tensors[result], head, at(scratchpad, outputs));
      own.forward({0, own.countBlocks()},
                  a.query.read(tensors[0], head, at(scratchpad, queries)),
                  a.key.read(tensors[1], head, at(scratchpad, keys)),
                  a.value.read(tensors[2], head, at(scratchpad, values)),
                  a.maskOf(tensors[3], head), {}, output,
                  static_cast<float *>(tensors[result + 1]) + head * a.rows(),
                  at(scratchpad, rest));
      a.output.write(tensors[result], head, output);
    }
  };
  builder.setFunction(described, work, places.size());
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

void pp::runtime::buildAttentionBackward(Descriptor &descriptor,
                                         KernelBuilder &builder) {
  Attention a = readAttention(descriptor);
  Dims q = descriptor.getDims("q"), k = descriptor.getDims("k"),
       v = descriptor.getDims("v");
  Type type = KernelBuilder::types(descriptor, 1)[0];
  HeadTensor diffOutput(descriptor, {q[0], q[1], q[2], v[3]}, "dos", type),
      diffQuery(descriptor, q, "dqs", type),
      diffKey(descriptor, k, "dks", type),
      diffValue(descriptor, v, "dvs", type);
  std::vector<KernelBuilder::Tensor> described = {
      a.query.describe(), a.key.describe(), a.value.describe()};
  for (const KernelBuilder::Tensor &tensor : a.describeResults())
    described.push_back(tensor);
  described.push_back(diffOutput.describe());
  if (a.mask)
    described.push_back(a.mask.describe());
  const size_t result = described.size();
  for (const HeadTensor &tensor : {diffQuery, diffKey, diffValue})
    described.push_back(tensor.describe());
  KernelBuilder::Range heads = builder.share(a.heads);
  AttentionLayouts layouts = a.layouts();
  layouts.diffOutput = diffOutput.matrixStrides();
  layouts.diffQuery = diffQuery.matrixStrides();
  layouts.diffKey = diffKey.matrixStrides();
  layouts.diffValue = diffValue.matrixStrides();
  if (const MatrixTiles *tiles = tilesFor(type)) {
    const AttentionTiles own = inTiles(a, layouts, *tiles);
    auto work = [=](void *const *tensors, void *scratchpad) {
      for (int64_t head = heads.begin; head < heads.begin + heads.count; ++head)
        own.backward(
            a.query.shorts(tensors[0], head), a.key.shorts(tensors[1], head),
            a.value.shorts(tensors[2], head), a.output.shorts(tensors[3], head),
            static_cast<const float *>(tensors[4]) + head * a.rows(),
            diffOutput.shorts(tensors[5], head), a.maskOf(tensors[6], head),
            {diffQuery.shorts(tensors[result], head),
             diffKey.shorts(tensors[result + 1], head),
             diffValue.shorts(tensors[result + 2], head)},
            scratchpad);
    };
    builder.setFunction(described, work, own.measureBackward());
    return;
  }
  if (a.isInPlace()) {
    const AttentionProducts own = a.products(layouts);
    auto work = [=](void *const *tensors, void *scratchpad) {
      const int64_t end = heads.begin + heads.count;
      for (int64_t head = heads.begin; head < end; ++head) {
        RowsAhead ahead;
        if (head + 1 < end) {
          a.addInputsTo(ahead, tensors, head + 1);
          a.output.addTo(ahead, tensors[3], head + 1);
          diffOutput.addTo(ahead, tensors[5], head + 1);
        }
        own.backward(
            a.query.floats(tensors[0], head), a.key.floats(tensors[1], head),
            a.value.floats(tensors[2], head), a.output.floats(tensors[3], head),
            static_cast<const float *>(tensors[4]) + head * a.rows(),
            diffOutput.floats(tensors[5], head), a.maskOf(tensors[6], head),
            ahead,
            {diffQuery.floats(tensors[result], head),
             diffKey.floats(tensors[result + 1], head),
             diffValue.floats(tensors[result + 2], head)},
            scratchpad);
      }
    };
    builder.setFunction(described, work, own.measureBackward());
    return;
  }
  const AttentionProducts own = a.denseProducts();
  Scratchpad places;
  size_t queries = places.add(a.query), keys = places.add(a.key),
         values = places.add(a.value), outputs = places.add(a.output),
         diffOutputs = places.add(diffOutput),
         diffQueries = places.add(diffQuery), diffKeys = places.add(diffKey),
         diffValues = places.add(diffValue),
         rest = places.add(own.measureBackward());
  auto work = [=](void *const *tensors, void *scratchpad) {
    OneThread oneThread;
    for (int64_t head = heads.begin; head < heads.begin + heads.count; ++head) {
      const AttentionProducts::Gradients gradients = {
          diffQuery.placeOf(tensors[result], head, at(scratchpad, diffQueries)),
          diffKey.placeOf(tensors[result + 1], head, at(scratchpad, diffKeys)),
          diffValue.placeOf(tensors[result + 2], head,
                            at(scratchpad, diffValues))};
      own.backward(
          a.query.read(tensors[0], head, at(scratchpad, queries)),
          a.key.read(tensors[1], head, at(scratchpad, keys)),
          a.value.read(tensors[2], head, at(scratchpad, values)),
          a.output.read(tensors[3], head, at(scratchpad, outputs)),
          static_cast<const float *>(tensors[4]) + head * a.rows(),
          diffOutput.read(tensors[5], head, at(scratchpad, diffOutputs)),
          a.maskOf(tensors[6], head), {}, gradients, at(scratchpad, rest));
      diffQuery.write(tensors[result], head, gradients.query);
      diffKey.write(tensors[result + 1], head, gradients.key);
      diffValue.write(tensors[result + 2], head, gradients.value);
    }
  };
  builder.setFunction(described, work, places.size());
}
