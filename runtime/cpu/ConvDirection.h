//===- ConvDirection.h - A convolution or the gradient of its input -------===//
#ifndef PP_RUNTIME_CPU_CONVDIRECTION_H
#define PP_RUNTIME_CPU_CONVDIRECTION_H

namespace pp::runtime {

enum class ConvDirection {
  Forward, ///< from x to y
  Backward ///< from dY to dX
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVDIRECTION_H
