//===- ConvKernel.cpp - `conv_*` ------------------------------------------===//
#include "ConvMapping.h"
#include "Dnn.h"
#include "Kernel.h"
#include "Libraries.h"
#include "Workspace.h"

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
  void begin(CUstream stream);
  void finish(cudnnStatus_t status) { dnn.check(status, "cuDNN"); }

  Context &context;
  Dnn &dnn;
  cudnnHandle_t handle;
  Workspace workspace;
  bool hasBias;
  cudnnTensorDescriptor_t src = nullptr, dst = nullptr, bias = nullptr;
  cudnnFilterDescriptor_t weights = nullptr;
  cudnnConvolutionDescriptor_t operation = nullptr;
  const float one = 1, zero = 0;

private:
  void describe(const ConvMapping &map);
  void destroy() noexcept;
};

} // namespace

Conv::Conv(const ConvMapping &map, const KernelInputs &inputs)
    : context(inputs.context), dnn(inputs.libraries.getDnn()),
      handle(dnn.getHandle()), workspace(inputs.scratchpad),
      hasBias(map.hasBias) {
  try {
    describe(map);
  } catch (...) {
    destroy();
    throw;
  }
}

Conv::~Conv() { destroy(); }

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
    check(dnn.cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, rank, dims,
                                         strides));
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
  check(dnn.cudnnSetFilterNdDescriptor(
      weights, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, rank, map.weights.data()));
  check(dnn.cudnnCreateConvolutionDescriptor(&operation));
  check(dnn.cudnnSetConvolutionNdDescriptor(
      operation, rank - 2, map.pad.data(), map.strides.data(),
      map.dilations.data(), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  check(dnn.cudnnSetConvolutionGroupCount(operation, map.groups));
  // The default would use TF32.
  check(dnn.cudnnSetConvolutionMathType(operation, CUDNN_FMA_MATH));
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
    if (found[i].status == CUDNN_STATUS_SUCCESS &&
        found[i].determinism == CUDNN_DETERMINISTIC &&
        measure(found[i].algo, &bytes) == CUDNN_STATUS_SUCCESS &&
        bytes <= workspace.getBytes())
      return found[i].algo;
  }
  throw Failure(Failure::Input,
                "cuDNN has no deterministic algorithm for these shapes in " +
                    std::to_string(workspace.getBytes()) +
                    " bytes of scratchpad");
}

void Conv::begin(CUstream stream) {
  context.enter();
  dnn.check(dnn.cudnnSetStream(handle, stream), "cudnnSetStream");
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
    begin(stream);
    void *result = tensors[hasBias ? 3 : 2];
    finish(dnn.cudnnConvolutionForward(
        handle, &one, src, tensors[0], weights, tensors[1], operation,
        algorithm, workspace.in(scratchpad), workspace.getBytes(), &zero, dst,
        result));
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
    begin(stream);
    finish(dnn.cudnnConvolutionBackwardData(
        handle, &one, weights, tensors[1], dst, tensors[0], operation,
        algorithm, workspace.in(scratchpad), workspace.getBytes(), &zero, src,
        tensors[2]));
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
    begin(stream);
    finish(dnn.cudnnConvolutionBackwardFilter(
        handle, &one, src, tensors[0], dst, tensors[1], operation, algorithm,
        workspace.in(scratchpad), workspace.getBytes(), &zero, weights,
        tensors[2]));
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
