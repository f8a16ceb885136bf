/*
 * OpenCL for tests: buffers are host memory, and the one kernel, Scale_kernel, is the C function below.
 * Programs do not build if FAKE_BUILD_FAILS is set.  Objects are allocated, so that leaks are found.
 */
#include <stdlib.h>
#include <string.h>

#include "CL/cl.h"

struct _cl_mem {
  size_t size;
  unsigned char *data;
};
struct _cl_program {
  char options[200];
};
struct _cl_kernel {
  char options[200];
  unsigned char arguments[16][8];
};
struct _cl_event {
  int unused;
};
struct _cl_context {
  int unused;
};
struct _cl_command_queue {
  int unused;
};

static int the_platform, the_device;
static const char kLog[] = "line 3: syntax error";

#define NEW(type) ((type)calloc(1, sizeof(struct _##type)))

cl_int clGetPlatformIDs(cl_uint room, cl_platform_id *ids, cl_uint *count) {
  if (count != NULL) *count = 1;
  if (room != 0) ids[0] = (cl_platform_id)&the_platform;
  return CL_SUCCESS;
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *ids, cl_uint *count) {
  if (platform != (cl_platform_id)&the_platform || room == 0) return CL_INVALID_VALUE;
  if (type == CL_DEVICE_TYPE_GPU) return CL_DEVICE_NOT_FOUND; /* so that the other way is taken */
  ids[0] = (cl_device_id)&the_device;
  if (count != NULL) *count = 1;
  return CL_SUCCESS;
}

cl_context clCreateContext(const cl_context_properties *properties, cl_uint count, const cl_device_id *ids,
                           void (*callback)(const char *, const void *, size_t, void *), void *data, cl_int *code) {
  (void)properties, (void)callback, (void)data;
  *code = count == 1 && ids[0] == (cl_device_id)&the_device ? CL_SUCCESS : CL_INVALID_VALUE;
  return NEW(cl_context);
}

cl_int clReleaseContext(cl_context context) { return free(context), CL_SUCCESS; }

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id id, cl_command_queue_properties properties,
                                      cl_int *code) {
  (void)context, (void)id;
  *code = properties == CL_QUEUE_PROFILING_ENABLE ? CL_SUCCESS : CL_INVALID_VALUE;
  return NEW(cl_command_queue);
}

cl_int clGetCommandQueueInfo(cl_command_queue queue, cl_uint what, size_t room, void *value, size_t *size) {
  (void)queue, (void)room, (void)value, (void)size;
  return what == CL_QUEUE_DEVICE ? CL_SUCCESS : CL_INVALID_VALUE;
}

cl_int clReleaseCommandQueue(cl_command_queue queue) { return free(queue), CL_SUCCESS; }

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                     cl_int *code) {
  cl_program program = NEW(cl_program);
  (void)context;
  *code = count == 1 && sizes == NULL && texts[0][0] != 0 ? CL_SUCCESS : CL_INVALID_VALUE;
  return program;
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *ids, const char *options,
                      void (*callback)(cl_program, void *), void *data) {
  (void)count, (void)ids, (void)callback, (void)data;
  strncpy(program->options, options, sizeof program->options - 1);
  return getenv("FAKE_BUILD_FAILS") != NULL ? CL_BUILD_PROGRAM_FAILURE : CL_SUCCESS;
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id id, cl_program_build_info what, size_t room, void *value,
                             size_t *size) {
  (void)program, (void)id;
  if (what != CL_PROGRAM_BUILD_LOG) return CL_INVALID_VALUE;
  if (size != NULL) *size = sizeof kLog;
  if (room >= sizeof kLog) memcpy(value, kLog, sizeof kLog);
  return CL_SUCCESS;
}

cl_int clReleaseProgram(cl_program program) { return free(program), CL_SUCCESS; }

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *code) {
  cl_kernel made = NEW(cl_kernel);
  *code = strcmp(name, "Scale_kernel") == 0 ? CL_SUCCESS : CL_INVALID_KERNEL_NAME;
  strcpy(made->options, program->options);
  return made;
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
  if (index >= 16 || size > 8) return CL_INVALID_VALUE;
  memcpy(kernel->arguments[index], value, size);
  return CL_SUCCESS;
}

cl_int clReleaseKernel(cl_kernel kernel) { return free(kernel), CL_SUCCESS; }

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code) {
  cl_mem buffer = NEW(cl_mem);
  (void)context, (void)flags, (void)host;
  buffer->size = size;
  buffer->data = (unsigned char *)malloc(size);
  *code = size == 0 ? CL_INVALID_VALUE : CL_SUCCESS;
  return buffer;
}

cl_int clReleaseMemObject(cl_mem buffer) {
  free(buffer->data);
  free(buffer);
  return CL_SUCCESS;
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                            const void *from, cl_uint count, const cl_event *events, cl_event *event) {
  (void)queue, (void)blocking, (void)count, (void)events, (void)event;
  if (offset + size > buffer->size) return CL_INVALID_VALUE;
  memcpy(buffer->data + offset, from, size);
  return CL_SUCCESS;
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size, void *to,
                           cl_uint count, const cl_event *events, cl_event *event) {
  (void)queue, (void)blocking, (void)count, (void)events, (void)event;
  if (offset + size > buffer->size) return CL_INVALID_VALUE;
  memcpy(to, buffer->data + offset, size);
  return CL_SUCCESS;
}

static float vload_half(size_t index, const void *from) {
  _Float16 value;
  memcpy(&value, (const unsigned char *)from + 2 * index, sizeof value);
  return (float)value;
}

static void vstore_half(float value, size_t index, void *to) {
  const _Float16 half = (_Float16)value;
  memcpy((unsigned char *)to + 2 * index, &half, sizeof half);
}

/* Arguments x, weight and y; macros mode and factor. */
static void Scale_kernel(cl_kernel kernel, size_t i) {
  cl_mem x, weight, y;
  const float factor = strtof(strstr(kernel->options, "-Dfactor=") + 9, NULL);
  const int mode = atoi(strstr(kernel->options, "-Dmode=") + 7);
  memcpy(&x, kernel->arguments[0], sizeof x);
  memcpy(&weight, kernel->arguments[1], sizeof weight);
  memcpy(&y, kernel->arguments[2], sizeof y);
  if (strstr(kernel->options, "HAS_bias") != NULL) abort();
  vstore_half(vload_half(i, x->data) * vload_half(0, weight->data) * factor + (float)(mode == 1), i, y->data);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint axes, const size_t *offset,
                              const size_t *global, const size_t *local, cl_uint count, const cl_event *events,
                              cl_event *event) {
  size_t i;
  (void)queue, (void)offset, (void)local, (void)count, (void)events;
  if (axes != 1) return CL_INVALID_VALUE;
  for (i = 0; i < global[0]; ++i) Scale_kernel(kernel, i);
  if (event != NULL) *event = NEW(cl_event);
  return CL_SUCCESS;
}

cl_int clFinish(cl_command_queue queue) {
  (void)queue;
  return CL_SUCCESS;
}

cl_int clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t room, void *value, size_t *size) {
  const cl_ulong time = what == CL_PROFILING_COMMAND_END ? 1500 : 1000;
  (void)event, (void)size;
  if (room < sizeof time) return CL_INVALID_VALUE;
  memcpy(value, &time, sizeof time);
  return CL_SUCCESS;
}

cl_int clReleaseEvent(cl_event event) { return free(event), CL_SUCCESS; }
