//===- FakeDnn.cpp - libcudnn on host memory ------------------------------===//
//
// What the plugin uses of it, by its documentation, for dense tensors. Refuses
// tensors of different types, shapes that do not fit, and a workspace that is
// too small or not aligned. Factors of f32 are rounded to TF32 unless the math
// is CUDNN_FMA_MATH.
//
//===----------------------------------------------------------------------===//
#include "FakeNumbers.h"

#define NV_CUDNN_DISABLE_WARNINGS
#include <cudnn.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace {

using fakenumbers::Type;

struct Tensor { // also of weights
  Type type;
  std::vector<int> dims;
};
struct Convolution {
  std::vector<int> pad, strides, dilations;
  int groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

Tensor *get(cudnnTensorDescriptor_t it) {
  return reinterpret_cast<Tensor *>(it);
}
Tensor *get(cudnnFilterDescriptor_t it) {
  return reinterpret_cast<Tensor *>(it);
}
Convolution *get(cudnnConvolutionDescriptor_t it) {
  return reinterpret_cast<Convolution *>(it);
}

cudnnStatus_t fill(Tensor &tensor, cudnnDataType_t type, int rank,
                   const int *dims) {
  if (type != CUDNN_DATA_FLOAT && type != CUDNN_DATA_BFLOAT16 &&
      type != CUDNN_DATA_HALF)
    return CUDNN_STATUS_NOT_SUPPORTED;
  tensor.type = type == CUDNN_DATA_FLOAT      ? Type::F32
                : type == CUDNN_DATA_BFLOAT16 ? Type::BF16
                                              : Type::F16;
  tensor.dims.assign(dims, dims + rank);
  return CUDNN_STATUS_SUCCESS;
}

constexpr size_t workspaceBytes = 512;

/// Calls body(place in src, in weights, in dst) for each product.
void forEachProduct(
    const Tensor &src, const Tensor &weights, const Tensor &dst,
    const Convolution &op,
    const std::function<void(int64_t, int64_t, int64_t)> &body) {
  const auto &s = src.dims, &w = weights.dims, &d = dst.dims;
  for (int n = 0; n < d[0]; ++n)
    for (int o = 0; o < d[1]; ++o)
      for (int y = 0; y < d[2]; ++y)
        for (int x = 0; x < d[3]; ++x)
          for (int c = 0; c < w[1]; ++c)
            for (int ky = 0; ky < w[2]; ++ky)
              for (int kx = 0; kx < w[3]; ++kx) {
                int sy = y * op.strides[0] - op.pad[0] + ky * op.dilations[0];
                int sx = x * op.strides[1] - op.pad[1] + kx * op.dilations[1];
                if (sy < 0 || sx < 0 || sy >= s[2] || sx >= s[3])
                  continue;
                int channel = o / (d[1] / op.groups) * w[1] + c;
                body(((int64_t(n) * s[1] + channel) * s[2] + sy) * s[3] + sx,
                     ((int64_t(o) * w[1] + c) * w[2] + ky) * w[3] + kx,
                     ((int64_t(n) * d[1] + o) * d[2] + y) * d[3] + x);
              }
}

enum Result { Src, Weights, Dst };

cudnnStatus_t run(const Tensor &src, const Tensor &weights, const Tensor &dst,
                  const Convolution &op, const void *x, const void *y,
                  void *out, Result result, void *workspace, size_t bytes,
                  const void *alpha, const void *beta) {
  if (src.type != weights.type || src.type != dst.type)
    return CUDNN_STATUS_NOT_SUPPORTED;
  if (*static_cast<const float *>(alpha) != 1 ||
      *static_cast<const float *>(beta) != 0 || bytes < workspaceBytes ||
      reinterpret_cast<uintptr_t>(workspace) % 256 != 0 ||
      src.dims.size() != 4 || src.dims[0] != dst.dims[0] ||
      weights.dims[0] != dst.dims[1] ||
      weights.dims[1] * op.groups != src.dims[1])
    return CUDNN_STATUS_BAD_PARAM;
  std::fill_n(static_cast<char *>(workspace), bytes, char(0xff));
  const Tensor &target = result == Src       ? src
                         : result == Weights ? weights
                                             : dst;
  int64_t count = 1;
  for (int dim : target.dims)
    count *= dim;
  std::vector<float> sums(count);
  auto factor = [&](const void *data, int64_t at) {
    float value = fakenumbers::load(data, src.type, at);
    return src.type == Type::F32 && op.math != CUDNN_FMA_MATH
               ? fakenumbers::toTf32(value)
               : value;
  };
  forEachProduct(src, weights, dst, op, [&](int64_t s, int64_t w, int64_t d) {
    if (result == Src)
      sums[s] += factor(x, w) * factor(y, d);
    else if (result == Weights)
      sums[w] += factor(x, s) * factor(y, d);
    else
      sums[d] += factor(x, s) * factor(y, w);
  });
  for (int64_t i = 0; i < count; ++i)
    fakenumbers::store(out, target.type, i, sums[i]);
  return CUDNN_STATUS_SUCCESS;
}

/// An algorithm that is not deterministic, then one that is.
template <typename Performance>
cudnnStatus_t choose(const Convolution &op, int room, int *count,
                     Performance *found) {
  *count = std::min(room, 2);
  for (int i = 0; i < *count; ++i) {
    found[i] = {};
    found[i].algo = decltype(found[i].algo)(i);
    found[i].status = CUDNN_STATUS_SUCCESS;
    found[i].determinism =
        i == 0 ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;
    found[i].memory = workspaceBytes;
    found[i].mathType = op.math;
  }
  return CUDNN_STATUS_SUCCESS;
}

} // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  static int token;
  *handle = reinterpret_cast<cudnnHandle_t>(&token);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }
static thread_local cudaStream_t current;
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t stream) {
  current = stream;
  return stream ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t, cudaStream_t *stream) {
  *stream = current;
  return CUDNN_STATUS_SUCCESS;
}
const char *cudnnGetErrorString(cudnnStatus_t) { return "a fake status"; }

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *it) {
  *it = reinterpret_cast<cudnnTensorDescriptor_t>(new Tensor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t it) {
  delete get(it);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t it,
                                         cudnnDataType_t type, int rank,
                                         const int dims[], const int[]) {
  return fill(*get(it), type, rank, dims);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *it) {
  *it = reinterpret_cast<cudnnFilterDescriptor_t>(new Tensor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t it) {
  delete get(it);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t it,
                                         cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int rank,
                                         const int dims[]) {
  return format == CUDNN_TENSOR_NCHW ? fill(*get(it), type, rank, dims)
                                     : CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t
cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *it) {
  *it = reinterpret_cast<cudnnConvolutionDescriptor_t>(new Convolution);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t
cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t it) {
  delete get(it);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t it,
                                              int rank, const int pad[],
                                              const int strides[],
                                              const int dilations[],
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (mode != CUDNN_CROSS_CORRELATION || compute != CUDNN_DATA_FLOAT)
    return CUDNN_STATUS_NOT_SUPPORTED;
  get(it)->pad.assign(pad, pad + rank);
  get(it)->strides.assign(strides, strides + rank);
  get(it)->dilations.assign(dilations, dilations + rank);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t it,
                                            int groups) {
  get(it)->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t it,
                                          cudnnMathType_t math) {
  get(it)->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
    cudnnConvolutionDescriptor_t op, cudnnTensorDescriptor_t, int room,
    int *count, cudnnConvolutionFwdAlgoPerf_t *found) {
  return choose(*get(op), room, count, found);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
    cudnnConvolutionDescriptor_t op, cudnnTensorDescriptor_t, int room,
    int *count, cudnnConvolutionBwdDataAlgoPerf_t *found) {
  return choose(*get(op), room, count, found);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnConvolutionDescriptor_t op, cudnnFilterDescriptor_t, int room,
    int *count, cudnnConvolutionBwdFilterAlgoPerf_t *found) {
  return choose(*get(op), room, count, found);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
    cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
    cudnnConvolutionFwdAlgo_t, size_t *bytes) {
  *bytes = workspaceBytes;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
    cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
    cudnnConvolutionBwdDataAlgo_t, size_t *bytes) {
  *bytes = workspaceBytes;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t,
    cudnnConvolutionBwdFilterAlgo_t, size_t *bytes) {
  *bytes = workspaceBytes;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(
    cudnnHandle_t, const void *alpha, cudnnTensorDescriptor_t src,
    const void *x, cudnnFilterDescriptor_t weights, const void *w,
    cudnnConvolutionDescriptor_t op, cudnnConvolutionFwdAlgo_t, void *workspace,
    size_t bytes, const void *beta, cudnnTensorDescriptor_t dst, void *out) {
  return run(*get(src), *get(weights), *get(dst), *get(op), x, w, out, Dst,
             workspace, bytes, alpha, beta);
}
cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t, const void *alpha, cudnnFilterDescriptor_t weights,
    const void *w, cudnnTensorDescriptor_t dst, const void *dy,
    cudnnConvolutionDescriptor_t op, cudnnConvolutionBwdDataAlgo_t,
    void *workspace, size_t bytes, const void *beta,
    cudnnTensorDescriptor_t src, void *out) {
  return run(*get(src), *get(weights), *get(dst), *get(op), w, dy, out, Src,
             workspace, bytes, alpha, beta);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t, const void *alpha, cudnnTensorDescriptor_t src,
    const void *x, cudnnTensorDescriptor_t dst, const void *dy,
    cudnnConvolutionDescriptor_t op, cudnnConvolutionBwdFilterAlgo_t,
    void *workspace, size_t bytes, const void *beta,
    cudnnFilterDescriptor_t weights, void *out) {
  return run(*get(src), *get(weights), *get(dst), *get(op), x, dy, out, Weights,
             workspace, bytes, alpha, beta);
}

cudnnStatus_t cudnnAddTensor(cudnnHandle_t, const void *,
                             cudnnTensorDescriptor_t bias, const void *add,
                             const void *, cudnnTensorDescriptor_t dst,
                             void *out) {
  const Tensor &to = *get(dst);
  if (to.type != get(bias)->type)
    return CUDNN_STATUS_NOT_SUPPORTED;
  int64_t area = 1, count = 1;
  for (size_t i = 0; i < to.dims.size(); ++i) {
    count *= to.dims[i];
    area *= i < 2 ? 1 : to.dims[i];
  }
  for (int64_t i = 0; i < count; ++i)
    fakenumbers::store(
        out, to.type, i,
        fakenumbers::load(out, to.type, i) +
            fakenumbers::load(add, to.type, i / area % to.dims[1]));
  return CUDNN_STATUS_SUCCESS;
}

} // extern "C"
