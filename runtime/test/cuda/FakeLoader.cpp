//===- FakeLoader.cpp - A libcuda.so.1 that takes any code ----------------===//
//
// What cuDNN looks up in the driver to build a plan: it compiles a kernel and
// loads it. Nothing runs. Results of the real functions are enums, 0 for
// success.
//
//===----------------------------------------------------------------------===//
static int token;

extern "C" {

int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}
int cuGetErrorString(int, const char **text) {
  *text = "a fake error";
  return 0;
}
int cuGetErrorName(int, const char **text) {
  *text = "FAKE_ERROR";
  return 0;
}
int cuLibraryLoadData(void **library) {
  *library = &token;
  return 0;
}
int cuLibraryUnload(void *) { return 0; }
int cuLibraryGetKernel(void **kernel, void *, const char *) {
  *kernel = &token;
  return 0;
}
int cuKernelGetFunction(void **function, void *) {
  *function = &token;
  return 0;
}
int cuKernelGetAttribute(int *value) {
  *value = 0;
  return 0;
}
int cuKernelSetAttribute() { return 0; }
int cuFuncSetAttribute() { return 0; }

// What has to be there, but is not called: "no device".
#define PP_UNUSED(name)                                                        \
  int name() { return 100; }
PP_UNUSED(cuCtxGetCurrent)
PP_UNUSED(cuCtxGetLimit)
PP_UNUSED(cuCtxPopCurrent)
PP_UNUSED(cuCtxPushCurrent)
PP_UNUSED(cuDeviceGet)
PP_UNUSED(cuDeviceGetCount)
PP_UNUSED(cuInit)
PP_UNUSED(cuLaunchCooperativeKernel)
PP_UNUSED(cuLaunchKernel)
PP_UNUSED(cuLaunchKernelEx)
PP_UNUSED(cuLibraryLoadFromFile)
PP_UNUSED(cuLinkAddData)
PP_UNUSED(cuLinkComplete)
PP_UNUSED(cuLinkCreate)
PP_UNUSED(cuLinkDestroy)
PP_UNUSED(cuOccupancyMaxPotentialClusterSize)
PP_UNUSED(cuStreamGetCtx)

} // extern "C"
