/* A package "Math" whose ops work, or fail in the way that their parameter "do" says. */
#include "xdlc_udo.h"

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
#ifndef MAJOR
#define MAJOR XDLC_UDO_API_MAJOR
#endif

static const char *text_of(uint32_t count, const xdlc_udo_param *params, const char *name) {
  for (uint32_t i = 0; i < count; ++i)
    if (strcmp(params[i].name, name) == 0 && params[i].string != NULL) return params[i].string;
  return "";
}

#ifdef REGISTRATION

static const uint32_t reals[] = {XDLC_UDO_FLOAT_32};
static const xdlc_udo_place_info places[] = {{"x", XDLC_UDO_CPU, 1, reals}, {"y", XDLC_UDO_CPU, 1, reals}};
#ifndef CORES
#define CORES XDLC_UDO_CPU
#endif
static const xdlc_udo_op_info ops[] = {
    {"Scale", CORES, 2, places}, {"Sum", CORES, 0, NULL},  {"Evil", CORES, 0, NULL},
    {"Grow", CORES, 0, NULL},    {"Count", CORES, 0, NULL}};
static const xdlc_udo_library_info libraries[] = {{XDLC_UDO_CPU, LIBRARY}};
#ifndef NUM_OPS
#define NUM_OPS 5
#endif
static const xdlc_udo_registration_info info = {PACKAGE, "1.0", NUM_OPS, ops, 1, libraries};

static xdlc_udo_status initialize(void) { return XDLC_UDO_OK; }

static xdlc_udo_status get_info(const xdlc_udo_registration_info **found) {
  *found = &info;
  return XDLC_UDO_OK;
}

static xdlc_udo_status validate(const xdlc_udo_op *op, char *message, size_t size) {
  const char *wanted = text_of(op->num_params, op->params, "do");
  if (strcmp(wanted, "refuse") == 0) {
    snprintf(message, size, "%s is refused", op->name);
    return XDLC_UDO_ERROR_UNSUPPORTED;
  }
  if (strcmp(wanted, "crash in validate") == 0) raise(SIGSEGV);
  return XDLC_UDO_OK;
}

static xdlc_udo_status infer(const xdlc_udo_op *op, xdlc_udo_shape *outputs, char *message, size_t size) {
  (void)message, (void)size;
  const xdlc_udo_tensor *in = &op->inputs[0];
  for (uint32_t i = 0; i < op->num_outputs; ++i) {
    outputs[i].data_type = strcmp(op->type, "Count") == 0 ? (uint32_t)XDLC_UDO_INT_32 : in->data_type;
    outputs[i].rank = in->rank;
    for (uint32_t k = 0; k < in->rank; ++k) outputs[i].dims[k] = in->dims[k];
    if (strcmp(op->type, "Grow") == 0 && in->dims[0] != XDLC_UDO_OPEN_EXTENT) outputs[i].dims[0] *= 2;
    if (strcmp(text_of(op->num_params, op->params, "do"), "wrong shape") == 0) outputs[i].dims[0] += 1;
    if (strcmp(text_of(op->num_params, op->params, "do"), "huge rank") == 0) outputs[i].rank = 1000;
  }
  return XDLC_UDO_OK;
}

static xdlc_udo_status terminate(void) { return XDLC_UDO_OK; }

#ifndef INFER
#define INFER infer
#endif
#ifndef VALIDATE
#define VALIDATE validate
#endif
static const xdlc_udo_registration registration = {MAJOR, 0, initialize, get_info, VALIDATE, INFER, terminate};

const xdlc_udo_registration *xdlc_udo_get_registration(void) {
  (void)infer, (void)validate;
#ifdef NO_TABLE
  (void)registration;
  return NULL;
#else
  return &registration;
#endif
}

#endif
#ifdef IMPLEMENTATION

struct xdlc_udo_factory_object {
  char type[32];
  char wanted[64];
  float factor;
  uint32_t mode;
};

struct xdlc_udo_operation_object {
  const struct xdlc_udo_factory_object *factory;
  uint32_t num_inputs, num_outputs;
  const xdlc_udo_tensor *inputs, *outputs;
  uint64_t nanoseconds;
};

static int factories = 0, operations = 0, initialized = 0;
static const char *message = "";
static const xdlc_udo_infrastructure *host = NULL;

static const char *const types[] = {"Scale", "Sum", "Evil", "Grow", "Count"};
static const xdlc_udo_implementation_info info_cpu = {PACKAGE, XDLC_UDO_CPU, 5, types};

static xdlc_udo_status initialize_cpu(const xdlc_udo_infrastructure *infrastructure) {
  host = infrastructure;
  ++initialized;
  return XDLC_UDO_OK;
}

static xdlc_udo_status get_info_cpu(const xdlc_udo_implementation_info **found) {
  *found = &info_cpu;
  return XDLC_UDO_OK;
}

static xdlc_udo_status create_factory(uint32_t core, const char *type, uint32_t num_params,
                                      const xdlc_udo_param *params, xdlc_udo_factory *factory) {
  struct xdlc_udo_factory_object *made = calloc(1, sizeof *made);
  if (core != XDLC_UDO_CPU || made == NULL) {
    free(made);
    return XDLC_UDO_ERROR_UNSUPPORTED;
  }
  made->factor = 1.0f;
  snprintf(made->type, sizeof made->type, "%s", type);
  snprintf(made->wanted, sizeof made->wanted, "%s", text_of(num_params, params, "do"));
  for (uint32_t i = 0; i < num_params; ++i) {
    if (strcmp(params[i].name, "factor") == 0) made->factor = (float)params[i].real;
    if (strcmp(params[i].name, "mode") == 0) made->mode = (uint32_t)params[i].integer;
    if (strcmp(params[i].name, "table") == 0) made->factor = ((const float *)params[i].tensor.data)[1];
  }
  if (strcmp(made->wanted, "no factory") == 0) {
    message = "there are no factories left";
    free(made);
    return XDLC_UDO_ERROR_OUT_OF_MEMORY;
  }
  ++factories;
  *factory = made;
  return XDLC_UDO_OK;
}

static xdlc_udo_status set_io(xdlc_udo_operation operation, uint32_t num_inputs, const xdlc_udo_tensor *inputs,
                              uint32_t num_outputs, const xdlc_udo_tensor *outputs) {
  operation->num_inputs = num_inputs, operation->inputs = inputs;
  operation->num_outputs = num_outputs, operation->outputs = outputs;
  return XDLC_UDO_OK;
}

static xdlc_udo_status create_operation(xdlc_udo_factory factory, uint32_t num_inputs,
                                        const xdlc_udo_tensor *inputs, uint32_t num_outputs,
                                        const xdlc_udo_tensor *outputs, xdlc_udo_operation *operation) {
  struct xdlc_udo_operation_object *made = calloc(1, sizeof *made);
  if (made == NULL) return XDLC_UDO_ERROR_OUT_OF_MEMORY;
  made->factory = factory;
  ++operations;
  *operation = made;
  return set_io(made, num_inputs, inputs, num_outputs, outputs);
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

static xdlc_udo_status execute(xdlc_udo_operation operation, uint32_t id, xdlc_udo_notify notify, void *context) {
  const struct xdlc_udo_factory_object *factory = operation->factory;
  const xdlc_udo_tensor *in = operation->inputs, *out = operation->outputs;
  float *y = out->data;
  uint64_t start = now();
  if (strcmp(factory->type, "Evil") == 0) {
    be_evil(factory->wanted);
    if (strcmp(factory->wanted, "write the input") == 0) ((float *)in->data)[0] = 1;
    if (strcmp(factory->wanted, "fail") == 0) {
      message = "the data are not to my liking";
      return XDLC_UDO_ERROR_FAILED;
    }
    if (strcmp(factory->wanted, "odd status") == 0) return 77;
    if (strcmp(factory->wanted, "log") == 0) host->log("logged");
  }
  size_t count = out->num_bytes / sizeof(float);
  if (strcmp(factory->type, "Count") == 0) {
    int32_t *n = out->data;
    n[0] = factories, n[1] = operations, n[2] = initialized;
  } else if (strcmp(factory->type, "Sum") == 0) {
    uint32_t given = 0;
    memset(y, 0, out->num_bytes);
    for (uint32_t k = 0; k < operation->num_inputs; ++k) {
      if (in[k].flags & XDLC_UDO_OMITTED) continue;
      ++given;
      const float *x = in[k].data;
      const uint8_t *stored = in[k].data;
      for (size_t i = 0; i < count; ++i)
        y[i] += in[k].scale != 0 ? (float)((stored[i] + in[k].offset) * in[k].scale) : x[i];
    }
    if (factory->mode == 1)
      for (size_t i = 0; i < count; ++i) y[i] /= (float)given;
  } else {
    const float *x = in->data;
    size_t inner = in->num_bytes / sizeof(float);
    for (size_t i = 0; i < count; ++i) y[i] = x[i % inner] * factory->factor;
  }
  operation->nanoseconds = now() - start + 1;
  if (notify != NULL) notify(context, id, XDLC_UDO_OK);
  return XDLC_UDO_OK;
}

static xdlc_udo_status profile(xdlc_udo_operation operation, uint64_t *nanoseconds) {
  *nanoseconds = operation->nanoseconds;
  return XDLC_UDO_OK;
}

static xdlc_udo_status release_operation(xdlc_udo_operation operation) {
  --operations;
  free(operation);
  return XDLC_UDO_OK;
}

static xdlc_udo_status release_factory(xdlc_udo_factory factory) {
  --factories;
  free(factory);
  return XDLC_UDO_OK;
}

static xdlc_udo_status terminate_cpu(void) {
  if (factories != 0 || operations != 0 || --initialized != 0) {
    message = "something has not been released";
    return XDLC_UDO_ERROR_STATE;
  }
  return XDLC_UDO_OK;
}

static const char *last_message(void) { return message; }

static const xdlc_udo_implementation implementation = {
    MAJOR,  0,       initialize_cpu,    get_info_cpu,    create_factory, create_operation, set_io, execute,
    profile, release_operation, release_factory, terminate_cpu,  last_message};

const xdlc_udo_implementation *xdlc_udo_get_implementation(void) { return &implementation; }

#endif
#ifdef PLAIN_KERNEL

XDLC_UDO_EXPORT xdlc_udo_status plain_kernel(uint32_t num_inputs, const xdlc_udo_tensor *inputs,
                                             uint32_t num_outputs, const xdlc_udo_tensor *outputs,
                                             uint32_t num_arguments, const xdlc_udo_argument *arguments) {
  if (num_inputs != 1 || num_outputs != 1 || num_arguments != 4) return XDLC_UDO_ERROR_INVALID_ARGUMENT;
  if (strcmp(text_of(0, NULL, ""), arguments[2].string) != 0) raise(SIGSEGV);
  const float *x = inputs->data, *table = arguments[3].tensor->data;
  float *y = outputs->data;
  for (size_t i = 0; i < outputs->num_bytes / sizeof *y; ++i)
    y[i] = x[i] * (float)arguments[0].integer + (float)arguments[1].real + table[i % 2];
  return XDLC_UDO_OK;
}

#endif
