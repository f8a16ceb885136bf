/* Convolution with stride 1 that keeps height and width, on blocks of channels.
   Inputs: N, C1, H, W, C0; C1 * KH * KW, N1, 16, C0; perhaps 1, N1, 1, 1, 16.  Output: N, N1, H, W, 16.
   Arguments: KH, KW (i). */
#include "xdlc_udo.h"

enum { SQUARE = 16 };

xdlc_udo_status fast_conv(uint32_t num_inputs, const xdlc_udo_tensor *inputs, uint32_t num_outputs,
                          const xdlc_udo_tensor *outputs, uint32_t num_arguments,
                          const xdlc_udo_argument *arguments) {
  if (num_inputs < 2 || num_outputs != 1 || num_arguments != 2) return XDLC_UDO_ERROR_INVALID_ARGUMENT;
  if (inputs[0].rank != 5 || inputs[0].dims[4] != SQUARE || inputs[1].rank != 4 ||
      outputs[0].rank != 5 || outputs[0].dims[4] != SQUARE)
    return XDLC_UDO_ERROR_INVALID_ARGUMENT;
  const int64_t rows = arguments[0].integer, columns = arguments[1].integer;
  const int64_t batch = inputs[0].dims[0], in_blocks = inputs[0].dims[1], height = inputs[0].dims[2],
                width = inputs[0].dims[3], out_blocks = inputs[1].dims[1];
  if (inputs[1].dims[0] != in_blocks * rows * columns || outputs[0].dims[1] != out_blocks)
    return XDLC_UDO_ERROR_INVALID_ARGUMENT;
  const float *x = inputs[0].data, *w = inputs[1].data;
  const float *bias = num_inputs > 2 && !(inputs[2].flags & XDLC_UDO_OMITTED) ? inputs[2].data : 0;
  float *y = outputs[0].data;
  for (int64_t n = 0; n < batch; n++)
    for (int64_t out = 0; out < out_blocks; out++)
      for (int64_t h = 0; h < height; h++)
        for (int64_t v = 0; v < width; v++) {
          double sums[SQUARE];
          for (int o = 0; o < SQUARE; o++) sums[o] = bias ? bias[out * SQUARE + o] : 0;
          for (int64_t in = 0; in < in_blocks; in++)
            for (int64_t i = 0; i < rows; i++)
              for (int64_t j = 0; j < columns; j++) {
                const int64_t row = h + i - rows / 2, column = v + j - columns / 2;
                if (row < 0 || row >= height || column < 0 || column >= width) continue;
                const float *pixel = x + (((n * in_blocks + in) * height + row) * width + column) * SQUARE;
                const float *square =
                    w + (((in * rows + i) * columns + j) * out_blocks + out) * SQUARE * SQUARE;
                for (int o = 0; o < SQUARE; o++)
                  for (int c = 0; c < SQUARE; c++) sums[o] += (double)pixel[c] * square[o * SQUARE + c];
              }
          float *result = y + (((n * out_blocks + out) * height + h) * width + v) * SQUARE;
          for (int o = 0; o < SQUARE; o++) result[o] = (float)sums[o];
        }
  return XDLC_UDO_OK;
}
