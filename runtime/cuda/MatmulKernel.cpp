//===- MatmulKernel.cpp - `matmul` ----------------------------------------===//
#include "Blas.h"
#include "CudaKernel.h"
#include "Libraries.h"
#include "MatmulMapping.h"
#include "Workspace.h"

#include <algorithm>

using namespace pp;
using namespace pp::cuda;

namespace {

class MatmulKernel : public Kernel {
public:
  MatmulKernel(const MatmulMapping &map, const KernelInputs &inputs)
      : map(map), context(inputs.context), blas(inputs.libraries.getBlas()),
        workspace(inputs.scratchpad) {
    try {
      describe();
      chooseAlgorithm();
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~MatmulKernel() override { destroy(); }
  MatmulKernel(const MatmulKernel &) = delete;
  MatmulKernel &operator=(const MatmulKernel &) = delete;

  void execute(CUstream stream, void *const *tensors,
               void *scratchpad) override {
    context.enter();
    void *xs = tensors[map.isSwapped ? 1 : 0];
    void *ys = tensors[map.isSwapped ? 0 : 1];
    void *const *results = tensors + (map.epilogue.hasBias ? 3 : 2);
    if (map.epilogue.hasBias)
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, tensors[2]);
    if (map.epilogue.hasAuxiliary)
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, *results++);
    const float one = 1, zero = 0;
    for (const auto &at : map.outer) {
      void *result = place(*results, map.d, at.d);
      blas.check(blas.cublasLtMatmul(
                     blas.getHandle(), operation, &one, place(xs, map.x, at.x),
                     x, place(ys, map.y, at.y), y, &zero, result, d, result, d,
                     &algorithm, workspace.in(scratchpad), workspace.getBytes(),
                     stream),
                 "cublasLtMatmul");
    }
  }

private:
  static void *place(void *tensor, const ColumnMajor &matrix, int64_t offset) {
    return static_cast<char *>(tensor) + offset * bytesOf(matrix.type);
  }
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    blas.check(blas.cublasLtMatmulDescSetAttribute(
                   operation, attribute, static_cast<const void *>(&value),
                   sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
  }
  void describe();
  void describeEpilogue();
  void chooseAlgorithm();
  cublasLtMatrixLayout_t makeLayout(const ColumnMajor &matrix);
  void destroy() noexcept;

  MatmulMapping map;
  Context &context;
  Blas &blas;
  Workspace workspace;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t x = nullptr, y = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

} // namespace

static cudaDataType getType(ElementType type) {
  return type == ElementType::BF16  ? CUDA_R_16BF
         : type == ElementType::F16 ? CUDA_R_16F
                                    : CUDA_R_32F;
}

cublasLtMatrixLayout_t MatmulKernel::makeLayout(const ColumnMajor &matrix) {
  cublasLtMatrixLayout_t layout = nullptr;
  blas.check(blas.cublasLtMatrixLayoutCreate(&layout, getType(matrix.type),
                                             matrix.rows, matrix.columns,
                                             matrix.leading),
             "cublasLtMatrixLayoutCreate");
  auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    cublasStatus_t status = blas.cublasLtMatrixLayoutSetAttribute(
        layout, attribute, &value, sizeof(value));
    if (status != CUBLAS_STATUS_SUCCESS)
      blas.cublasLtMatrixLayoutDestroy(layout);
    blas.check(status, "cublasLtMatrixLayoutSetAttribute");
  };
  if (map.batch > 1) {
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(map.batch));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batchStride);
  }
  return layout;
}

void MatmulKernel::describe() {
  // Sums are in f32 for all types. Without the other type, factors of f32 stay
  // what they are.
  cublasComputeType_t compute =
      map.allowsTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  blas.check(blas.cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F),
             "cublasLtMatmulDescCreate");
  auto transpose = [](const ColumnMajor &matrix) {
    return matrix.isTransposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, transpose(map.x));
  set(CUBLASLT_MATMUL_DESC_TRANSB, transpose(map.y));
  if (map.epilogue.hasBias)
    describeEpilogue();
  x = makeLayout(map.x);
  y = makeLayout(map.y);
  d = makeLayout(map.d);
}

void MatmulKernel::describeEpilogue() {
  using runtime::MatmulEpilogue;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  if (map.epilogue.activation == MatmulEpilogue::Relu)
    epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
  else if (map.epilogue.activation == MatmulEpilogue::Gelu)
    epilogue = map.epilogue.hasAuxiliary ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                                         : CUBLASLT_EPILOGUE_GELU_BIAS;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue));
  // The bias and the auxiliary result have d's type, which is the default. The
  // choice of an algorithm looks at how their addresses are aligned, which is
  // as all tensors of a plan are.
  constexpr uintptr_t alignment = 64;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  void *anywhere = reinterpret_cast<void *>(alignment);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, anywhere);
  if (!map.epilogue.hasAuxiliary)
    return;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, anywhere);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, map.d.leading);
}

void MatmulKernel::chooseAlgorithm() {
  cublasLtMatmulPreference_t preference = nullptr;
  blas.check(blas.cublasLtMatmulPreferenceCreate(&preference),
             "cublasLtMatmulPreferenceCreate");
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    if (status == CUBLAS_STATUS_SUCCESS)
      status = blas.cublasLtMatmulPreferenceSetAttribute(preference, attribute,
                                                         &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace.getBytes());
  // Parts of a sum are added in a step of their own, in a fixed order.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
      static_cast<uint32_t>(map.x.alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      static_cast<uint32_t>(map.y.alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      static_cast<uint32_t>(map.d.alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
      static_cast<uint32_t>(map.d.alignment));
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  if (status == CUBLAS_STATUS_SUCCESS)
    status = blas.cublasLtMatmulAlgoGetHeuristic(blas.getHandle(), operation, x,
                                                 y, d, d, preference, 1,
                                                 &result, &count);
  blas.cublasLtMatmulPreferenceDestroy(preference);
  if (status == CUBLAS_STATUS_SUCCESS && count > 0)
    status = result.state;
  if (status != CUBLAS_STATUS_SUCCESS || count == 0)
    throw Failure(
        Failure::Input,
        std::string("cuBLASLt has no algorithm for these shapes in ") +
            std::to_string(workspace.getBytes()) + " bytes of scratchpad (" +
            blas.cublasLtGetStatusString(status) + ")");
  algorithm = result.algo;
}

void MatmulKernel::destroy() noexcept {
  for (cublasLtMatrixLayout_t layout : {x, y, d})
    if (layout)
      blas.cublasLtMatrixLayoutDestroy(layout);
  if (operation)
    blas.cublasLtMatmulDescDestroy(operation);
}

std::unique_ptr<Kernel> pp::cuda::createMatmul(Descriptor &descriptor,
                                               const KernelInputs &inputs) {
  MatmulMapping map = mapMatmul(descriptor);
  if (map.batch > INT32_MAX)
    throw Failure(Failure::Input, "the batch is too large");
  descriptor.checkAllUsed();
  inputs.context.enter();
  return std::make_unique<MatmulKernel>(map, inputs);
}
