/* A kernel around a kernel: brings inputs into the formats that the inner one wants, and outputs back.
   XDLC_INNER and XDLC_OUTER are the names of both; formats.h says which tensor has which format. */
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "xdlc_udo.h"

static uint32_t element_size(uint32_t data_type) {
  switch (data_type & 0xffu) {
    case 0x08: return 1;
    case 0x16: return 2;
    case 0x32: return 4;
    default: return 0;
  }
}

/* Extents N, C, H, W of a tensor of one axis (channels), two (N and C) or four; 0 for any other. */
static int four_axes(const xdlc_udo_tensor *tensor, uint32_t axes[4]) {
  axes[0] = axes[1] = axes[2] = axes[3] = 1;
  if (tensor->rank != 1 && tensor->rank != 2 && tensor->rank != 4) return 0;
  if (tensor->rank == 1) axes[1] = tensor->dims[0];
  else memcpy(axes, tensor->dims, tensor->rank * sizeof axes[0]);
  return 1;
}

/* Moves elements between N, C, H, W and N, C1, H, W, C0. */
static void move_blocks(char *plain, char *packed, const uint32_t axes[4], uint32_t block, uint32_t size,
                        int to_packed) {
  const size_t pixels = (size_t)axes[2] * axes[3];
  const size_t blocks = (axes[1] + (size_t)block - 1) / block;
  for (size_t n = 0; n < axes[0]; n++)
    for (size_t c = 0; c < axes[1]; c++)
      for (size_t pixel = 0; pixel < pixels; pixel++) {
        char *one = plain + ((n * axes[1] + c) * pixels + pixel) * size;
        char *other = packed + (((n * blocks + c / block) * pixels + pixel) * block + c % block) * size;
        memcpy(to_packed ? other : one, to_packed ? one : other, size);
      }
}

typedef struct {
  xdlc_udo_tensor tensor;
  uint32_t axes[4], dims[5], block, size;
  char *data;
} packed_tensor;

static xdlc_udo_status prepare(packed_tensor *packed, const xdlc_udo_tensor *given, int format) {
  packed->tensor = *given;
  packed->data = NULL;
  if (format != XDLC_NC1HWC0 || given->flags & XDLC_UDO_OMITTED) return XDLC_UDO_OK;
  packed->size = element_size(given->data_type);
  if (!packed->size || !four_axes(given, packed->axes)) return XDLC_UDO_ERROR_UNSUPPORTED;
  packed->block = packed->size == 1 ? 32 : 16;
  const uint32_t blocks = (uint32_t)(((uint64_t)packed->axes[1] + packed->block - 1) / packed->block);
  const uint32_t dims[5] = {packed->axes[0], blocks, packed->axes[2], packed->axes[3], packed->block};
  size_t bytes = packed->size;
  for (int axis = 0; axis < 5; axis++) {
    if (dims[axis] && bytes > SIZE_MAX / dims[axis]) return XDLC_UDO_ERROR_OUT_OF_MEMORY;
    bytes *= dims[axis];
  }
  packed->data = calloc(bytes ? bytes : 1, 1);
  if (!packed->data) return XDLC_UDO_ERROR_OUT_OF_MEMORY;
  memcpy(packed->dims, dims, sizeof dims);
  packed->tensor.rank = 5;
  packed->tensor.dims = packed->dims;
  packed->tensor.layout = XDLC_UDO_LAYOUT_NONE;
  packed->tensor.num_bytes = bytes;
  packed->tensor.data = packed->data;
  return XDLC_UDO_OK;
}

static void move(packed_tensor *packed, const xdlc_udo_tensor *given, int to_packed) {
  if (packed->data && given->data)
    move_blocks(given->data, packed->data, packed->axes, packed->block, packed->size, to_packed);
}

xdlc_udo_status XDLC_INNER(uint32_t, const xdlc_udo_tensor *, uint32_t, const xdlc_udo_tensor *, uint32_t,
                           const xdlc_udo_argument *);

XDLC_UDO_EXPORT xdlc_udo_status XDLC_OUTER(uint32_t num_inputs, const xdlc_udo_tensor *inputs,
                                           uint32_t num_outputs, const xdlc_udo_tensor *outputs,
                                           uint32_t num_arguments, const xdlc_udo_argument *arguments) {
  enum { COUNT = XDLC_NUM_INPUTS + XDLC_NUM_OUTPUTS };
  packed_tensor packed[COUNT];
  xdlc_udo_tensor tensors[COUNT];
  xdlc_udo_status status = XDLC_UDO_OK;
  if (num_inputs < XDLC_NUM_INPUTS || num_outputs != XDLC_NUM_OUTPUTS) return XDLC_UDO_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < COUNT; i++) {
    const xdlc_udo_tensor *given = i < XDLC_NUM_INPUTS ? &inputs[i] : &outputs[i - XDLC_NUM_INPUTS];
    packed[i].data = NULL;
    if (status == XDLC_UDO_OK) status = prepare(&packed[i], given, FORMATS[i]);
    if (status == XDLC_UDO_OK && i < XDLC_NUM_INPUTS) move(&packed[i], given, 1);
    if (status == XDLC_UDO_OK) tensors[i] = packed[i].tensor;
  }
  if (status == XDLC_UDO_OK)
    status = XDLC_INNER(XDLC_NUM_INPUTS, tensors, num_outputs, tensors + XDLC_NUM_INPUTS, num_arguments, arguments);
  for (int i = 0; i < COUNT; i++) {
    if (status == XDLC_UDO_OK && i >= XDLC_NUM_INPUTS) move(&packed[i], &outputs[i - XDLC_NUM_INPUTS], 0);
    free(packed[i].data);
  }
  return status;
}
