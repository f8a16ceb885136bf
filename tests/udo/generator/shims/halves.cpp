/* Reads floats, writes the halves that they become; then the floats of all halves. */
#include <cstdio>

#include "Operation.hpp"

extern "C" int half_main(void) {
  float value;
  while (std::fread(&value, sizeof value, 1, stdin) == 1) {
    const uint16_t half = udo_Edge_gpu::halfFromFloat(value);
    std::fwrite(&half, sizeof half, 1, stdout);
  }
  for (uint32_t half = 0; half < 0x10000; ++half) {
    value = udo_Edge_gpu::floatFromHalf(static_cast<uint16_t>(half));
    std::fwrite(&value, sizeof value, 1, stdout);
  }
  return 0;
}
