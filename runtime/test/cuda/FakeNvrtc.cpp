//===- FakeNvrtc.cpp - libnvrtc beside the fake driver --------------------===//
//
// The real one looks for a driver and does not survive the fake one. This one's
// "PTX" is the source, in which the fake driver finds the kernels' names.
//
//===----------------------------------------------------------------------===//
#include <nvrtc.h>

#include <cstring>
#include <string>

static std::string &textOf(nvrtcProgram program) {
  return *reinterpret_cast<std::string *>(program);
}

extern "C" {

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source,
                               const char *, int, const char *const *,
                               const char *const *) {
  *program = reinterpret_cast<nvrtcProgram>(new std::string(source));
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int count,
                                const char *const *options) {
  for (int i = 0; i < count; ++i)
    if (std::strcmp(options[i], "--gpu-architecture=compute_90") == 0)
      return NVRTC_SUCCESS;
  return NVRTC_ERROR_INVALID_OPTION;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  delete &textOf(*program);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *size) {
  *size = textOf(program).size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *text) {
  std::strcpy(text, textOf(program).c_str());
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t *size) {
  *size = 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char *log) {
  *log = 0;
  return NVRTC_SUCCESS;
}
const char *nvrtcGetErrorString(nvrtcResult) { return "a fake error"; }

} // extern "C"
