/* Caffe's Reduction: one number for all that lies behind an axis.
   Arguments: axis (i), not negative; operation (s), coeff (f). */
#include <math.h>
#include <string.h>

#include "CPU/QnnCpuOpPackage.h"

Qnn_ErrorHandle_t reduction(const QnnCpuOpPackage_Node_t *node) {
  if (node->numOfInputs != 1 || node->numOfOutputs != 1 || node->numOfParams != 3) return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  if (node->inputs[0]->dataType != QNN_CPU_DATATYPE_FLOAT_32) return QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE;
  const int64_t behind = (int64_t)node->params[0]->scalarParam;
  if (behind < 0 || behind > node->inputs[0]->rank) return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  const float *data = node->inputs[0]->data;
  float *result = node->outputs[0]->data;
  const char *operation = node->params[1]->stringParam;
  size_t rows = 1, columns = 1;
  for (uint32_t axis = 0; axis < node->inputs[0]->rank; axis++) {
    if (axis < behind) rows *= node->inputs[0]->currentDimensions[axis];
    else columns *= node->inputs[0]->currentDimensions[axis];
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
    result[row] = (float)(sum * node->params[2]->scalarParam);
  }
  return QNN_SUCCESS;
}
