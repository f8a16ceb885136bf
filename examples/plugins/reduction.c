/* Caffe's Reduction: one number for all that lies behind an axis.
   Arguments: axis (i), not negative; operation (s), coeff (f). */
#include <math.h>
#include <string.h>

#include "xdlc_udo.h"

xdlc_udo_status reduction(uint32_t num_inputs, const xdlc_udo_tensor *inputs, uint32_t num_outputs,
                          const xdlc_udo_tensor *outputs, uint32_t num_arguments,
                          const xdlc_udo_argument *arguments) {
  if (num_inputs != 1 || num_outputs != 1 || num_arguments != 3) return XDLC_UDO_ERROR_INVALID_ARGUMENT;
  if (inputs[0].data_type != XDLC_UDO_FLOAT_32) return XDLC_UDO_ERROR_UNSUPPORTED;
  const int64_t behind = arguments[0].integer;
  if (behind < 0 || behind > inputs[0].rank) return XDLC_UDO_ERROR_INVALID_ARGUMENT;
  const float *data = inputs[0].data;
  float *result = outputs[0].data;
  const char *operation = arguments[1].string;
  size_t rows = 1, columns = 1;
  for (uint32_t axis = 0; axis < inputs[0].rank; axis++) {
    if (axis < behind) rows *= inputs[0].dims[axis];
    else columns *= inputs[0].dims[axis];
  }
  for (size_t row = 0; row < rows; row++) {
    double sum = 0;
    for (size_t column = 0; column < columns; column++) {
      const double value = data[row * columns + column];
      if (!strcmp(operation, "ASUM")) sum += fabs(value);
      else if (!strcmp(operation, "SUMSQ")) sum += value * value;
      else sum += value;
    }
    if (!strcmp(operation, "MEAN")) sum /= (double)columns;
    result[row] = (float)(sum * arguments[2].real);
  }
  return XDLC_UDO_OK;
}
