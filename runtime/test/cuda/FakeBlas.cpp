//===- FakeBlas.cpp - libcublasLt on host memory --------------------------===//
//
// What the plugin uses of it, by its documentation. Refuses layouts that do not
// fit the product, types that cannot be combined, a workspace that is not
// aligned, and attributes of another size. Factors are rounded to TF32 where
// that was allowed.
//
//===----------------------------------------------------------------------===//
#include "FakeNumbers.h"

#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

namespace {

using fakenumbers::Type;

struct Layout {
  Type type;
  int64_t rows, columns, leading;
  int32_t batch = 1;
  int64_t stride = 0;
};
struct Description {
  cublasComputeType_t compute;
  cublasOperation_t x = CUBLAS_OP_N, y = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *auxiliary = nullptr;
  int64_t auxiliaryLeading = 0;
};

Layout *get(cublasLtMatrixLayout_t layout) {
  return reinterpret_cast<Layout *>(layout);
}
Description *get(cublasLtMatmulDesc_t description) {
  return reinterpret_cast<Description *>(description);
}

template <typename T>
cublasStatus_t set(T &to, const void *value, size_t size) {
  if (size != sizeof(T))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(static_cast<void *>(&to), value, size);
  return CUBLAS_STATUS_SUCCESS;
}

bool fits(const Description &d, const Layout &x, const Layout &y,
          const Layout &out) {
  int64_t rows = d.x == CUBLAS_OP_N ? x.rows : x.columns;
  int64_t depth = d.x == CUBLAS_OP_N ? x.columns : x.rows;
  int64_t otherDepth = d.y == CUBLAS_OP_N ? y.rows : y.columns;
  int64_t columns = d.y == CUBLAS_OP_N ? y.columns : y.rows;
  return rows == out.rows && columns == out.columns && depth == otherDepth &&
         x.leading >= x.rows && y.leading >= y.rows &&
         out.leading >= out.rows && x.batch == y.batch &&
         x.batch == out.batch && x.type == y.type &&
         (out.type == x.type || out.type == Type::F32) &&
         (d.compute == CUBLAS_COMPUTE_32F || x.type == Type::F32);
}

bool hasAuxiliary(const Description &d) { return d.epilogue & 128; }

/// The pointers that the epilogue needs, and no others; aligned as the plan's
/// tensors are.
bool hasPointers(const Description &d, const Layout &out) {
  uint32_t known[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                      CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS,
                      CUBLASLT_EPILOGUE_GELU_AUX_BIAS};
  auto isAligned = [](const void *pointer) {
    return pointer && reinterpret_cast<uintptr_t>(pointer) % 64 == 0;
  };
  if (std::find(std::begin(known), std::end(known), d.epilogue) ==
      std::end(known))
    return false;
  if (d.epilogue == CUBLASLT_EPILOGUE_DEFAULT)
    return !d.bias && !d.auxiliary;
  if (!isAligned(d.bias) || out.batch != 1)
    return false;
  if (!hasAuxiliary(d))
    return !d.auxiliary;
  return isAligned(d.auxiliary) && d.auxiliaryLeading % 8 == 0 &&
         d.auxiliaryLeading >= out.rows;
}

float activate(const Description &d, float value) {
  if (d.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
    return std::max(value, 0.0f);
  if (!(d.epilogue & CUBLASLT_EPILOGUE_GELU))
    return value;
  float inner = 0.7978845608f * (value + 0.044715f * value * value * value);
  return 0.5f * value * (1 + std::tanh(inner));
}

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  static int token;
  *handle = reinterpret_cast<cublasLtHandle_t>(&token);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}
const char *cublasLtGetStatusString(cublasStatus_t) { return "a fake status"; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  if (type != CUDA_R_32F && type != CUDA_R_16BF && type != CUDA_R_16F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  Type own = type == CUDA_R_32F    ? Type::F32
             : type == CUDA_R_16BF ? Type::BF16
                                   : Type::F16;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{own, int64_t(rows), int64_t(columns), leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete get(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t size) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    return set(get(layout)->batch, value, size);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return set(get(layout)->stride, value, size);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description,
                                        cublasComputeType_t compute,
                                        cudaDataType scale) {
  if ((compute != CUBLAS_COMPUTE_32F &&
       compute != CUBLAS_COMPUTE_32F_FAST_TF32) ||
      scale != CUDA_R_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *description =
      reinterpret_cast<cublasLtMatmulDesc_t>(new Description{compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete get(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t size) {
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
    return set(get(description)->x, value, size);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
    return set(get(description)->y, value, size);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE)
    return set(get(description)->epilogue, value, size);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
    return set(get(description)->bias, value, size);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)
    return set(get(description)->auxiliary, value, size);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)
    return set(get(description)->auxiliaryLeading, value, size);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<int *>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t attribute,
    const void *, size_t size) {
  size_t wanted = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4;
  return size == wanted ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t description,
    cublasLtMatrixLayout_t x, cublasLtMatrixLayout_t y, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t out, cublasLtMatmulPreference_t, int,
    cublasLtMatmulHeuristicResult_t *result, int *count) {
  *count = 1;
  result->state = CUBLAS_STATUS_SUCCESS;
  return fits(*get(description), *get(x), *get(y), *get(out)) &&
                 hasPointers(*get(description), *get(out))
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t,
                              cublasLtMatmulDesc_t description,
                              const void *alpha, const void *x,
                              cublasLtMatrixLayout_t xLayout, const void *y,
                              cublasLtMatrixLayout_t yLayout, const void *beta,
                              const void *, cublasLtMatrixLayout_t, void *out,
                              cublasLtMatrixLayout_t outLayout,
                              const cublasLtMatmulAlgo_t *algorithm,
                              void *workspace, size_t, cudaStream_t stream) {
  const Description &d = *get(description);
  const Layout &xl = *get(xLayout), &yl = *get(yLayout), &ol = *get(outLayout);
  if (*static_cast<const float *>(alpha) != 1 ||
      *static_cast<const float *>(beta) != 0 || !algorithm || !stream ||
      reinterpret_cast<uintptr_t>(workspace) % 256 != 0 ||
      !fits(d, xl, yl, ol) || !hasPointers(d, ol))
    return CUBLAS_STATUS_INVALID_VALUE;
  auto at = [&](const void *data, const Layout &layout, cublasOperation_t op,
                int64_t batch, int64_t row, int64_t column) {
    int64_t offset = op == CUBLAS_OP_N ? row + column * layout.leading
                                       : column + row * layout.leading;
    float value =
        fakenumbers::load(data, layout.type, batch * layout.stride + offset);
    return d.compute == CUBLAS_COMPUTE_32F ? value : fakenumbers::toTf32(value);
  };
  int64_t depth = d.x == CUBLAS_OP_N ? xl.columns : xl.rows;
  for (int64_t b = 0; b < ol.batch; ++b)
    for (int64_t i = 0; i < ol.rows; ++i)
      for (int64_t j = 0; j < ol.columns; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += at(x, xl, d.x, b, i, k) * at(y, yl, d.y, b, k, j);
        if (d.bias)
          sum += fakenumbers::load(d.bias, ol.type, i);
        if (hasAuxiliary(d))
          fakenumbers::store(d.auxiliary, ol.type, i + j * d.auxiliaryLeading,
                             sum);
        fakenumbers::store(out, ol.type, b * ol.stride + i + j * ol.leading,
                           activate(d, sum));
      }
  return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
