//===- Blas.h - The functions of cuBLASLt ---------------------------------===//
#ifndef PP_RUNTIME_CUDA_BLAS_H
#define PP_RUNTIME_CUDA_BLAS_H

#include "SharedLibrary.h"

#include <cublasLt.h>

#define PP_BLAS_FUNCTIONS(X)                                                   \
  X(cublasLtCreate)                                                            \
  X(cublasLtDestroy)                                                           \
  X(cublasLtGetStatusString)                                                   \
  X(cublasLtMatmul)                                                            \
  X(cublasLtMatmulAlgoGetHeuristic)                                            \
  X(cublasLtMatmulDescCreate)                                                  \
  X(cublasLtMatmulDescDestroy)                                                 \
  X(cublasLtMatmulDescSetAttribute)                                            \
  X(cublasLtMatmulPreferenceCreate)                                            \
  X(cublasLtMatmulPreferenceDestroy)                                           \
  X(cublasLtMatmulPreferenceSetAttribute)                                      \
  X(cublasLtMatrixLayoutCreate)                                                \
  X(cublasLtMatrixLayoutDestroy)                                               \
  X(cublasLtMatrixLayoutSetAttribute)

namespace pp::cuda {

/// The library and a handle for the current context, which any thread may use.
class Blas {
public:
  Blas();
  ~Blas();
  Blas(const Blas &) = delete;
  Blas &operator=(const Blas &) = delete;

// A declaration takes no parentheses:
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define PP_DECLARE(name) decltype(&::name) name;
  PP_BLAS_FUNCTIONS(PP_DECLARE)
#undef PP_DECLARE

  cublasLtHandle_t getHandle() const { return handle; }
  /// Throws Failure(Internal).
  void check(cublasStatus_t status, const char *what) const;

private:
  SharedLibrary library;
  cublasLtHandle_t handle = nullptr;
};

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_BLAS_H
