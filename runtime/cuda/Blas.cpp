//===- Blas.cpp -----------------------------------------------------------===//
#include "Blas.h"
#include "Failure.h"

using namespace pp::cuda;

Blas::Blas()
    : library("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR),
              "the model has matrix products: it") {
#define PP_LOAD(name)                                                          \
  name = reinterpret_cast<decltype(name)>(library.getSymbol(#name));
  PP_BLAS_FUNCTIONS(PP_LOAD)
#undef PP_LOAD
  check(this->cublasLtCreate(&handle), "cublasLtCreate");
}

Blas::~Blas() { this->cublasLtDestroy(handle); }

void Blas::check(cublasStatus_t status, const char *what) const {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Failure(Failure::Internal, std::string(what) + ": " +
                                         this->cublasLtGetStatusString(status));
}
