//===- MatmulKernel.cpp - `matmul` ----------------------------------------===//
#include "cpu/KernelBuilder.h"
#include "cpu/MatmulEpilogue.h"
#include "cpu/PackedWeights.h"
#include "cpu/PairMatrixProduct.h"
#include "cpu/Processor.h"
#include "cpu/TiledProduct.h"
#include "plan/ShortFloat.h"
#include "pprt/pprt.h"

#include <algorithm>
#include <cmath>

using namespace pp::runtime;

static KernelBuilder::MemoryDesc describe(Descriptor &descriptor,
                                          const std::string &key,
                                          const KernelBuilder::Dims &dims,
                                          KernelBuilder::Type type) {
  std::string strides = key + "s";
  if (!descriptor.has(strides))
    return KernelBuilder::dense(dims, type);
  return KernelBuilder::strided(
      dims, descriptor.getDims(strides, dims.size(), 0), type);
}

/// For what a GPU does: on the processor, programs have none.
static void buildWithEpilogue(const MatmulEpilogue &epilogue,
                              const KernelBuilder::MemoryDesc &aDesc,
                              const KernelBuilder::MemoryDesc &bDesc,
                              const KernelBuilder::MemoryDesc &cDesc,
                              KernelBuilder &builder) {
  auto a = builder.addTensor(aDesc), b = builder.addTensor(bDesc);
  auto biasDesc = KernelBuilder::dense({1, cDesc.dims()[1]}, cDesc.data_type());
  auto bias = builder.addTensor(biasDesc);
  dnnl::memory sum;
  if (epilogue.hasAuxiliary)
    sum = builder.addResult(cDesc);
  auto c = builder.addResult(cDesc);

  auto algorithm = epilogue.activation == MatmulEpilogue::Relu
                       ? dnnl::algorithm::eltwise_relu
                       : dnnl::algorithm::eltwise_gelu_tanh;
  dnnl::primitive_attr attributes = builder.getAttributes();
  if (epilogue.activation != MatmulEpilogue::None && !epilogue.hasAuxiliary) {
    dnnl::post_ops operations;
    operations.append_eltwise(/*scale=*/1, algorithm, /*alpha=*/0, /*beta=*/0);
    attributes.set_post_ops(operations);
  }
  dnnl::matmul::primitive_desc product(
      {KernelBuilder::widened(aDesc), KernelBuilder::widened(bDesc),
       KernelBuilder::widened(biasDesc), KernelBuilder::widened(cDesc)},
      attributes, builder.getEngine());
  builder.addPrimitive(dnnl::matmul(product), product.scratchpad_desc(),
                       {{DNNL_ARG_SRC, a},
                        {DNNL_ARG_WEIGHTS, b},
                        {DNNL_ARG_BIAS, bias},
                        {DNNL_ARG_DST, epilogue.hasAuxiliary ? sum : c}});
  if (!epilogue.hasAuxiliary)
    return;
  dnnl::eltwise_forward::primitive_desc activation(
      {dnnl::prop_kind::forward_inference, algorithm,
       KernelBuilder::widened(cDesc)},
      builder.getAttributes(), builder.getEngine());
  builder.addPrimitive(dnnl::eltwise_forward(activation),
                       activation.scratchpad_desc(),
                       {{DNNL_ARG_SRC, sum}, {DNNL_ARG_DST, c}});
}

namespace {
/// What the keys of a product say.
struct Product {
  KernelBuilder::MemoryDesc a, b, c;
  MatmulEpilogue epilogue;
  bool isAdded = false;
  /// Whether factors of f32 are multiplied as sums of three of bf16. Of the
  /// whole product, so that a part does what the whole would.
  bool isSplit = false;
  /// How many such products may be added at once.
  int64_t together = 1;
  /// The bytes of b in the library's layout; 0: it has strides.
  size_t packedBytes = 0;
  TiledProduct::PartOf partOf = TiledProduct::PartOf::None;
};
} // namespace

/// Throws DescriptorError where the dimensions are not those of a product; the
/// library checks them too, in words of its own.
static void checkShapes(const Product &product) {
  KernelBuilder::Dims a = product.a.dims(), b = product.b.dims(),
                      c = product.c.dims();
  size_t rows = c.size() - 2;
  bool isProduct = a[rows] == c[rows] && b[rows + 1] == c[rows + 1] &&
                   a[rows + 1] == b[rows];
  for (size_t axis = 0; axis < rows; ++axis)
    isProduct &= (a[axis] == c[axis] || a[axis] == 1) &&
                 (b[axis] == c[axis] || b[axis] == 1);
  if (!isProduct)
    throw DescriptorError("c: is not the shape of the product of a and b");
}

/// With AMX, where packing is little beside six products of bf16 (measured: 1.1
/// to 1.6 times as fast as tiles of f32, but slower for 128 x 64 x 128).
static bool isSplitFaster(const Product &product) {
  constexpr int64_t least = 128;
  KernelBuilder::Dims c = product.c.dims();
  auto isSingle = [](const KernelBuilder::MemoryDesc &desc) {
    return desc.data_type() == KernelBuilder::Type::f32;
  };
  return hasMatrixTiles() && isSingle(product.a) && isSingle(product.b) &&
         isSingle(product.c) && c[c.size() - 2] >= least &&
         c[c.size() - 1] >= least && product.a.dims().back() >= least;
}

static Product readProduct(Descriptor &descriptor) {
  Product product;
  auto a = descriptor.getDims("a");
  if (a.size() < 2)
    throw DescriptorError("a: expected at least two dimensions");
  auto b = descriptor.getDims("b", a.size(), 1);
  auto c = descriptor.getDims("c", a.size(), 1);
  auto types = KernelBuilder::types(descriptor, 3);
  product.a = describe(descriptor, "a", a, types[0]);
  product.b = describe(descriptor, "b", b, types[1]);
  product.c = describe(descriptor, "c", c, types[2]);
  product.epilogue = readEpilogue(
      descriptor, c, product.c == KernelBuilder::dense(c, types[2]));
  product.isAdded = readAccumulation(descriptor, types[2]);
  product.together = readTogether(descriptor, product.isAdded);
  checkShapes(product);
  product.isSplit = isSplitFaster(product);
  product.packedBytes = readPackedBytes(descriptor);
  if (product.packedBytes == 0)
    return product;
  if (types[1] == KernelBuilder::Type::f16 || product.epilogue.hasBias ||
      product.isAdded)
    throw DescriptorError("packed: only in products of f32 and bf16 without "
                          "epilogue and sum");
  return product;
}

static dnnl::matmul::primitive_desc
describeProduct(const Product &product, const KernelBuilder::MemoryDesc &b,
                KernelBuilder &builder) {
  return {
      {KernelBuilder::widened(product.a), b, KernelBuilder::widened(product.c)},
      builder.getAttributes(),
      builder.getEngine()};
}

/// Whether a factor is transposed, as in the gradient of weights.
static bool isTransposed(const KernelBuilder::MemoryDesc &desc) {
  KernelBuilder::Dims strides = KernelBuilder::stridesOf(desc);
  return strides.size() == 2 && strides[0] == 1 && strides[1] != 1;
}

/// Makes the library take its GEMM for a product with a transposed factor a: a
/// matrix of a batch of one, whose stride the library's other code does not
/// know. That code wants a dense factor, which a part of the product has not:
/// so parts would not have the bits of the whole, and threads could not share
/// it. It is no faster (measured on Zen 4 in f32 and bf16, oneDNN 2.6.3);
/// Intel's processors use tiles of our own.
static void avoidDenseCode(Product &product) {
  if (!isTransposed(product.a) || product.packedBytes != 0 || isFromIntel())
    return;
  auto asBatch = [](KernelBuilder::MemoryDesc &desc, int64_t stride) {
    KernelBuilder::Dims dims = desc.dims(),
                        strides = KernelBuilder::stridesOf(desc);
    dims.insert(dims.begin(), 1);
    strides.insert(strides.begin(), stride);
    desc = KernelBuilder::MemoryDesc(dims, desc.data_type(), strides);
  };
  KernelBuilder::Dims a = product.a.dims(), b = product.b.dims(),
                      c = product.c.dims();
  asBatch(product.a, a[0]);
  asBatch(product.b, b[0] * b[1]);
  asBatch(product.c, c[0] * c[1]);
}

/// The product with the layout of b that the library chooses.
static dnnl::matmul::primitive_desc describePacked(const Product &product,
                                                   KernelBuilder &builder) {
  KernelBuilder::MemoryDesc any(product.b.dims(), product.b.data_type(),
                                dnnl::memory::format_tag::any);
  return describeProduct(product, any, builder);
}

static bool isTiled(const Product &product) {
  return TiledProduct::isPreferred(
      KernelBuilder::dataType(product.b.data_type()));
}

namespace {
/// Where the tensors of a part of a product begin; b packed or not.
struct Offsets {
  uint64_t a = 0, b = 0, c = 0;
  uint64_t plainB = 0; // where it is not packed
};
} // namespace

/// Columns of packed weights lie in panels of this, one after the other.
static constexpr int64_t packedPanel = 64;

static int64_t countPanels(int64_t columns) {
  return (columns + panelColumns - 1) / panelColumns;
}

/// The sizes of a gradient of weights as a product of pairs, where that is
/// faster.
static std::optional<PairMatrixProduct::Shape>
findPairs(const Product &product) {
  using Type = KernelBuilder::Type;
  const KernelBuilder::Dims dims = product.c.dims();
  if (dims.size() != 2 || product.packedBytes != 0 ||
      product.epilogue.hasBias || product.a.data_type() != Type::bf16 ||
      product.b.data_type() != Type::bf16 || product.c.data_type() != Type::f32)
    return std::nullopt;
  const auto a = KernelBuilder::stridesOf(product.a);
  const auto b = KernelBuilder::stridesOf(product.b);
  const auto c = KernelBuilder::stridesOf(product.c);
  const int64_t terms = product.a.dims()[1];
  const PairMatrixProduct::Shape shape{dims[0],
                                       terms,
                                       dims[1],
                                       PairMatrixProduct::ofRows(terms, a[1]),
                                       PairMatrixProduct::ofRows(terms, b[0]),
                                       c[0]};
  const bool areRows = a[0] == 1 && b[1] == 1 && c[1] == 1;
  return areRows && PairMatrixProduct::isPreferred(shape) ? std::optional(shape)
                                                          : std::nullopt;
}

/// Leaves of `product` the rows of c, or the columns, that are `builder`'s.
static Offsets takeAxis(Product &product, KernelBuilder &builder, int64_t axis,
                        int64_t grain) {
  KernelBuilder::Dims dims = product.c.dims();
  int64_t rows = dims.size() - 2;
  KernelBuilder::Range range = builder.share(dims[axis], grain);
  Offsets offsets;
  auto cut = [&](KernelBuilder::MemoryDesc &desc, uint64_t &offset) {
    KernelBuilder::Slice slice = KernelBuilder::slice(desc, axis, range);
    desc = slice.desc;
    offset = slice.offset;
  };
  cut(product.c, offsets.c);
  if (axis >= rows)
    product.partOf = axis == rows ? TiledProduct::PartOf::Rows
                                  : TiledProduct::PartOf::Columns;
  if (axis != rows + 1)
    cut(product.a, offsets.a);
  if (axis != rows)
    cut(product.b, offsets.b);
  offsets.plainB = offsets.b;
  if (product.packedBytes != 0 && axis == rows + 1) {
    // The last panel is a whole one.
    const uint64_t panel = product.packedBytes / countPanels(dims[axis]);
    offsets.b = panel * (range.begin / panelColumns);
    product.packedBytes = panel * countPanels(range.count);
  }
  return offsets;
}

static Offsets takeColumns(Product &product, KernelBuilder &builder) {
  return takeAxis(product, builder, product.c.dims().size() - 1, packedPanel);
}

/// Leaves of `product` what `builder`'s part computes: some of its matrices, or
/// else rows, or columns of a single one.
static Offsets takePart(Product &product, KernelBuilder &builder) {
  if (builder.isWhole())
    return {};
  KernelBuilder::Dims dims = product.c.dims();
  int64_t parts = builder.countParts(), rows = dims.size() - 2;
  // Whole tiles of registers, and many of them.
  constexpr int64_t tile = 16, fewest = 2 * tile;
  auto take = [&](int64_t axis, int64_t grain) {
    return takeAxis(product, builder, axis, grain);
  };
  for (int64_t axis = 0; axis < rows; ++axis)
    if (dims[axis] % parts == 0)
      return take(axis, 1);
  bool areRows = dims[rows] >= fewest * parts;
  bool areColumns = dims[rows + 1] >= fewest * parts;
  // Each part packs all of the factor that is not cut.
  bool areBetter = isTiled(product) && dims[rows + 1] >= dims[rows];
  if (areRows && !(areColumns && areBetter))
    return take(rows, tile);
  for (int64_t axis = 0; axis < rows; ++axis)
    if (dims[axis] > parts)
      return take(axis, 1);
  if (areColumns)
    return take(rows + 1, product.packedBytes == 0 ? tile : packedPanel);
  throw DescriptorError("parts: there is not enough to share");
}

/// A product without epilogue in tiles of our own.
static TiledProduct makeTiled(const Product &product) {
  size_t rows = product.c.dims().size() - 2;
  auto matrix = [&](const KernelBuilder::MemoryDesc &desc) {
    KernelBuilder::Dims dims = desc.dims();
    KernelBuilder::Dims strides = KernelBuilder::stridesOf(desc);
    TiledProduct::Matrix result{KernelBuilder::dataType(desc.data_type()),
                                strides[rows],
                                strides[rows + 1],
                                {strides.begin(), strides.begin() + rows}};
    for (size_t axis = 0; axis < rows; ++axis)
      if (dims[axis] == 1)
        result.batchStrides[axis] = 0;
    return result;
  };
  KernelBuilder::Dims a = product.a.dims(), c = product.c.dims();
  TiledProduct tiled({c.begin(), c.begin() + rows}, c[rows], a[rows + 1],
                     c[rows + 1], matrix(product.a), matrix(product.b),
                     matrix(product.c), product.isAdded);
  if (product.isSplit)
    tiled.setSplit();
  if (product.packedBytes != 0)
    tiled.setPacked();
  tiled.setPart(product.partOf);
  return tiled;
}

/// The bytes of b in panels; 0 where there is no such layout.
static uint64_t measurePanels(const Product &product) {
  if (product.b.dims().size() != 2)
    return 0;
  const TiledProduct tiled = makeTiled(product);
  const uint64_t bytes = tiled.isPackable() ? tiled.getPackedBytes() : 0;
  return bytes <= INT32_MAX ? bytes : 0;
}

namespace {
/// Dense numbers of any of the types that a product has.
struct Numbers {
  DataType type;
  char *data;

  float get(int64_t at) const {
    if (isShortFloat(type))
      return fromShortFloat(type, reinterpret_cast<uint16_t *>(data)[at]);
    return reinterpret_cast<float *>(data)[at];
  }
  void set(int64_t at, float value) const {
    if (isShortFloat(type))
      reinterpret_cast<uint16_t *>(data)[at] = toShortFloat(type, value);
    else
      reinterpret_cast<float *>(data)[at] = value;
  }
};
} // namespace

static float activate(MatmulEpilogue::Activation activation, float x) {
  constexpr float root = 0.797884560802865f; // of 2 / pi
  switch (activation) {
  case MatmulEpilogue::None:
    return x;
  case MatmulEpilogue::Relu:
    return std::max(x, 0.0f);
  case MatmulEpilogue::Gelu:
    return 0.5f * x * (1 + std::tanh(root * (x + 0.044715f * x * x * x)));
  }
  return x;
}

/// As buildWithEpilogue, with tiles of our own.
static void buildTiledWithEpilogue(Product product, KernelBuilder &builder) {
  MatmulEpilogue epilogue = product.epilogue;
  DataType type = KernelBuilder::dataType(product.c.data_type());
  KernelBuilder::Dims dims = product.c.dims();
  product.c = KernelBuilder::dense(dims);
  TiledProduct tiled = makeTiled(product);
  uint64_t sums = alignUp(product.c.get_size());
  const auto result = KernelBuilder::tensorOf(type, dims[0] * dims[1]);
  std::vector<KernelBuilder::Tensor> described{
      KernelBuilder::tensorOf(product.a), KernelBuilder::tensorOf(product.b),
      KernelBuilder::tensorOf(type, dims[1]), result};
  if (epilogue.hasAuxiliary)
    described.push_back(result);
  builder.setFunction(
      described,
      [=](void *const *tensors, void *scratchpad) {
        auto *sum = static_cast<float *>(scratchpad);
        tiled.run(tensors[0], tensors[1], sum,
                  static_cast<char *>(scratchpad) + sums);
        auto numbers = [&](int tensor) {
          return Numbers{type, static_cast<char *>(tensors[tensor])};
        };
        Numbers bias = numbers(2);
        Numbers before = numbers(3);
        Numbers c = numbers(epilogue.hasAuxiliary ? 4 : 3);
        for (int64_t i = 0; i < dims[0] * dims[1]; ++i) {
          float value = sum[i] + bias.get(i % dims[1]);
          if (epilogue.hasAuxiliary) {
            before.set(i, value);
            value = before.get(i);
          }
          c.set(i, activate(epilogue.activation, value));
        }
      },
      sums + tiled.getScratchpadBytes());
}

namespace {
/// Which of the caller's tensors the factors are; the product is the last one.
enum class Order { AThenB, BThenA };
} // namespace

/// The factor b, packed or not.
static KernelBuilder::Tensor describeB(const Product &product) {
  if (product.packedBytes == 0)
    return KernelBuilder::tensorOf(product.b);
  return {product.packedBytes, makeTiled(product).getPackedType()};
}

/// A product in code of our own.
static void runOwn(const TiledProduct &code, const void *a, const void *b,
                   void *c, void *scratchpad, bool isContinued) {
  code.run(a, b, c, scratchpad, isContinued);
}
static void runOwn(const PairMatrixProduct &code, const void *a, const void *b,
                   void *c, void *scratchpad, bool /*isContinued*/) {
  code.run(a, b, c, scratchpad);
}

/// `sums`, if there is one, adds several at once.
template <typename Code, typename Sums>
static void buildOwn(const Code &code, const std::optional<Sums> &sums,
                     const Product &product, const Offsets &offsets,
                     Order order, KernelBuilder &builder) {
  const int a = order == Order::AThenB ? 0 : 1;
  std::vector<KernelBuilder::Tensor> described{
      KernelBuilder::tensorOf(product.a), describeB(product),
      KernelBuilder::tensorOf(product.c)};
  if (order == Order::BThenA)
    std::swap(described[0], described[1]);
  if (sums)
    builder.setSums(*sums, {a, offsets.a}, {1 - a, offsets.b}, {2, offsets.c});
  builder.setPartFunction(
      described,
      [code, offsets, a](void *const *tensors, void *scratchpad,
                         bool isContinued) {
        auto at = [&](int tensor, uint64_t offset) {
          return static_cast<char *>(tensors[tensor]) + offset;
        };
        runOwn(code, at(a, offsets.a), at(1 - a, offsets.b), at(2, offsets.c),
               scratchpad, isContinued);
      },
      code.getScratchpadBytes());
}

static void buildTiled(const Product &product, const Offsets &offsets,
                       Order order, KernelBuilder &builder) {
  const TiledProduct tiled = makeTiled(product);
  buildOwn(tiled, tiled.together(product.together), product, offsets, order,
           builder);
}

static void buildPairs(const PairMatrixProduct::Shape &shape,
                       const Product &product, const Offsets &offsets,
                       Order order, KernelBuilder &builder) {
  std::optional<PairMatrixProduct> sums;
  if (product.together > 1)
    sums.emplace(shape, product.isAdded, product.together);
  buildOwn(PairMatrixProduct(shape, product.isAdded), sums, product, offsets,
           order, builder);
}

/// A product without epilogue, or the part of it that is `builder`'s.
static void buildProduct(Product product, Order order, KernelBuilder &builder) {
  // Of the whole, so that a part does what the whole would.
  const auto whole = findPairs(product);
  if (whole)
    product.together =
        PairMatrixProduct::countTogether(*whole, product.together);
  Offsets offsets = takePart(product, builder);
  if (whole)
    return buildPairs(*findPairs(product), product, offsets, order, builder);
  if (isTiled(product))
    return buildTiled(product, offsets, order, builder);
  avoidDenseCode(product);
  const KernelBuilder::MemoryDesc result = product.c;
  // The library's own sum jumps between tiles of a result that no cache holds.
  if (product.isAdded)
    product.c = KernelBuilder::dense(result.dims());
  bool isPacked = product.packedBytes != 0;
  auto desc = isPacked
                  ? describePacked(product, builder)
                  : describeProduct(product, KernelBuilder::widened(product.b),
                                    builder);
  if (isPacked)
    demandPacked(desc.weights_desc().get_size(), product.packedBytes);
  dnnl::memory a, b;
  auto addB = [&] {
    b = builder.addTensor(isPacked ? desc.weights_desc() : product.b,
                          offsets.b);
  };
  if (order == Order::BThenA)
    addB();
  a = builder.addTensor(product.a, offsets.a);
  if (order == Order::AThenB)
    addB();
  auto c = builder.addResult(result, offsets.c);
  auto made = product.isAdded ? builder.addTemporary(product.c) : c;
  builder.addPrimitive(
      dnnl::matmul(desc), desc.scratchpad_desc(),
      {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, made}});
  if (product.isAdded)
    builder.addSum(made, c);
}

void pp::runtime::buildMatmul(Descriptor &descriptor, KernelBuilder &builder) {
  Product product = readProduct(descriptor);
  if (isTiled(product) && product.packedBytes != 0)
    demandPacked(measurePanels(product), product.packedBytes);
  if (!product.epilogue.hasBias)
    return buildProduct(product, Order::AThenB, builder);
  if (!builder.isWhole())
    throw DescriptorError("parts: not with an epilogue");
  if (isTiled(product))
    return buildTiledWithEpilogue(product, builder);
  buildWithEpilogue(product.epilogue, product.a, product.b, product.c, builder);
}

bool pp::runtime::arePartsCheap(Descriptor &descriptor, unsigned parts) {
  const Product product = readProduct(descriptor);
  using Type = KernelBuilder::Type;
  const bool isShort = product.a.data_type() == Type::bf16 &&
                       product.b.data_type() == Type::bf16;
  if (!isTiled(product) || !hasMatrixTiles() || !(isShort || product.isSplit))
    return false;
  // Beside that which all have, a part reads the other factor. Rows are written
  // for all columns of the factor that is kept, which leaves L2 in between
  // (measured: 512 for 3072 x 768 from 512 terms).
  constexpr int64_t fewestColumns = 128, fewestRows = 512;
  const KernelBuilder::Dims dims = product.c.dims();
  const int64_t rows = dims[dims.size() - 2], columns = dims.back();
  return dims.size() > 2 || (columns >= rows ? columns >= fewestColumns * parts
                                             : rows >= fewestRows * parts);
}

bool pp::runtime::isMatmulAddedTogether(Descriptor &descriptor) {
  Product product = readProduct(descriptor);
  if (const auto pairs = findPairs(product))
    return PairMatrixProduct::countTogether(*pairs, PP_MOST_TOGETHER) > 1;
  return isTiled(product) &&
         makeTiled(product).together(PP_MOST_TOGETHER).has_value();
}

bool pp::runtime::isMatmulAddedInPlace(Descriptor &descriptor) {
  const Product product = readProduct(descriptor);
  const bool isShort = product.a.data_type() == KernelBuilder::Type::bf16 &&
                       product.b.data_type() == KernelBuilder::Type::bf16;
  return product.isSplit || (isShort && hasMatrixTiles()) || findPairs(product);
}

void pp::runtime::buildTransposedProduct(const KernelBuilder::MemoryDesc &b,
                                         const KernelBuilder::MemoryDesc &a,
                                         const KernelBuilder::MemoryDesc &c,
                                         bool isAdded, int64_t together,
                                         KernelBuilder &builder) {
  Product product;
  product.isAdded = isAdded;
  product.together = together;
  KernelBuilder::Dims dims = a.dims();
  product.a = KernelBuilder::MemoryDesc({dims[1], dims[0]}, a.data_type(),
                                        KernelBuilder::Dims{1, dims[1]});
  product.b = b;
  product.c = c;
  buildProduct(product, Order::BThenA, builder);
}

void pp::runtime::buildPackMatmul(Descriptor &descriptor,
                                  KernelBuilder &builder) {
  Product product = readProduct(descriptor);
  Offsets offsets;
  if (!builder.isWhole() && product.packedBytes != 0) {
    offsets = takeColumns(product, builder);
    // The library has another layout for results with gaps.
    product.c = KernelBuilder::dense(product.c.dims(), product.c.data_type());
  }
  if (!isTiled(product))
    return buildPack(product.b, describePacked(product, builder).weights_desc(),
                     product.packedBytes, builder, offsets.plainB, offsets.b);
  if (product.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  demandPacked(measurePanels(product), product.packedBytes);
  builder.setFunction(
      {KernelBuilder::tensorOf(product.b), describeB(product)},
      [tiled = makeTiled(product), offsets](void *const *tensors, void *) {
        tiled.packColumns(static_cast<const char *>(tensors[0]) +
                              offsets.plainB,
                          static_cast<char *>(tensors[1]) + offsets.b);
      });
}

uint64_t pp::runtime::measurePackedMatmul(Descriptor &descriptor,
                                          KernelBuilder &builder) {
  Product product = readProduct(descriptor);
  if (product.b.data_type() == KernelBuilder::Type::f16)
    return 0;
  if (isTiled(product))
    return measurePanels(product);
  return measurePacked(product.b,
                       describePacked(product, builder).weights_desc());
}
