//===- ConvKernel.cpp - `conv_*` ------------------------------------------===//
//
// All tensors of a convolution of cuDNN have one type. Where factors of sixteen
// bits have a result of f32 (the gradient of a weight), the factors are widened
// in the scratchpad. TF32 holds all numbers of bf16 and f16, so the products
// are still those of the factors.
//
#include "ConvMapping.h"
#include "CudaKernel.h"
#include "DeviceKernel.h"
#include "Dnn.h"
#include "Libraries.h"
#include "Workspace.h"

#include <array>
#include <utility>

using namespace pp::cuda;

namespace {

/// The descriptors that the three directions share.
class Conv : public Kernel {
public:
  Conv(const ConvMapping &map, const KernelInputs &inputs);
  ~Conv() override;
  Conv(const Conv &) = delete;
  Conv &operator=(const Conv &) = delete;

protected:
  /// The first algorithm, by cuDNN's estimate of its time, that gives the same
  /// bits every time and fits into the scratchpad.
  template <typename Performance, typename Ask, typename Measure>
  auto choose(Ask ask, Measure measure);
  /// Widens what has to be and returns src, weights and dst, given in this

  std::array<void *, 3> begin(CUstream stream, std::array<void *, 3> tensors,
                              void *scratchpad);
  void finish(cudnnStatus_t status) { dnn.check(status, "cuDNN"); }
  void *getWorkspace(void *scratchpad) const {
    auto *start = static_cast<char *>(workspace.in(scratchpad));
    return start ? start + copyBytes : nullptr;
  }
  uint64_t getWorkspaceBytes() const {
    return workspace.getBytes() - copyBytes;
  }

  Context &context;
  Dnn &dnn;
  cudnnHandle_t handle;
  bool hasBias;
  cudnnTensorDescriptor_t src = nullptr, dst = nullptr, bias = nullptr;
  cudnnFilterDescriptor_t weights = nullptr;
  cudnnConvolutionDescriptor_t operation = nullptr;
  const float one = 1, zero = 0;

private:
  /// A factor in f32, at `offset` in the workspace.
  struct Copy {
    std::unique_ptr<Kernel> widen; // null: the tensor itself is used
    uint64_t offset = 0;
  };
  void makeCopies(const ConvMapping &map, const KernelInputs &inputs);
  void describe(const ConvMapping &map);
  void destroy() noexcept;

  Workspace workspace;
  std::array<Copy, 3> copies;
  uint64_t copyBytes = 0;
  bool isExact = true;                     // no TF32
  cudnnDataType_t type = CUDNN_DATA_FLOAT; // of all three
};

} // namespace

Conv::Conv(const ConvMapping &map, const KernelInputs &inputs)
    : context(inputs.context), dnn(inputs.libraries.getDnn()),
      handle(dnn.getHandle()), hasBias(map.hasBias),
      workspace(inputs.scratchpad) {
  try {
    makeCopies(map, inputs);
    describe(map);
  } catch (...) {
    destroy();
    throw;
  }
}

Conv::~Conv() { destroy(); }

void Conv::makeCopies(const ConvMapping &map, const KernelInputs &inputs) {
  const std::vector<int> *dims[] = {&map.src, &map.weights, &map.dst};
  ElementType types[] = {map.srcType, map.weightsType, map.dstType};
  bool isShort = true;
  for (ElementType each : types)
    isShort = isShort && each != ElementType::F32;
  if (isShort) {
    type =
        types[0] == ElementType::BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
    return;
  }
  for (size_t i = 0; i < 3; ++i) {
    if (types[i] == ElementType::F32)
      continue;
    int64_t count = 1;
    for (int dim : *dims[i])
      count *= dim;
    copies[i] = {createWiden(types[i], count, inputs), copyBytes};
    copyBytes += (uint64_t(count) * sizeof(float) + 255) / 256 * 256;
  }
  if (copyBytes > workspace.getBytes())
    throw Failure(Failure::Input, "the factors in f32 take " +
                                      std::to_string(copyBytes) +
                                      " bytes, but the scratchpad has only " +
                                      std::to_string(workspace.getBytes()));
}

void Conv::describe(const ConvMapping &map) {
  int rank = static_cast<int>(map.src.size());
  auto check = [&](cudnnStatus_t status) {
    if (status != CUDNN_STATUS_SUCCESS)
      throw Failure(Failure::Input,
                    std::string("cuDNN refuses these shapes: ") +
                        dnn.cudnnGetErrorString(status));
  };
  auto setTensor = [&](cudnnTensorDescriptor_t &tensor, const int *dims,
                       const int *strides) {
    check(dnn.cudnnCreateTensorDescriptor(&tensor));
    check(dnn.cudnnSetTensorNdDescriptor(tensor, type, rank, dims, strides));
  };
  setTensor(src, map.src.data(), map.srcStrides.data());
  setTensor(dst, map.dst.data(), map.dstStrides.data());
  if (map.hasBias) {
    std::vector<int> dims(rank, 1), strides(rank, 1);
    dims[1] = map.dst[1];
    strides[0] = map.dst[1];
    setTensor(bias, dims.data(), strides.data());
  }
  check(dnn.cudnnCreateFilterDescriptor(&weights));
  check(dnn.cudnnSetFilterNdDescriptor(weights, type, CUDNN_TENSOR_NCHW, rank,
                                       map.weights.data()));
  check(dnn.cudnnCreateConvolutionDescriptor(&operation));
  check(dnn.cudnnSetConvolutionNdDescriptor(
      operation, rank - 2, map.pad.data(), map.strides.data(),
      map.dilations.data(), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  check(dnn.cudnnSetConvolutionGroupCount(operation, map.groups));
  // The default rounds factors of f32 to TF32.
  isExact = type == CUDNN_DATA_FLOAT && copyBytes == 0 && !map.allowsTf32;
  cudnnMathType_t math = isExact                    ? CUDNN_FMA_MATH
                         : type == CUDNN_DATA_FLOAT ? CUDNN_DEFAULT_MATH
                                                    : CUDNN_TENSOR_OP_MATH;
  check(dnn.cudnnSetConvolutionMathType(operation, math));
}

void Conv::destroy() noexcept {
  for (cudnnTensorDescriptor_t tensor : {src, dst, bias})
    if (tensor)
      dnn.cudnnDestroyTensorDescriptor(tensor);
  if (weights)
    dnn.cudnnDestroyFilterDescriptor(weights);
  if (operation)
    dnn.cudnnDestroyConvolutionDescriptor(operation);
}

template <typename Performance, typename Ask, typename Measure>
auto Conv::choose(Ask ask, Measure measure) {
  Performance found[16];
  int count = 0;
  dnn.check(ask(16, &count, found), "cuDNN's choice of an algorithm");
  for (int i = 0; i < count; ++i) {
    size_t bytes = 0;
    if (found[i].status != CUDNN_STATUS_SUCCESS ||
        found[i].determinism != CUDNN_DETERMINISTIC)
      continue;
    // The estimate is for this math.
    if (!isExact && dnn.cudnnSetConvolutionMathType(
                        operation, found[i].mathType) != CUDNN_STATUS_SUCCESS)
      continue;
    if (measure(found[i].algo, &bytes) == CUDNN_STATUS_SUCCESS &&
        bytes <= getWorkspaceBytes())
      return found[i].algo;
  }
  throw Failure(Failure::Input,
                "cuDNN has no deterministic algorithm for these shapes in " +
                    std::to_string(getWorkspaceBytes()) +
                    " bytes of scratchpad");
}

std::array<void *, 3>
Conv::begin(CUstream stream, std::array<void *, 3> tensors, void *scratchpad) {
  context.enter();
  dnn.check(dnn.cudnnSetStream(handle, stream), "cudnnSetStream");
  for (size_t i = 0; i < 3; ++i) {
    if (!copies[i].widen)
      continue;
    void *wide =
        static_cast<char *>(workspace.in(scratchpad)) + copies[i].offset;
    void *pair[] = {tensors[i], wide};
    copies[i].widen->execute(stream, pair, nullptr);
    tensors[i] = wide;
  }
  return tensors;
}

namespace {

class ConvForward : public Conv {
public:
  ConvForward(const ConvMapping &map, const KernelInputs &inputs)
      : Conv(map, inputs) {
    algorithm = choose<cudnnConvolutionFwdAlgoPerf_t>(
        [&](int room, int *count, cudnnConvolutionFwdAlgoPerf_t *found) {
          return dnn.cudnnGetConvolutionForwardAlgorithm_v7(
              handle, src, weights, operation, dst, room, count, found);
        },
        [&](cudnnConvolutionFwdAlgo_t algo, size_t *bytes) {
          return dnn.cudnnGetConvolutionForwardWorkspaceSize(
              handle, src, weights, operation, dst, algo, bytes);
        });
  }

  void execute(CUstream stream, void *const *tensors,
               void *scratchpad) override {
    void *result = tensors[hasBias ? 3 : 2];
    auto [x, w, y] =
        begin(stream, {tensors[0], tensors[1], result}, scratchpad);
    finish(dnn.cudnnConvolutionForward(
        handle, &one, src, x, weights, w, operation, algorithm,
        getWorkspace(scratchpad), getWorkspaceBytes(), &zero, dst, y));
    if (hasBias)
      finish(dnn.cudnnAddTensor(handle, &one, bias, tensors[2], &one, dst,
                                result));
  }

private:
  cudnnConvolutionFwdAlgo_t algorithm;
};

/// Tensors: diff_dst, weights, diff_src.
class ConvBackwardData : public Conv {
public:
  ConvBackwardData(const ConvMapping &map, const KernelInputs &inputs)
      : Conv(map, inputs) {
    algorithm = choose<cudnnConvolutionBwdDataAlgoPerf_t>(
        [&](int room, int *count, cudnnConvolutionBwdDataAlgoPerf_t *found) {
          return dnn.cudnnGetConvolutionBackwardDataAlgorithm_v7(
              handle, weights, dst, operation, src, room, count, found);
        },
        [&](cudnnConvolutionBwdDataAlgo_t algo, size_t *bytes) {
          return dnn.cudnnGetConvolutionBackwardDataWorkspaceSize(
              handle, weights, dst, operation, src, algo, bytes);
        });
  }

  void execute(CUstream stream, void *const *tensors,
               void *scratchpad) override {
    auto [x, w, y] =
        begin(stream, {tensors[2], tensors[1], tensors[0]}, scratchpad);
    finish(dnn.cudnnConvolutionBackwardData(
        handle, &one, weights, w, dst, y, operation, algorithm,
        getWorkspace(scratchpad), getWorkspaceBytes(), &zero, src, x));
  }

private:
  cudnnConvolutionBwdDataAlgo_t algorithm;
};

/// Tensors: src, diff_dst, diff_weights.
class ConvBackwardWeights : public Conv {
public:
  ConvBackwardWeights(const ConvMapping &map, const KernelInputs &inputs)
      : Conv(map, inputs) {
    algorithm = choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
        [&](int room, int *count, cudnnConvolutionBwdFilterAlgoPerf_t *found) {
          return dnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
              handle, src, dst, operation, weights, room, count, found);
        },
        [&](cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes) {
          return dnn.cudnnGetConvolutionBackwardFilterWorkspaceSize(
              handle, src, dst, operation, weights, algo, bytes);
        });
  }

  void execute(CUstream stream, void *const *tensors,
               void *scratchpad) override {
    auto [x, w, y] =
        begin(stream, {tensors[0], tensors[2], tensors[1]}, scratchpad);
    finish(dnn.cudnnConvolutionBackwardFilter(
        handle, &one, src, x, dst, y, operation, algorithm,
        getWorkspace(scratchpad), getWorkspaceBytes(), &zero, weights, w));
  }

private:
  cudnnConvolutionBwdFilterAlgo_t algorithm;
};

} // namespace

std::unique_ptr<Kernel> pp::cuda::createConv(Descriptor &descriptor,
                                             const KernelInputs &inputs) {
  ConvMapping map = mapConv(descriptor);
  descriptor.checkAllUsed();
  if (descriptor.getKind() == "conv_forward")
    return std::make_unique<ConvForward>(map, inputs);
  if (descriptor.getKind() == "conv_backward_data")
    return std::make_unique<ConvBackwardData>(map, inputs);
  return std::make_unique<ConvBackwardWeights>(map, inputs);
}
