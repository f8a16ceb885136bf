/* Runs Scale of an implementation library: y = x * weight * factor + table[3] + (mode is soft). */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xdlc_udo.h"

#define ELEMENTS 6
#define DEMAND(condition)                                                                      \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, table->last_message());       \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

static const xdlc_udo_implementation *table;
static uint32_t core;
static int notified;

static void notify(void *context, uint32_t id, xdlc_udo_status status) {
  if (context == &notified && id == 7 && status == XDLC_UDO_OK) notified = 1;
}

static xdlc_udo_tensor floats(const char *name, uint32_t rank, const uint32_t *dims, uint32_t count, float *data) {
  xdlc_udo_tensor tensor = {name, 0, XDLC_UDO_FLOAT_32, XDLC_UDO_LAYOUT_NONE, rank, dims, 0, 0, 4u * count, data};
  return tensor;
}

static void run_reals(int seed) {
  static const uint32_t shape[] = {1, 2, 3, 1}, one[] = {1}, square[] = {2, 2};
  float x[ELEMENTS], y[ELEMENTS], weight[] = {2}, values[] = {1, 2, 3, 4};
  xdlc_udo_param params[4];
  xdlc_udo_tensor inputs[3], outputs[1];
  xdlc_udo_factory factory = NULL;
  xdlc_udo_operation operation = NULL;
  uint64_t spent = 0;
  int i;
  memset(params, 0, sizeof params);
  params[0].name = "mode";
  params[0].kind = XDLC_UDO_PARAM_SCALAR;
  params[0].data_type = XDLC_UDO_UINT_32;
  params[0].integer = 1;
  params[1].name = "factor";
  params[1].kind = XDLC_UDO_PARAM_SCALAR;
  params[1].data_type = XDLC_UDO_FLOAT_32;
  params[1].real = 0.5;
  params[2].name = "label";
  params[2].kind = XDLC_UDO_PARAM_STRING;
  params[2].data_type = XDLC_UDO_STRING;
  params[2].string = "any";
  params[3].name = "table";
  params[3].kind = XDLC_UDO_PARAM_TENSOR;
  params[3].tensor = floats("table", 2, square, 4, values);
  inputs[0] = floats("x", 4, shape, ELEMENTS, x);
  inputs[1] = floats("weight", 1, one, 1, weight);
  inputs[1].flags = XDLC_UDO_STATIC;
  memset(&inputs[2], 0, sizeof inputs[2]);
  inputs[2].name = "bias";
  inputs[2].flags = XDLC_UDO_OMITTED;
  outputs[0] = floats("y", 4, shape, ELEMENTS, y);
  for (i = 0; i < ELEMENTS; ++i) x[i] = (float)(i + seed);
  DEMAND(table->create_factory(core, "Scale", 4, params, &factory) == XDLC_UDO_OK);
  DEMAND(table->create_operation(factory, 3, inputs, 1, outputs, &operation) == XDLC_UDO_OK);
  DEMAND(table->execute(operation, 7, NULL, NULL) == XDLC_UDO_OK);
  for (i = 0; i < ELEMENTS; ++i) DEMAND(y[i] == x[i] + 5);
  for (i = 0; i < ELEMENTS; ++i) x[i] += 10; /* the same buffers, other values */
  DEMAND(table->execute(operation, 7, NULL, NULL) == XDLC_UDO_OK);
  for (i = 0; i < ELEMENTS; ++i) DEMAND(y[i] == x[i] + 5);
  {
    static const uint32_t shorter[] = {1, 2, 1, 1};
    float other[2] = {40, 50};
    inputs[0] = floats("x", 4, shorter, 2, other);
    outputs[0] = floats("y", 4, shorter, 2, y);
    DEMAND(table->set_io(operation, 3, inputs, 1, outputs) == XDLC_UDO_OK);
    DEMAND(table->execute(operation, 7, seed == 0 ? notify : NULL, &notified) == XDLC_UDO_OK);
    DEMAND(y[0] == 45 && y[1] == 55);
  }
  DEMAND(table->profile(operation, &spent) == XDLC_UDO_OK);
  DEMAND(table->release_operation(operation) == XDLC_UDO_OK);
  DEMAND(table->release_factory(factory) == XDLC_UDO_OK);
}

static void run_bytes(void) {
  static const uint32_t shape[] = {1, 2, 3, 1}, one[] = {1}, square[] = {2, 2};
  unsigned char x[ELEMENTS] = {128, 130, 132, 255, 0, 129}, y[ELEMENTS];
  float weight[] = {2}, values[] = {1, 2, 3, 4};
  xdlc_udo_param params[2];
  xdlc_udo_tensor inputs[2], outputs[1];
  xdlc_udo_factory factory = NULL;
  xdlc_udo_operation operation = NULL;
  int i;
  memset(params, 0, sizeof params);
  params[0].name = "factor";
  params[0].data_type = XDLC_UDO_FLOAT_32;
  params[0].real = 0.5;
  params[1].name = "table";
  params[1].kind = XDLC_UDO_PARAM_TENSOR;
  params[1].tensor = floats("table", 2, square, 4, values);
  inputs[0] = floats("x", 4, shape, ELEMENTS, NULL);
  inputs[0].data_type = XDLC_UDO_UINT_8;
  inputs[0].scale = 0.5;
  inputs[0].offset = -128;
  inputs[0].num_bytes = ELEMENTS;
  inputs[0].data = x;
  outputs[0] = inputs[0];
  outputs[0].data = y;
  inputs[1] = floats("weight", 1, one, 1, weight);
  DEMAND(table->create_factory(core, "Scale", 2, params, &factory) == XDLC_UDO_OK);
  DEMAND(table->create_operation(factory, 2, inputs, 1, outputs, &operation) == XDLC_UDO_OK);
  DEMAND(table->execute(operation, 7, NULL, NULL) == XDLC_UDO_OK);
  for (i = 0; i < ELEMENTS; ++i) DEMAND(y[i] == (x[i] > 245 ? 255 : x[i] + 10)); /* 5 is 10 steps */
  DEMAND(table->release_operation(operation) == XDLC_UDO_OK);
  DEMAND(table->release_factory(factory) == XDLC_UDO_OK);
}

static void *many(void *seed) {
  int i;
  for (i = 0; i < 50; ++i) run_reals((int)(intptr_t)seed);
  return NULL;
}

static void run_wrong(void) {
  static const uint32_t one[] = {1};
  float data[1] = {0};
  xdlc_udo_tensor tensor = floats("x", 1, one, 1, data);
  xdlc_udo_factory factory = NULL;
  xdlc_udo_operation operation = NULL;
  DEMAND(table->create_factory(core, "Nothing", 0, NULL, &factory) == XDLC_UDO_ERROR_UNKNOWN_OP);
  DEMAND(table->last_message()[0] != 0);
  DEMAND(table->create_factory(XDLC_UDO_CPU, "Scale", 0, NULL, &factory) == XDLC_UDO_ERROR_UNSUPPORTED);
  DEMAND(table->create_operation(NULL, 1, &tensor, 1, &tensor, &operation) == XDLC_UDO_ERROR_INVALID_ARGUMENT);
  DEMAND(table->execute(NULL, 0, NULL, NULL) == XDLC_UDO_ERROR_INVALID_ARGUMENT);
  DEMAND(table->release_factory(NULL) == XDLC_UDO_ERROR_INVALID_ARGUMENT);
}

__attribute__((weak)) int half_main(void); /* of halves.cpp, where it is linked */

int main(int argc, char **argv) {
  const xdlc_udo_implementation_info *info = NULL;
  xdlc_udo_factory factory = NULL;
  pthread_t threads[4];
  intptr_t i;
  if (argc > 1 && strcmp(argv[1], "half") == 0) return half_main == NULL ? 2 : half_main();
  table = xdlc_udo_get_implementation();
  core = argc > 1 && strcmp(argv[1], "gpu") == 0 ? XDLC_UDO_GPU : XDLC_UDO_DSP;
  DEMAND(table->api_major == XDLC_UDO_API_MAJOR);
  DEMAND(table->create_factory(core, "Scale", 0, NULL, &factory) == XDLC_UDO_ERROR_STATE);
  DEMAND(table->initialize(NULL) == XDLC_UDO_OK);
  DEMAND(table->initialize(NULL) == XDLC_UDO_OK);
  DEMAND(table->get_info(&info) == XDLC_UDO_OK && info->core == core && strcmp(info->package, "Edge") == 0);
  DEMAND(strcmp(info->types[0], "Scale") == 0);
  run_reals(0);
  DEMAND(notified);
  if (core == XDLC_UDO_DSP) run_bytes();
  run_wrong();
  for (i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, many, (void *)(i + 1));
  for (i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  DEMAND(table->terminate() == XDLC_UDO_OK);
  DEMAND(table->terminate() == XDLC_UDO_OK);
  DEMAND(table->terminate() == XDLC_UDO_ERROR_STATE);
  puts("ok");
  return 0;
}
