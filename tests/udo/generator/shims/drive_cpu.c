/* Drives Blend (y = 1.5 * x) of a CPU library through SnpeUdo or QNN: KIND LIBRARY THREADS CYCLES [PROVIDER]. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "CPU/QnnCpuOpPackage.h"
#include "SnpeUdo/UdoImplCpu.h"

#define DEMAND(condition)                                       \
  do {                                                          \
    if (!(condition)) {                                         \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition);   \
      exit(1);                                                  \
    }                                                           \
  } while (0)

enum { ELEMENTS = 6 };
static void *library;
static int cycles;
static QnnOpPackage_Interface_t table;
static Qnn_OpPackageHandle_t handle;

static float *same(void *data) { return data; }
static size_t no_size(void *data) { return data == NULL; }
static SnpeUdo_CpuInfrastructure_t infrastructure = {same, no_size};

#define FUNCTION(name) ((__typeof__(&name))dlsym(library, #name))

static void check(const float *x, const float *y) {
  for (int i = 0; i < ELEMENTS; ++i) DEMAND(y[i] == 1.5f * x[i]);
}

static void *by_snpe(void *seed) {
  for (int cycle = 0; cycle < cycles; ++cycle) {
    uint32_t dims[] = {2, 3};
    float x[ELEMENTS], y[ELEMENTS] = {0};
    SnpeUdo_TensorParam_t in = {dims, dims, {SNPE_UDO_QUANTIZATION_NONE, {{0, 0}}}, 2, SNPE_UDO_DATATYPE_FLOAT_32,
                                SNPE_UDO_LAYOUT_NHWC, x};
    SnpeUdo_TensorParam_t out = in;
    SnpeUdo_OpFactory_t factory = NULL;
    SnpeUdo_Operation_t operation = NULL;
    uint32_t time = 0;
    char type[] = "Blend";
    out.tensorData = y;
    for (int i = 0; i < ELEMENTS; ++i) x[i] = (float)(cycle + i) + *(float *)seed;
    DEMAND(!FUNCTION(SnpeUdo_createOpFactory)(SNPE_UDO_CORETYPE_CPU, &infrastructure, type, 0, NULL, &factory));
    DEMAND(!FUNCTION(SnpeUdo_createOperation)(factory, &infrastructure, 1, &in, 1, &out, &operation));
    DEMAND(!FUNCTION(SnpeUdo_executeOp)(operation, true, 0, NULL));
    check(x, y);
    x[0] += 1;
    DEMAND(!FUNCTION(SnpeUdo_setOpIO)(operation, &in, &out));
    DEMAND(!FUNCTION(SnpeUdo_executeOp)(operation, true, 0, NULL));
    DEMAND(!FUNCTION(SnpeUdo_profileOp)(operation, &time));
    check(x, y);
    DEMAND(!FUNCTION(SnpeUdo_releaseOp)(operation));
    DEMAND(!FUNCTION(SnpeUdo_releaseOpFactory)(factory));
  }
  return NULL;
}

static void *by_qnn(void *seed) {
  const int is_new = table.interfaceVersion.major == 2;
  for (int cycle = 0; cycle < cycles; ++cycle) {
    uint32_t dims[] = {2, 3};
    float x[ELEMENTS], y[ELEMENTS] = {0};
    QnnCpuOpPackage_Tensor_t in, out;
    QnnCpuOpPackage_Tensor_t *ins[] = {&in}, *outs[] = {&out};
    QnnCpuOpPackage_Node_t node = {"n", "TwoOps", "Blend", 0, NULL, 1, ins, 1, outs};
    QnnOpPackage_OpImpl_t made = NULL;
    memset(&in, 0, sizeof in);
    in.dataType = QNN_CPU_DATATYPE_FLOAT_32;
    in.rank = 2;
    in.currentDimensions = in.maxDimensions = dims;
    out = in;
    in.data = x;
    out.data = y;
    for (int i = 0; i < ELEMENTS; ++i) x[i] = (float)(cycle + i) + *(float *)seed;
    DEMAND(!(is_new ? table.v2_0.createOpImpl(handle, NULL, (QnnOpPackage_Node_t)&node, &made)
                    : table.v1_4.createOpImpl(NULL, (QnnOpPackage_Node_t)&node, &made)));
    const QnnCpuOpPackage_OpImpl_t *op = (const QnnCpuOpPackage_OpImpl_t *)made;
    DEMAND(!op->opImplFn(op->userData));
    check(x, y);
    DEMAND(!(is_new ? table.v2_0.freeOpImpl(handle, made) : table.v1_4.freeOpImpl(made)));
  }
  return NULL;
}

static void open_package(const char *provider) {
  QnnOpPackage_InterfaceProvider_t provide = (QnnOpPackage_InterfaceProvider_t)dlsym(library, provider);
  const QnnOpPackage_Info_t *info = NULL;
  DEMAND(provide != NULL && !provide(&table));
  if (table.interfaceVersion.major == 2) {
    DEMAND(!table.v2_0.create(NULL, NULL, QNN_LOG_LEVEL_ERROR, &handle));
    DEMAND(!table.v2_0.getInfo(handle, &info));
  } else {
    DEMAND(!table.v1_4.init(NULL) && table.v1_4.init(NULL));
    DEMAND(!table.v1_4.getInfo(&info));
  }
  DEMAND(info->numOperations == 2 && strcmp(info->packageName, "TwoOps") == 0);
}

int main(int count, char **words) {
  pthread_t threads[64];
  float seeds[64];
  DEMAND(count >= 5);
  const int is_qnn = strcmp(words[1], "qnn") == 0, most = atoi(words[3]);
  library = dlopen(words[2], RTLD_NOW | RTLD_LOCAL);
  cycles = atoi(words[4]);
  DEMAND(library != NULL && most <= 64);
  if (is_qnn) open_package(words[5]);
  else DEMAND(!FUNCTION(SnpeUdo_initImplLibrary)(&infrastructure));
  for (int i = 0; i < most; ++i) {
    seeds[i] = (float)i;
    DEMAND(!pthread_create(&threads[i], NULL, is_qnn ? by_qnn : by_snpe, &seeds[i]));
  }
  for (int i = 0; i < most; ++i) pthread_join(threads[i], NULL);
  if (!is_qnn) DEMAND(!FUNCTION(SnpeUdo_terminateImplLibrary)());
  else DEMAND(!(table.interfaceVersion.major == 2 ? table.v2_0.free(handle) : table.v1_4.terminate()));
  dlclose(library);
  puts("ok");
  return 0;
}
