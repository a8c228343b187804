//===- Libraries.cpp ------------------------------------------------------===//
#include "Libraries.h"
#include "Blas.h"
#include "Dnn.h"
#include "Nccl.h"

using namespace pp::cuda;

Libraries::Libraries(Context &context) : context(context) {}
Libraries::~Libraries() = default;

Blas &Libraries::getBlas() {
  std::lock_guard<std::mutex> lock(mutex);
  context.enter();
  if (!blas)
    blas = std::make_unique<Blas>();
  return *blas;
}

Dnn &Libraries::getDnn() {
  std::lock_guard<std::mutex> lock(mutex);
  if (!dnn)
    dnn = std::make_unique<Dnn>(context);
  return *dnn;
}

Nccl &Libraries::getNccl() {
  std::lock_guard<std::mutex> lock(mutex);
  context.enter();
  if (!nccl)
    nccl = std::make_unique<Nccl>();
  return *nccl;
}

Module &Libraries::getKernels() {
  std::lock_guard<std::mutex> lock(mutex);
  if (!kernels)
    kernels = std::make_unique<Module>(
        context, compileDeviceKernels(context.getArchitecture()));
  return *kernels;
}
