//===- Dnn.cpp ------------------------------------------------------------===//
#include "Dnn.h"

using namespace pp::cuda;

Dnn::Dnn(Context &context)
    : context(context), library("libcudnn.so." + std::to_string(CUDNN_MAJOR),
                                "the model has convolutions or attention: it") {
#define PP_LOAD(name)                                                          \
  name = reinterpret_cast<decltype(name)>(library.getSymbol(#name));
  PP_DNN_FUNCTIONS(PP_LOAD)
#undef PP_LOAD
}

Dnn::~Dnn() {
  if (context.tryEnter())
    for (const auto &[thread, handle] : handles)
      this->cudnnDestroy(handle);
}

cudnnHandle_t Dnn::getHandle() {
  context.enter();
  std::lock_guard<std::mutex> lock(mutex);
  cudnnHandle_t &handle = handles[std::this_thread::get_id()];
  if (!handle)
    check(this->cudnnCreate(&handle), "cudnnCreate");
  return handle;
}

void Dnn::check(cudnnStatus_t status, const char *what) const {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Failure(Failure::Internal,
                  std::string(what) + ": " + this->cudnnGetErrorString(status));
}
