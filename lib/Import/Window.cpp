//===- Window.cpp - Windows of convolutions and pools ---------------------===//

#include "Window.h"

using namespace mlir;
using namespace pp;

FailureOr<Window> pp::readWindow(NodeImporter &n, ArrayRef<int64_t> input,
                                 ArrayRef<int64_t> kernel) {
  size_t spatial = input.size();
  Window window;
  SmallVector<int64_t> ones(spatial, 1), zeros(2 * spatial, 0);
  window.kernel.assign(kernel.begin(), kernel.end());
  window.strides = n.attribute("strides", ones);
  window.dilations = n.attribute("dilations", ones);
  SmallVector<int64_t> pads = n.attribute("pads", zeros);
  if (spatial < 1 || spatial > 3) {
    (void)n.error("has " + llvm::Twine(spatial) +
                  " spatial axes; one to three are supported");
    return failure();
  }
  if (window.kernel.size() != spatial || window.strides.size() != spatial ||
      window.dilations.size() != spatial || pads.size() != 2 * spatial) {
    (void)n.error("has attributes that do not fit its " + llvm::Twine(spatial) +
                  " spatial axes");
    return failure();
  }
  constexpr int64_t limit = int64_t{1} << 31;
  for (size_t axis = 0; axis < spatial; ++axis)
    for (int64_t value :
         {window.kernel[axis], window.strides[axis], window.dilations[axis]})
      if (value < 1 || value >= limit) {
        (void)n.error("has a kernel, stride or dilation of " +
                      llvm::Twine(value) + " on spatial axis " +
                      llvm::Twine(axis));
        return failure();
      }
  for (int64_t pad : pads)
    if (pad < 0 || pad >= limit) {
      (void)n.error("has a padding of " + llvm::Twine(pad));
      return failure();
    }
  window.low.assign(pads.begin(), pads.begin() + spatial);
  window.high.assign(pads.begin() + spatial, pads.end());
  std::string automatic = n.attribute("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t axis = 0; axis < spatial; ++axis) {
      int64_t positions =
          (input[axis] + window.strides[axis] - 1) / window.strides[axis];
      int64_t total =
          std::max<int64_t>(0, (positions - 1) * window.strides[axis] +
                                   window.reach(axis) - input[axis]);
      int64_t small = total / 2, large = total - small;
      window.low[axis] = automatic == "SAME_UPPER" ? small : large;
      window.high[axis] = automatic == "SAME_UPPER" ? large : small;
    }
  } else if (automatic == "VALID") {
    window.low.assign(spatial, 0);
    window.high.assign(spatial, 0);
  }
  return window;
}

FailureOr<SmallVector<int64_t>> pp::slide(NodeImporter &n, const Window &window,
                                          ArrayRef<int64_t> input) {
  SmallVector<int64_t> output;
  for (size_t axis = 0; axis < input.size(); ++axis) {
    int64_t room =
        input[axis] + window.low[axis] + window.high[axis] - window.reach(axis);
    if (room < 0) {
      (void)n.error(
          "its window of " + llvm::Twine(window.reach(axis)) +
          " does not fit into " +
          llvm::Twine(input[axis] + window.low[axis] + window.high[axis]) +
          " on spatial axis " + llvm::Twine(axis));
      return failure();
    }
    output.push_back(room / window.strides[axis] + 1);
  }
  return output;
}
