/* Runs Scale of a GPU or DSP library through SnpeUdo: y = x * weight * factor + (mode is soft), + table[3] on the DSP. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef ON_GPU
#include "SnpeUdo/UdoImplGpu.h"
#define CORE SNPE_UDO_CORETYPE_GPU
#else
#include "SnpeUdo/UdoImplDsp.h"
#define CORE SNPE_UDO_CORETYPE_DSP
#endif

enum { ELEMENTS = 6 };
#define DEMAND(condition)                                                           \
  do {                                                                              \
    const int failed = (int)!(condition);                                           \
    if (failed) {                                                                   \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                       \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)

static uint32_t shape[] = {1, 2, 3, 1}, one[] = {1}, square[] = {2, 2};
static char names[4][8] = {"mode", "factor", "label", "table"}, any[] = "any", type[] = "Scale";

static SnpeUdo_TensorParam_t tensor(SnpeUdo_DataType_t dtype, uint32_t rank, uint32_t *dims, void *data) {
  SnpeUdo_TensorParam_t made;
  memset(&made, 0, sizeof made);
  made.maxDimensions = made.currDimensions = dims;
  made.tensorRank = rank;
  made.dataType = dtype;
  made.layout = SNPE_UDO_LAYOUT_NHWC;
  made.tensorData = data;
  return made;
}

static void fill_params(SnpeUdo_Param_t *params, float *values) {
  memset(params, 0, 4 * sizeof *params);
  for (int i = 0; i < 4; ++i) params[i].paramName = names[i];
  params[0].paramType = params[1].paramType = SNPE_UDO_PARAMTYPE_SCALAR;
  params[0].scalarParam.dataType = SNPE_UDO_DATATYPE_UINT_32;
  params[0].scalarParam.dataValue.uint32Value = 1;
  params[1].scalarParam.dataType = SNPE_UDO_DATATYPE_FLOAT_32;
  params[1].scalarParam.dataValue.floatValue = 0.5f;
  params[2].paramType = SNPE_UDO_PARAMTYPE_STRING;
  params[2].stringParam = any;
  params[3].paramType = SNPE_UDO_PARAMTYPE_TENSOR;
  params[3].tensorParam = tensor(SNPE_UDO_DATATYPE_FLOAT_32, 2, square, values);
}

static void run(void *infrastructure, SnpeUdo_TensorParam_t *inputs, SnpeUdo_TensorParam_t *output) {
  float values[] = {1, 2, 3, 4};
  SnpeUdo_Param_t params[4];
  SnpeUdo_OpFactory_t factory = NULL;
  SnpeUdo_Operation_t operation = NULL;
  uint32_t time = 0;
  fill_params(params, values);
  DEMAND(SnpeUdo_createOpFactory(CORE, infrastructure, type, 4, params, &factory) == SNPE_UDO_NO_ERROR);
  memset(params, 0, sizeof params); /* the library owns copies */
  DEMAND(SnpeUdo_createOperation(factory, infrastructure, 3, inputs, 1, output, &operation) == SNPE_UDO_NO_ERROR);
  DEMAND(SnpeUdo_executeOp(operation, true, 0, NULL) == SNPE_UDO_NO_ERROR);
  DEMAND(SnpeUdo_setOpIO(operation, inputs, output) == SNPE_UDO_NO_ERROR);
  DEMAND(SnpeUdo_executeOp(operation, true, 0, NULL) == SNPE_UDO_NO_ERROR);
  DEMAND(SnpeUdo_profileOp(operation, &time) == SNPE_UDO_NO_ERROR);
  DEMAND(SnpeUdo_releaseOp(operation) == SNPE_UDO_NO_ERROR);
  DEMAND(SnpeUdo_releaseOpFactory(factory) == SNPE_UDO_NO_ERROR);
}

#ifdef ON_GPU

static cl_mem buffer_of(cl_context context, cl_command_queue queue, const float *values, int count) {
  _Float16 halves[ELEMENTS];
  cl_int code;
  cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 2u * (size_t)count, NULL, &code);
  for (int i = 0; i < count; ++i) halves[i] = (_Float16)values[i];
  clEnqueueWriteBuffer(queue, buffer, 1, 0, 2u * (size_t)count, halves, 0, NULL, NULL);
  return buffer;
}

int main(void) {
  cl_platform_id platform;
  cl_device_id device;
  cl_int code;
  clGetPlatformIDs(1, &platform, NULL);
  clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  cl_command_queue queue = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &code);
  SnpeUdo_GpuInfrastructure_t global = {{1, 0, 0}, NULL, NULL};
  SnpeUdo_GpuOpFactoryInfrastructure_t infrastructure = {context, queue, NULL};
  float x[ELEMENTS] = {0, 1, 2, 3, 4, 5}, weight[] = {2};
  cl_mem buffers[] = {buffer_of(context, queue, x, ELEMENTS), buffer_of(context, queue, weight, 1),
                      buffer_of(context, queue, x, ELEMENTS)};
  SnpeUdo_GpuTensorData_t data[3];
  SnpeUdo_TensorParam_t inputs[3], output;
  _Float16 found[ELEMENTS];
  for (int i = 0; i < 3; ++i) data[i] = (SnpeUdo_GpuTensorData_t){&buffers[i], 1, 0, NULL};
  inputs[0] = tensor(SNPE_UDO_DATATYPE_FLOAT_32, 4, shape, &data[0]);
  inputs[1] = tensor(SNPE_UDO_DATATYPE_FLOAT_32, 1, one, &data[1]);
  memset(&inputs[2], 0, sizeof inputs[2]);
  inputs[2].layout = SNPE_UDO_LAYOUT_NULL;
  output = tensor(SNPE_UDO_DATATYPE_FLOAT_32, 4, shape, &data[2]);
  DEMAND(SnpeUdo_initImplLibrary(&global) == SNPE_UDO_NO_ERROR);
  run(&infrastructure, inputs, &output);
  clEnqueueReadBuffer(queue, buffers[2], 1, 0, sizeof found, found, 0, NULL, NULL);
  for (int i = 0; i < ELEMENTS; ++i) DEMAND((float)found[i] == x[i] * 2 * 0.5f + 1);
  DEMAND(SnpeUdo_terminateImplLibrary() == SNPE_UDO_NO_ERROR);
  for (int i = 0; i < 3; ++i) clReleaseMemObject(buffers[i]);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  puts("ok");
  return 0;
}

#else

static uint32_t told[2];
static int set_size(SnpeUdo_HexNNv2OpInfra_t infrastructure, uint32_t index, uint32_t size) {
  (void)infrastructure;
  told[0] = index, told[1] = size;
  return 0;
}

int main(void) {
  SnpeUdo_DspGlobalInfrastructure_t global;
  float x[ELEMENTS] = {0, 1, 2, 3, 4, 5}, y[ELEMENTS], weight[] = {2};
  uint8_t bytes[ELEMENTS] = {0, 51, 102, 153, 204, 255}, stored[ELEMENTS];
  SnpeUdo_TensorParam_t inputs[3], output;
  uint32_t counts[2];
  SnpeUdo_QuantizationType_t *in_types, *out_types;
  SnpeUdo_HexNNTensorLayout_t *in_layouts, *out_layouts;
  memset(&global, 0, sizeof global);
  global.infraType = UDO_INFRA_HEXNN_V2;
  global.hexNNv2Infra.udoMalloc = malloc;
  global.hexNNv2Infra.udoFree = free;
  global.hexNNv2Infra.udoSetOutputTensorSize = set_size;
  DEMAND(SnpeUdo_initImplLibrary(NULL) == SNPE_UDO_INVALID_ARGUMENT);
  DEMAND(SnpeUdo_initImplLibrary(&global) == SNPE_UDO_NO_ERROR);
  DEMAND(SnpeUdo_queryOperation(any, 0, NULL, &counts[0], &in_types, &in_layouts, &counts[1], &out_types,
                                &out_layouts) == SNPE_UDO_WRONG_OPERATION);
  DEMAND(SnpeUdo_queryOperation(type, 0, NULL, &counts[0], &in_types, &in_layouts, &counts[1], &out_types,
                                &out_layouts) == SNPE_UDO_NO_ERROR);
  DEMAND(counts[0] == 2 && counts[1] == 1 && in_types[0] == SNPE_UDO_QUANTIZATION_TF && in_layouts == NULL);
  inputs[0] = tensor(SNPE_UDO_DATATYPE_FLOAT_32, 4, shape, x);
  inputs[1] = tensor(SNPE_UDO_DATATYPE_FLOAT_32, 1, one, weight);
  memset(&inputs[2], 0, sizeof inputs[2]);
  inputs[2].layout = SNPE_UDO_LAYOUT_NULL;
  output = tensor(SNPE_UDO_DATATYPE_FLOAT_32, 4, shape, y);
  run(NULL, inputs, &output);
  for (int i = 0; i < ELEMENTS; ++i) DEMAND(y[i] == x[i] + 4 + 1);
  DEMAND(told[0] == 0 && told[1] == sizeof y);
  inputs[0].dataType = output.dataType = SNPE_UDO_DATATYPE_FIXED_8;
  inputs[0].quantizeParams.quantizeType = output.quantizeParams.quantizeType = SNPE_UDO_QUANTIZATION_TF;
  inputs[0].quantizeParams.TFParams.maxValue = 5;
  output.quantizeParams.TFParams.minValue = 0;
  output.quantizeParams.TFParams.maxValue = 51;
  inputs[0].tensorData = bytes;
  output.tensorData = stored;
  run(NULL, inputs, &output);
  for (int i = 0; i < ELEMENTS; ++i) DEMAND(stored[i] == (i + 5) * 5);
  DEMAND(told[1] == sizeof stored);
  puts("ok");
  return 0;
}

#endif
