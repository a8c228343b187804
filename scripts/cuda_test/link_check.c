/* Sends a value from a GPU to itself through NCCL, by the plugin:
 *
 *   link_check libpp_cuda.so [NUMBER OF THE GPU]
 *
 * Exits with 0, or prints why not. */
#include "pprt/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  pp_device_error error = {0, ""};
  pp_device *device = NULL;
  pp_device_plugin_function function = NULL;
  if (argc < 2) {
    fprintf(stderr, "link_check libpp_cuda.so [NUMBER]\n");
    return 2;
  }
  void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin)
    *(void **)&function = dlsym(plugin, PP_DEVICE_PLUGIN_SYMBOL);
  if (!function) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const pp_device_table *table = function();
  if (table->abi_version != PP_DEVICE_ABI_VERSION) {
    fprintf(stderr, "the plugin has another ABI version\n");
    return 1;
  }
  unsigned number = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
  int failed = table->device_open(number, &device, &error) ||
               table->link_check(device, &error);
  if (failed)
    fprintf(stderr, "%s\n", error.text);
  if (device)
    table->device_close(device);
  return failed;
}
