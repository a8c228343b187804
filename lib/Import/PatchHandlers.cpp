//===- PatchHandlers.cpp - ONNX operators that cut and join images --------===//

#include "Expressions.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

LogicalResult centerCropPad(NodeImporter &n) {
  Value x = n.tensor(0);
  auto wanted = n.integers("shape", 1);
  if (!x || failed(wanted))
    return failure();
  int64_t rank = n.shape(x).size();
  SmallVector<int64_t> every = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  auto axes =
      n.normalizeAxes(n.attribute("axes", ArrayRef<int64_t>(every)), rank);
  if (failed(axes))
    return failure();
  if (axes->size() != wanted->size())
    return n.error("has " + llvm::Twine(wanted->size()) + " sizes for " +
                   llvm::Twine(axes->size()) + " axes");
  for (auto [axis, size] : llvm::zip(*axes, *wanted)) {
    int64_t own = n.shape(x)[axis];
    if (size < 0 || size > maxElements)
      return n.error("makes an axis of size " + llvm::Twine(size));
    if (size < own) {
      int64_t start = (own - size) / 2;
      x = n.slice(x, axis, start, start + size);
    }
    if (size <= own)
      continue;
    int64_t before = (size - own) / 2;
    auto zeros = [&](int64_t count) {
      SmallVector<int64_t> shape(n.shape(x));
      shape[axis] = count;
      return n.splat(n.type(x).clone(shape), 0);
    };
    if (isTooLarge({size, n.type(x).getNumElements()}))
      return n.error("makes a tensor of more than " + llvm::Twine(maxElements) +
                     " elements");
    x = n.join({zeros(before), x, zeros(size - own - before)}, axis, false);
  }
  n.setOutput(0, x);
  return success();
}

/// Adds the columns of blocks to the image that they were cut from.
LogicalResult col2Im(NodeImporter &n) {
  Value x = n.tensor(0);
  auto image = n.integers("image_shape", 1), block = n.integers("", 2);
  if (!x || failed(image) || failed(block))
    return failure();
  size_t spatial = image->size();
  SmallVector<int64_t> ones(spatial, 1), none(2 * spatial, 0);
  SmallVector<int64_t> strides = n.attribute("strides", ArrayRef(ones));
  SmallVector<int64_t> dilations = n.attribute("dilations", ArrayRef(ones));
  SmallVector<int64_t> pads = n.attribute("pads", ArrayRef(none));
  if (spatial < 1 || block->size() != spatial || strides.size() != spatial ||
      dilations.size() != spatial || pads.size() != 2 * spatial)
    return n.error("has attributes that do not fit its " +
                   llvm::Twine(spatial) + " spatial axes");
  SmallVector<int64_t> padded, counts;
  int64_t blockSize = 1, blocks = 1;
  constexpr int64_t most = 1 << 20;
  for (size_t axis = 0; axis < spatial; ++axis) {
    for (int64_t value :
         {(*image)[axis], (*block)[axis], strides[axis], dilations[axis]})
      if (value < 1 || value > most)
        return n.error("has a size, stride or dilation of " +
                       llvm::Twine(value));
    if (pads[axis] < 0 || pads[spatial + axis] < 0 || pads[axis] > most ||
        pads[spatial + axis] > most)
      return n.error("has negative or too large padding");
    padded.push_back((*image)[axis] + pads[axis] + pads[spatial + axis]);
    int64_t room = padded[axis] - dilations[axis] * ((*block)[axis] - 1) - 1;
    counts.push_back(room < 0 ? 0 : room / strides[axis] + 1);
    blockSize *= (*block)[axis];
    blocks *= counts[axis];
    if (blockSize > most || blocks > most)
      return n.error("has too many blocks");
  }
  SmallVector<int64_t> shape(n.shape(x));
  if (shape.size() != 3 || shape[1] % blockSize != 0 || shape[2] != blocks)
    return n.error("has columns that are not the " + llvm::Twine(blocks) +
                   " blocks of its image");
  if (isTooLarge(padded) || blocks * blockSize > most)
    return n.error("has too large an image");
  // The place of each element of each block in the padded image.
  SmallVector<int64_t> places;
  for (int64_t element = 0; element < blockSize; ++element)
    for (int64_t which = 0; which < blocks; ++which) {
      int64_t place = 0, scale = 1, inBlock = element, inImage = which;
      for (size_t axis = spatial; axis-- > 0;) {
        int64_t at = inBlock % (*block)[axis] * dilations[axis] +
                     inImage % counts[axis] * strides[axis];
        inBlock /= (*block)[axis];
        inImage /= counts[axis];
        place += at * scale;
        scale *= padded[axis];
      }
      places.push_back(place);
    }
  int64_t channels = shape[1] / blockSize, elements = 1;
  for (int64_t size : padded)
    elements *= size;
  Value indices = n.constant(Constant::list(n.getBuilder(), places));
  Value sum = n.make<ScatterAddOp>(
      n.type(x).clone({shape[0], channels, elements}), indices,
      n.reshape(x, {shape[0], channels, blockSize * blocks}), int64_t{2},
      int64_t{0});
  SmallVector<int64_t> result = {shape[0], channels};
  llvm::append_range(result, padded);
  sum = n.reshape(sum, result);
  for (size_t axis = 0; axis < spatial; ++axis)
    if ((*image)[axis] != padded[axis])
      sum = n.slice(sum, static_cast<int64_t>(axis) + 2, pads[axis],
                    pads[axis] + (*image)[axis]);
  n.setOutput(0, sum);
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::patchOperators() {
  static const ImportedOperator entries[] = {
      {.name = "CenterCropPad", .handler = centerCropPad, .known = {{"shape"}}},
      {.name = "Col2Im",
       .handler = col2Im,
       .types = numberTypes,
       .known = {{"image_shape"}, {"block_shape"}}},
  };
  return entries;
}
