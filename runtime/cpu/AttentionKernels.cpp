//===- AttentionKernels.cpp - `attention_forward` and `attention_backward` ===//
//
// One head after the other, a block of rows of the query at a time: the scores
// of a block are all that is in memory at once. Everything is f32 inside,
// but where the processor has products of bf16 (AttentionTiles.h).
//
//===----------------------------------------------------------------------===//
#include "cpu/AttentionTiles.h"
#include "cpu/KernelBuilder.h"
#include "cpu/Processor.h"

#include <algorithm>
#include <array>
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

/// Rows of the query in a block.
constexpr int64_t blockRows = 64;

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

  /// Copies rows of one of the batch x heads matrices to a dense one of f32.
  void read(const void *data, int64_t head, int64_t first, int64_t count,
            float *to) const {
    visit(data, head, first, count, [to](const auto *from, int64_t index) {
      to[index] = static_cast<float>(*from);
    });
  }

  /// Copies such rows back.
  void write(void *data, int64_t head, int64_t first, int64_t count,
             const float *from) const {
    visit(data, head, first, count, [from](auto *to, int64_t index) {
      *to = static_cast<std::remove_pointer_t<decltype(to)>>(from[index]);
    });
  }

private:
  template <typename Pointer, typename Visitor>
  void visit(Pointer *data, int64_t head, int64_t first, int64_t count,
             Visitor visitor) const {
    constexpr bool isRead = std::is_const_v<Pointer>;
    auto as = [&]<typename Element>(const Element *) {
      using Kept = std::conditional_t<isRead, const Element, Element>;
      visitAs(static_cast<Kept *>(data), head, first, count, visitor);
    };
    if (type == Type::bf16)
      as(static_cast<const Bfloat *>(nullptr));
    else if (type == Type::f16)
      as(static_cast<const _Float16 *>(nullptr));
    else
      as(static_cast<const float *>(nullptr));
  }

  template <typename Element, typename Visitor>
  void visitAs(Element *data, int64_t head, int64_t first, int64_t count,
               Visitor visitor) const {
    data += offsetOf(head) + first * strides[2];
    for (int64_t row = 0; row < count; ++row)
      for (int64_t column = 0; column < dims[3]; ++column)
        visitor(data + row * strides[2] + column * strides[3],
                row * dims[3] + column);
  }

  Dims dims, strides;
  Type type;
};

/// What a descriptor says.
struct Attention {
  HeadTensor query, key, value, output;
  int64_t heads;
  float scale;
  bool isCausal;
  Type type;

  int64_t rows() const { return query.rows(); }
  int64_t columns() const { return key.rows(); }
  int64_t rowsOfBlock() const { return std::min(blockRows, rows()); }
  /// q, k, v, the result and the logarithms of its sums.
  std::vector<KernelBuilder::Tensor> describe() const {
    return {query.describe(), key.describe(), value.describe(),
            output.describe(),
            KernelBuilder::tensorOf(DataType::F32, heads * rows())};
  }
  /// The rows of the key that the last of the first `rows` sees.
  int64_t visible(int64_t rows) const { return isCausal ? rows : columns(); }
};

/// Places of dense f32 matrices in a scratchpad.
class Scratchpad {
public:
  size_t add(int64_t elements) {
    size_t offset = bytes;
    bytes += (elements * sizeof(float) + 63) / 64 * 64;
    return offset;
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
  KernelBuilder::elementCount({k[2], std::max(k[3], v[3]), blockRows});
  return {HeadTensor(descriptor, q, "qs", type),
          HeadTensor(descriptor, k, "ks", type),
          HeadTensor(descriptor, v, "vs", type),
          HeadTensor(descriptor, {q[0], q[1], q[2], v[3]}, "os", type),
          q[0] * q[1],
          descriptor.getFloat("scale"),
          isCausal,
          type};
}

/// c = alpha * a x b + beta * c for row-major matrices: a is m x k, b is k x n,
/// or their transposes where a flag is set. `ldc` is the distance of rows of c;
/// `lda` and `ldb` those of what is stored.
static void multiply(bool transposeA, bool transposeB, int64_t m, int64_t n,
                     int64_t k, float alpha, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float beta, float *c,
                     int64_t ldc) {
  dnnl::error::wrap_c_api(dnnl_sgemm(transposeA ? 'T' : 'N',
                                     transposeB ? 'T' : 'N', m, n, k, alpha, a,
                                     lda, b, ldb, beta, c, ldc),
                          "the library refused a matrix product");
}

/// Those that the processor has for the type; null if it has none.
static const MatrixTiles *tilesFor(Type type) {
  return type == Type::bf16 ? shortTiles() : nullptr;
}

static AttentionTiles inTiles(const Attention &a,
                              AttentionTiles::Layouts layouts,
                              const MatrixTiles &tiles) {
  layouts.query = a.query.matrixStrides();
  layouts.key = a.key.matrixStrides();
  layouts.value = a.value.matrixStrides();
  layouts.output = a.output.matrixStrides();
  return {a.rows(), a.columns(), a.query.columns(), a.value.columns(),
          a.scale,  a.isCausal,  layouts,           tiles};
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

/// Turns `count` scores into weights that add up to the result, and says what
/// their logarithm was divided by.
static float exponentiate(float *scores, int64_t count, float &logsumexp) {
  float largest = *std::max_element(scores, scores + count);
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    scores[i] = std::exp(scores[i] - largest);
    sum += scores[i];
  }
  logsumexp = largest + std::log(sum);
  return sum;
}

void pp::runtime::buildAttentionForward(Descriptor &descriptor,
                                        KernelBuilder &builder) {
  Attention a = readAttention(descriptor);
  int64_t d = a.query.columns(), e = a.value.columns(), n = a.columns();
  KernelBuilder::Range heads = builder.share(a.heads);
  if (const MatrixTiles *tiles = tilesFor(a.type)) {
    auto work = [a, heads, own = inTiles(a, {}, *tiles)](void *const *tensors,
                                                         void *scratchpad) {
      for (int64_t head = heads.begin; head < heads.begin + heads.count; ++head)
        own.forward(
            a.query.shorts(tensors[0], head), a.key.shorts(tensors[1], head),
            a.value.shorts(tensors[2], head), a.output.shorts(tensors[3], head),
            static_cast<float *>(tensors[4]) + head * a.rows(), scratchpad);
    };
    builder.setFunction(a.describe(), work,
                        inTiles(a, {}, *tiles).measureForward());
    return;
  }
  Scratchpad places;
  size_t keys = places.add(n * d), values = places.add(n * e),
         queries = places.add(a.rowsOfBlock() * d),
         scores = places.add(a.rowsOfBlock() * n),
         outputs = places.add(a.rowsOfBlock() * e);
  auto work = [=](void *const *tensors, void *scratchpad) {
    OneThread oneThread;
    float *k = at(scratchpad, keys), *v = at(scratchpad, values),
          *q = at(scratchpad, queries), *s = at(scratchpad, scores),
          *o = at(scratchpad, outputs);
    for (int64_t head = heads.begin; head < heads.begin + heads.count; ++head) {
      auto *logsumexp = static_cast<float *>(tensors[4]) + head * a.rows();
      a.key.read(tensors[1], head, 0, n, k);
      a.value.read(tensors[2], head, 0, n, v);
      for (int64_t first = 0; first < a.rows(); first += blockRows) {
        int64_t count = std::min(blockRows, a.rows() - first);
        int64_t seen = a.visible(first + count);
        a.query.read(tensors[0], head, first, count, q);
        multiply(false, true, count, seen, d, a.scale, q, d, k, d, 0, s, n);
        std::array<float, blockRows> sums{};
        for (int64_t row = 0; row < count; ++row) {
          int64_t visible = a.visible(first + row + 1);
          sums[row] =
              exponentiate(s + row * n, visible, logsumexp[first + row]);
          std::fill(s + row * n + visible, s + row * n + seen, 0.0f);
        }
        multiply(false, false, count, e, seen, 1, s, n, v, e, 0, o, e);
        for (int64_t row = 0; row < count; ++row)
          for (int64_t column = 0; column < e; ++column)
            o[row * e + column] /= sums[row];
        a.output.write(tensors[3], head, first, count, o);
      }
    }
  };
  builder.setFunction(a.describe(), work, places.size());
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

void pp::runtime::buildAttentionBackward(Descriptor &descriptor,
                                         KernelBuilder &builder) {
  Attention a = readAttention(descriptor);
  int64_t d = a.query.columns(), e = a.value.columns(), n = a.columns();
  Dims q = descriptor.getDims("q"), k = descriptor.getDims("k"),
       v = descriptor.getDims("v");
  Type type = KernelBuilder::types(descriptor, 1)[0];
  HeadTensor diffOutput(descriptor, {q[0], q[1], q[2], e}, "dos", type),
      diffQuery(descriptor, q, "dqs", type),
      diffKey(descriptor, k, "dks", type),
      diffValue(descriptor, v, "dvs", type);
  std::vector<KernelBuilder::Tensor> described = a.describe();
  for (const HeadTensor &tensor : {diffOutput, diffQuery, diffKey, diffValue})
    described.push_back(tensor.describe());
  KernelBuilder::Range heads = builder.share(a.heads);
  if (const MatrixTiles *tiles = tilesFor(type)) {
    AttentionTiles::Layouts layouts{};
    layouts.diffOutput = diffOutput.matrixStrides();
    layouts.diffQuery = diffQuery.matrixStrides();
    layouts.diffKey = diffKey.matrixStrides();
    layouts.diffValue = diffValue.matrixStrides();
    const AttentionTiles own = inTiles(a, layouts, *tiles);
    auto work = [=](void *const *tensors, void *scratchpad) {
      for (int64_t head = heads.begin; head < heads.begin + heads.count; ++head)
        own.backward(
            a.query.shorts(tensors[0], head), a.key.shorts(tensors[1], head),
            a.value.shorts(tensors[2], head), a.output.shorts(tensors[3], head),
            static_cast<const float *>(tensors[4]) + head * a.rows(),
            diffOutput.shorts(tensors[5], head),
            {diffQuery.shorts(tensors[6], head),
             diffKey.shorts(tensors[7], head),
             diffValue.shorts(tensors[8], head)},
            scratchpad);
    };
    builder.setFunction(described, work, own.measureBackward());
    return;
  }
  Scratchpad places;
  size_t keys = places.add(n * d), values = places.add(n * e),
         diffKeys = places.add(n * d), diffValues = places.add(n * e),
         queries = places.add(a.rowsOfBlock() * d),
         outputs = places.add(a.rowsOfBlock() * e),
         diffOutputs = places.add(a.rowsOfBlock() * e),
         weights = places.add(a.rowsOfBlock() * n),
         diffWeights = places.add(a.rowsOfBlock() * n);
  auto work = [=](void *const *tensors, void *scratchpad) {
    OneThread oneThread;
    float *k = at(scratchpad, keys), *v = at(scratchpad, values),
          *dk = at(scratchpad, diffKeys), *dv = at(scratchpad, diffValues),
          *q = at(scratchpad, queries), *o = at(scratchpad, outputs),
          *dout = at(scratchpad, diffOutputs), *p = at(scratchpad, weights),
          *dp = at(scratchpad, diffWeights);
    for (int64_t head = heads.begin; head < heads.begin + heads.count; ++head) {
      auto *logsumexp =
          static_cast<const float *>(tensors[4]) + head * a.rows();
      a.key.read(tensors[1], head, 0, n, k);
      a.value.read(tensors[2], head, 0, n, v);
      std::fill(dk, dk + n * d, 0.0f);
      std::fill(dv, dv + n * e, 0.0f);
      for (int64_t first = 0; first < a.rows(); first += blockRows) {
        int64_t count = std::min(blockRows, a.rows() - first);
        int64_t seen = a.visible(first + count);
        a.query.read(tensors[0], head, first, count, q);
        a.output.read(tensors[3], head, first, count, o);
        diffOutput.read(tensors[5], head, first, count, dout);
        multiply(false, true, count, seen, d, a.scale, q, d, k, d, 0, p, n);
        multiply(false, true, count, seen, e, 1, dout, e, v, e, 0, dp, n);
        for (int64_t row = 0; row < count; ++row) {
          int64_t visible = a.visible(first + row + 1);
          float *pRow = p + row * n, *dpRow = dp + row * n;
          float mean = 0;
          for (int64_t column = 0; column < e; ++column)
            mean += dout[row * e + column] * o[row * e + column];
          for (int64_t column = 0; column < visible; ++column) {
            pRow[column] = std::exp(pRow[column] - logsumexp[first + row]);
            dpRow[column] = pRow[column] * (dpRow[column] - mean);
          }
          std::fill(pRow + visible, pRow + seen, 0.0f);
          std::fill(dpRow + visible, dpRow + seen, 0.0f);
        }
        multiply(true, false, seen, e, count, 1, p, n, dout, e, 1, dv, e);
        multiply(true, false, seen, d, count, a.scale, dp, n, q, d, 1, dk, d);
        // The query of this block is needed no more.
        multiply(false, false, count, d, seen, a.scale, dp, n, k, d, 0, q, d);
        diffQuery.write(tensors[6], head, first, count, q);
      }
      diffKey.write(tensors[7], head, 0, n, dk);
      diffValue.write(tensors[8], head, 0, n, dv);
    }
  };
  builder.setFunction(described, work, places.size());
}
