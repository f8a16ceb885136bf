/* A package "Math" whose ops work, or fail in the way that their parameter "do" says. */
#include "SnpeUdo/UdoImpl.h"
#include "SnpeUdo/UdoReg.h"
#include "CPU/QnnCpuOpPackage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef LIBRARY
#define LIBRARY "libMathCpu.so"
#endif
#ifndef PACKAGE
#define PACKAGE "Math"
#endif

static const char *text_of(uint32_t count, const SnpeUdo_Param_t *params, const char *name) {
  for (uint32_t i = 0; i < count; ++i)
    if (strcmp(params[i].paramName, name) == 0 && params[i].paramType == SNPE_UDO_PARAMTYPE_STRING)
      return params[i].stringParam;
  return "";
}

static inline size_t elements_of(const SnpeUdo_TensorParam_t *tensor) {
  size_t count = 1;
  for (uint32_t i = 0; i < tensor->tensorRank; ++i) count *= tensor->currDimensions[i];
  return count;
}

#ifdef REGISTRATION

#ifndef CORES
#define CORES SNPE_UDO_CORETYPE_CPU
#endif
#ifndef NUM_OPS
#define NUM_OPS 5
#endif
static SnpeUdo_OperationInfo_t ops[] = {
    {.operationType = "Scale", .supportedByCores = CORES}, {.operationType = "Sum", .supportedByCores = CORES},
    {.operationType = "Evil", .supportedByCores = CORES},  {.operationType = "Grow", .supportedByCores = CORES},
    {.operationType = "Count", .supportedByCores = CORES}};
static SnpeUdo_LibraryInfo_t libraries[] = {{SNPE_UDO_CORETYPE_CPU, LIBRARY}};
static SnpeUdo_RegInfo_t info = {PACKAGE, CORES, 1, libraries, "Scale Sum Evil Grow Count", NUM_OPS, ops};

SnpeUdo_ErrorType_t SnpeUdo_initRegLibrary(void) { return SNPE_UDO_NO_ERROR; }

SnpeUdo_ErrorType_t SnpeUdo_getRegInfo(SnpeUdo_RegInfo_t **found) {
#ifdef NO_INFO
  (void)info;
  *found = NULL;
#else
  *found = &info;
#endif
  return SNPE_UDO_NO_ERROR;
}

SnpeUdo_ErrorType_t SnpeUdo_validateOperation(SnpeUdo_OpDefinition_t *op) {
  const char *wanted = text_of(op->numOfStaticParams, op->staticParams, "do");
  if (strcmp(wanted, "refuse") == 0) {
    fprintf(stderr, "%s is refused\n", op->operationType);
    return SNPE_UDO_UNSUPPORTED_FEATURE;
  }
  if (strcmp(wanted, "crash in validate") == 0) raise(SIGSEGV);
  return SNPE_UDO_NO_ERROR;
}

#ifndef NO_SHAPES
static const char *wanted_of(const Qnn_OpConfigV1_t *op) {
  for (uint32_t i = 0; i < op->numOfParams; ++i)
    if (strcmp(op->params[i].name, "do") == 0) return op->params[i].scalarParam.stringValue;
  return "";
}

static Qnn_ErrorHandle_t infer(Qnn_OpConfig_t *config, uint32_t factor) {
  Qnn_OpConfigV1_t *op = &config->v1;
  const Qnn_TensorV1_t *in = &op->inputTensors[0].v1;
  for (uint32_t i = 0; i < op->numOfOutputs; ++i) {
    Qnn_TensorV1_t *out = &op->outputTensors[i].v1;
    out->dataType = in->dataType;
    out->rank = in->rank;
    for (uint32_t k = 0; k < in->rank; ++k) out->dimensions[k] = in->dimensions[k];
    out->dimensions[0] *= factor;
    if (strcmp(wanted_of(op), "wrong shape") == 0) out->dimensions[0] += 1;
    if (strcmp(wanted_of(op), "huge rank") == 0) out->rank = 1000;
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t ScaleShapeInference(Qnn_OpConfig_t *op) { return infer(op, 1); }
Qnn_ErrorHandle_t SumShapeInference(Qnn_OpConfig_t *op) { return infer(op, 1); }
Qnn_ErrorHandle_t EvilShapeInference(Qnn_OpConfig_t *op) { return infer(op, 1); }
Qnn_ErrorHandle_t GrowShapeInference(Qnn_OpConfig_t *op) { return infer(op, 2); }
Qnn_ErrorHandle_t CountShapeInference(Qnn_OpConfig_t *op) { return infer(op, 1); }
Qnn_ErrorHandle_t CountDataTypeInference(Qnn_OpConfig_t *op) {
  op->v1.outputTensors[0].v1.dataType = QNN_DATATYPE_INT_32;
  return QNN_SUCCESS;
}
#endif

SnpeUdo_ErrorType_t SnpeUdo_terminateRegLibrary(void) { return SNPE_UDO_NO_ERROR; }

#endif
#ifdef IMPLEMENTATION

typedef struct {
  char type[32];
  char wanted[64];
  float factor;
  uint32_t mode;
} factory_object;

typedef struct {
  const factory_object *factory;
  uint32_t num_inputs, num_outputs;
  const SnpeUdo_TensorParam_t *inputs, *outputs;
  uint32_t microseconds;
} operation_object;

static int factories = 0, operations = 0, initialized = 0;
static char type_names[] = "Scale Sum Evil Grow Count";
static SnpeUdo_ImpInfo_t info_cpu = {SNPE_UDO_CORETYPE_CPU, PACKAGE, type_names, 5};

SnpeUdo_ErrorType_t SnpeUdo_initImplLibrary(void *infrastructure) {
  (void)infrastructure;
  ++initialized;
  return SNPE_UDO_NO_ERROR;
}

SnpeUdo_ErrorType_t SnpeUdo_getImpInfo(SnpeUdo_ImpInfo_t **found) {
  *found = &info_cpu;
  return SNPE_UDO_NO_ERROR;
}

SnpeUdo_ErrorType_t SnpeUdo_createOpFactory(SnpeUdo_CoreType_t core, void *infrastructure, SnpeUdo_String_t type,
                                            uint32_t num_params, SnpeUdo_Param_t *params, SnpeUdo_OpFactory_t *factory) {
  factory_object *made = calloc(1, sizeof *made);
  (void)infrastructure;
  if (core != SNPE_UDO_CORETYPE_CPU || made == NULL) {
    free(made);
    return SNPE_UDO_WRONG_CORE;
  }
  made->factor = 1.0f;
  snprintf(made->type, sizeof made->type, "%s", type);
  snprintf(made->wanted, sizeof made->wanted, "%s", text_of(num_params, params, "do"));
  for (uint32_t i = 0; i < num_params; ++i) {
    if (strcmp(params[i].paramName, "factor") == 0) made->factor = params[i].scalarParam.dataValue.floatValue;
    if (strcmp(params[i].paramName, "mode") == 0) made->mode = params[i].scalarParam.dataValue.uint32Value;
    if (strcmp(params[i].paramName, "table") == 0) made->factor = ((const float *)params[i].tensorParam.tensorData)[1];
  }
  if (strcmp(made->wanted, "no factory") == 0) {
    fprintf(stderr, "there are no factories left\n");
    free(made);
    return SNPE_UDO_MEM_ALLOC_ERROR;
  }
  ++factories;
  *factory = (SnpeUdo_OpFactory_t)made;
  return SNPE_UDO_NO_ERROR;
}

SnpeUdo_ErrorType_t SnpeUdo_setOpIO(SnpeUdo_Operation_t handle, SnpeUdo_TensorParam_t *inputs,
                                    SnpeUdo_TensorParam_t *outputs) {
  operation_object *operation = (operation_object *)handle;
  operation->inputs = inputs, operation->outputs = outputs;
  return SNPE_UDO_NO_ERROR;
}

SnpeUdo_ErrorType_t SnpeUdo_createOperation(SnpeUdo_OpFactory_t factory, void *infrastructure, uint32_t num_inputs,
                                            SnpeUdo_TensorParam_t *inputs, uint32_t num_outputs,
                                            SnpeUdo_TensorParam_t *outputs, SnpeUdo_Operation_t *operation) {
  operation_object *made = calloc(1, sizeof *made);
  (void)infrastructure;
  if (made == NULL) return SNPE_UDO_MEM_ALLOC_ERROR;
  made->factory = (const factory_object *)factory;
  made->num_inputs = num_inputs, made->num_outputs = num_outputs;
  ++operations;
  *operation = (SnpeUdo_Operation_t)made;
  return SnpeUdo_setOpIO(*operation, inputs, outputs);
}

static int is_socket(int file) {
  struct stat found;
  return fstat(file, &found) == 0 && S_ISSOCK(found.st_mode);
}

static void be_evil(const char *how) {
  if (strcmp(how, "segfault") == 0) raise(SIGSEGV);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "exit") == 0) exit(0);
  if (strcmp(how, "die") == 0) _exit(3);
  if (strcmp(how, "loop") == 0)
    for (;;) pause();
  if (strcmp(how, "print and crash") == 0) {
    fprintf(stderr, "I am out of my depth\n");
    abort();
  }
  if (strcmp(how, "close the line") == 0) {
    for (int file = 3; file < 1024; ++file)
      if (is_socket(file)) close(file);
  }
  if (strcmp(how, "babble") == 0) {
    for (int file = 3; file < 1024; ++file)
      if (is_socket(file) && write(file, "xxxxxxxxxxxxxxxx", 16) < 0) abort();
  }
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

SnpeUdo_ErrorType_t SnpeUdo_executeOp(SnpeUdo_Operation_t handle, bool blocking, const uint32_t id,
                                      SnpeUdo_ExternalNotify_t notify) {
  operation_object *operation = (operation_object *)handle;
  const factory_object *factory = operation->factory;
  const SnpeUdo_TensorParam_t *in = operation->inputs, *out = operation->outputs;
  float *y = out->tensorData;
  uint64_t start = now();
  (void)id, (void)notify;
  if (!blocking) return SNPE_UDO_UNSUPPORTED_FEATURE;
  if (strcmp(factory->type, "Evil") == 0) {
    be_evil(factory->wanted);
    if (strcmp(factory->wanted, "write the input") == 0) ((float *)in->tensorData)[0] = 1;
    if (strcmp(factory->wanted, "fail") == 0) {
      fprintf(stderr, "the data are not to my liking\n");
      return SNPE_UDO_INVALID_ARGUMENT;
    }
    if (strcmp(factory->wanted, "odd status") == 0) return (SnpeUdo_ErrorType_t)77;
    if (strcmp(factory->wanted, "log") == 0) fprintf(stderr, "logged\n");
  }
  size_t count = elements_of(out);
  if (strcmp(factory->type, "Count") == 0) {
    int32_t *n = out->tensorData;
    n[0] = factories, n[1] = operations, n[2] = initialized;
  } else if (strcmp(factory->type, "Sum") == 0) {
    uint32_t given = 0;
    memset(y, 0, count * sizeof *y);
    for (uint32_t k = 0; k < operation->num_inputs; ++k) {
      if (in[k].layout == SNPE_UDO_LAYOUT_NULL) continue;
      ++given;
      const float *x = in[k].tensorData;
      const uint8_t *stored = in[k].tensorData;
      const SnpeUdo_TFQuantize_t *span = &in[k].quantizeParams.TFParams;
      const float step = (span->maxValue - span->minValue) / 255;
      const int is_stored = in[k].quantizeParams.quantizeType == SNPE_UDO_QUANTIZATION_TF;
      for (size_t i = 0; i < count; ++i) y[i] += is_stored ? span->minValue + (float)stored[i] * step : x[i];
    }
    if (factory->mode == 1)
      for (size_t i = 0; i < count; ++i) y[i] /= (float)given;
  } else {
    const float *x = in->tensorData;
    size_t inner = elements_of(in);
    for (size_t i = 0; i < count; ++i) y[i] = x[i % inner] * factory->factor;
  }
  operation->microseconds = (uint32_t)((now() - start) / 1000u) + 1;
  return SNPE_UDO_NO_ERROR;
}

SnpeUdo_ErrorType_t SnpeUdo_profileOp(SnpeUdo_Operation_t operation, uint32_t *microseconds) {
  *microseconds = ((operation_object *)operation)->microseconds;
  return SNPE_UDO_NO_ERROR;
}

SnpeUdo_ErrorType_t SnpeUdo_releaseOp(SnpeUdo_Operation_t operation) {
  --operations;
  free(operation);
  return SNPE_UDO_NO_ERROR;
}

SnpeUdo_ErrorType_t SnpeUdo_releaseOpFactory(SnpeUdo_OpFactory_t factory) {
  --factories;
  free(factory);
  return SNPE_UDO_NO_ERROR;
}

SnpeUdo_ErrorType_t SnpeUdo_terminateImplLibrary(void) {
  if (factories != 0 || operations != 0 || --initialized != 0) {
    fprintf(stderr, "something has not been released\n");
    return SNPE_UDO_UNSUPPORTED_FEATURE;
  }
  return SNPE_UDO_NO_ERROR;
}

#endif
#ifdef PLAIN_KERNEL

Qnn_ErrorHandle_t plain_kernel(const QnnCpuOpPackage_Node_t *node) {
  if (node->numOfInputs != 1 || node->numOfOutputs != 1 || node->numOfParams != 4)
    return QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT;
  if (strcmp(text_of(0, NULL, ""), node->params[2]->stringParam) != 0) raise(SIGSEGV);
  const float *x = node->inputs[0]->data, *table = node->params[3]->tensorParam->data;
  float *y = node->outputs[0]->data;
  size_t count = 1;
  for (uint32_t i = 0; i < node->outputs[0]->rank; ++i) count *= node->outputs[0]->currentDimensions[i];
  for (size_t i = 0; i < count; ++i)
    y[i] = x[i] * (float)node->params[0]->scalarParam + (float)node->params[1]->scalarParam + table[i % 2];
  return QNN_SUCCESS;
}

#endif
