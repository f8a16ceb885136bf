/*
 * xdlc_udo.h: the interface between a runtime and libraries of user-defined operations (UDO).
 *
 * A package of operations has one registration library, which says what operations there are, and one
 * implementation library for each core, which executes them.  Both may be one file.  Each exports one
 * function, which returns a table of functions:
 *
 *     const xdlc_udo_registration *xdlc_udo_get_registration(void);
 *     const xdlc_udo_implementation *xdlc_udo_get_implementation(void);
 *
 * Life cycle: registration.initialize, get_info, validate and infer_outputs of each operation of a
 * model; implementation.initialize, create_factory (static parameters), create_operation (inputs and
 * outputs bound), execute any number of times, with set_io wherever buffers change, profile,
 * release_operation, release_factory, terminate.
 *
 * Rules:
 *  - Pointers that a caller hands over are valid during the call, except those of create_factory
 *    (parameters, until release_factory) and of create_operation and set_io (tensors and their data,
 *    until the next set_io or release_operation).
 *  - What get_info returns lives until terminate.
 *  - Each successful initialize is matched by one terminate; they may nest and come from any thread.
 *  - Factories and operations may be made, used and released in several threads at once; one operation
 *    is used by one thread at a time.
 *  - execute allocates no memory, which accelerators demand.
 *  - Tensors are dense and row-major; their data begins at a multiple of 64 bytes.  Elements of 4 bits take
 *    a byte each.  A CPU implementation gets quantized activations and halves as XDLC_UDO_FLOAT_32 reals,
 *    and static weights in the type that the configuration states.
 *  - An implementation writes outputs only: inputs and parameters may lie in memory that cannot be written.
 *  - A message or an info that is a string is UTF-8 and ends with a zero byte.
 *  - Only infer_outputs may be NULL in a table of functions.
 */
#ifndef XDLC_UDO_H
#define XDLC_UDO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XDLC_UDO_API_MAJOR 1u
#define XDLC_UDO_API_MINOR 0u
#define XDLC_UDO_MAX_RANK 16u
#define XDLC_UDO_OPEN_EXTENT 0xFFFFFFFFu /* in dims: known only when the model runs; validate, infer_outputs */

#if defined(_WIN32)
#define XDLC_UDO_EXPORT __declspec(dllexport)
#else
#define XDLC_UDO_EXPORT __attribute__((visibility("default")))
#endif

typedef int32_t xdlc_udo_status;
enum {
  XDLC_UDO_OK = 0,
  XDLC_UDO_ERROR_UNKNOWN_OP = 1,
  XDLC_UDO_ERROR_INVALID_ARGUMENT = 2,
  XDLC_UDO_ERROR_UNSUPPORTED = 3,
  XDLC_UDO_ERROR_OUT_OF_MEMORY = 4,
  XDLC_UDO_ERROR_STATE = 5,
  XDLC_UDO_ERROR_FAILED = 6
};

/* Cores, one bit each. */
enum { XDLC_UDO_CPU = 1, XDLC_UDO_GPU = 2, XDLC_UDO_DSP = 4 };

/* Data types, under the numbers that QNN gives them. */
enum {
  XDLC_UDO_INT_8 = 0x0008,
  XDLC_UDO_INT_16 = 0x0016,
  XDLC_UDO_INT_32 = 0x0032,
  XDLC_UDO_INT_64 = 0x0064,
  XDLC_UDO_UINT_8 = 0x0108,
  XDLC_UDO_UINT_16 = 0x0116,
  XDLC_UDO_UINT_32 = 0x0132,
  XDLC_UDO_UINT_64 = 0x0164,
  XDLC_UDO_FLOAT_16 = 0x0216,
  XDLC_UDO_FLOAT_32 = 0x0232,
  XDLC_UDO_FLOAT_64 = 0x0264,
  XDLC_UDO_SFIXED_POINT_4 = 0x0304,
  XDLC_UDO_SFIXED_POINT_8 = 0x0308,
  XDLC_UDO_SFIXED_POINT_16 = 0x0316,
  XDLC_UDO_SFIXED_POINT_32 = 0x0332,
  XDLC_UDO_UFIXED_POINT_4 = 0x0404,
  XDLC_UDO_UFIXED_POINT_8 = 0x0408,
  XDLC_UDO_UFIXED_POINT_16 = 0x0416,
  XDLC_UDO_UFIXED_POINT_32 = 0x0432,
  XDLC_UDO_BOOL_8 = 0x0508,
  XDLC_UDO_STRING = 0x0608
};

enum { XDLC_UDO_LAYOUT_NONE = 0, XDLC_UDO_NHWC = 1, XDLC_UDO_NCHW = 2, XDLC_UDO_NHCW = 3 };

/* Flags of a tensor. */
enum {
  XDLC_UDO_OMITTED = 1, /* an optional tensor that is not there; nothing else of it is set */
  XDLC_UDO_STATIC = 2   /* data of the model, the same in each execution */
};

typedef struct {
  const char *name; /* as the configuration names its place; of repeated ones, all alike */
  uint32_t flags;
  uint32_t data_type;
  uint32_t layout;
  uint32_t rank;
  const uint32_t *dims;
  double scale;       /* real = (stored + offset) * scale; 0 if it is not quantized, or by axis */
  int32_t offset;
  uint64_t num_bytes; /* 0 where an extent is open */
  void *data;         /* NULL where elements are not known yet */
} xdlc_udo_tensor;

typedef enum {
  XDLC_UDO_PARAM_SCALAR = 0,
  XDLC_UDO_PARAM_STRING = 1,
  XDLC_UDO_PARAM_TENSOR = 2
} xdlc_udo_param_kind;

typedef struct {
  const char *name;
  uint32_t kind;      /* xdlc_udo_param_kind */
  uint32_t data_type; /* of a scalar; an enumeration is a UINT_32 */
  int64_t integer;    /* value of an integer or bool scalar */
  double real;        /* value of a float scalar */
  const char *string; /* UTF-8, ends with a zero byte */
  xdlc_udo_tensor tensor;
} xdlc_udo_param;

/* One operation of a model.  Inputs and outputs are in the order of the configuration; an optional input
   that is left out has the default of the configuration, as a static tensor; if that has none, it is there as
   a tensor with XDLC_UDO_OMITTED, or, at the end, not at all.  A parameter that a model leaves out has the
   default of the configuration, or is not there if that has none. */
typedef struct {
  const char *package;
  const char *type;
  const char *name;
  uint32_t num_params;
  const xdlc_udo_param *params;
  uint32_t num_inputs;
  const xdlc_udo_tensor *inputs;
  uint32_t num_outputs;
  const xdlc_udo_tensor *outputs;
} xdlc_udo_op;

typedef struct {
  uint32_t data_type;
  uint32_t rank;
  uint32_t dims[XDLC_UDO_MAX_RANK];
} xdlc_udo_shape;

/* ------------------------------------------------------------------ registration library */

typedef struct {
  const char *place; /* name of an input, output or parameter */
  uint32_t core;
  uint32_t num_data_types;
  const uint32_t *data_types;
} xdlc_udo_place_info;

typedef struct {
  const char *type;
  uint32_t cores; /* bits */
  uint32_t num_places;
  const xdlc_udo_place_info *places;
} xdlc_udo_op_info;

typedef struct {
  uint32_t core;
  const char *file; /* name without a folder: it lies beside the registration library */
} xdlc_udo_library_info;

typedef struct {
  const char *package;
  const char *version;
  uint32_t num_ops;
  const xdlc_udo_op_info *ops;
  uint32_t num_libraries;
  const xdlc_udo_library_info *libraries;
} xdlc_udo_registration_info;

typedef struct {
  uint32_t api_major;
  uint32_t api_minor;
  xdlc_udo_status (*initialize)(void);
  xdlc_udo_status (*get_info)(const xdlc_udo_registration_info **info);
  /* Says in message why an operation cannot be executed; data of tensors that are not static is missing. */
  xdlc_udo_status (*validate)(const xdlc_udo_op *op, char *message, size_t size);
  /* Gives shapes and types of the outputs, of which op may say no more than how many there are: rank 0 and
     data type 0.  What it cannot know has an extent that is open.  NULL, or XDLC_UDO_ERROR_UNSUPPORTED for
     an op: not known. */
  xdlc_udo_status (*infer_outputs)(const xdlc_udo_op *op, xdlc_udo_shape *outputs, char *message, size_t size);
  xdlc_udo_status (*terminate)(void);
} xdlc_udo_registration;

XDLC_UDO_EXPORT const xdlc_udo_registration *xdlc_udo_get_registration(void);

/* ------------------------------------------------------------------ implementation library */

typedef struct {
  void (*log)(const char *text); /* from any thread; NULL: there is no log */
} xdlc_udo_infrastructure;

typedef struct {
  const char *package;
  uint32_t core;
  uint32_t num_types;
  const char *const *types;
} xdlc_udo_implementation_info;

typedef struct xdlc_udo_factory_object *xdlc_udo_factory;
typedef struct xdlc_udo_operation_object *xdlc_udo_operation;

/* Called when an execution ends that was not waited for. */
typedef void (*xdlc_udo_notify)(void *context, uint32_t id, xdlc_udo_status status);

typedef struct {
  uint32_t api_major;
  uint32_t api_minor;
  xdlc_udo_status (*initialize)(const xdlc_udo_infrastructure *infrastructure);
  xdlc_udo_status (*get_info)(const xdlc_udo_implementation_info **info);
  xdlc_udo_status (*create_factory)(uint32_t core, const char *type, uint32_t num_params,
                                    const xdlc_udo_param *params, xdlc_udo_factory *factory);
  xdlc_udo_status (*create_operation)(xdlc_udo_factory factory, uint32_t num_inputs,
                                      const xdlc_udo_tensor *inputs, uint32_t num_outputs,
                                      const xdlc_udo_tensor *outputs, xdlc_udo_operation *operation);
  xdlc_udo_status (*set_io)(xdlc_udo_operation operation, uint32_t num_inputs,
                            const xdlc_udo_tensor *inputs, uint32_t num_outputs,
                            const xdlc_udo_tensor *outputs);
  /* Waits for the end if notify is NULL.  A library that cannot do otherwise calls notify before it
     returns. */
  xdlc_udo_status (*execute)(xdlc_udo_operation operation, uint32_t id, xdlc_udo_notify notify, void *context);
  xdlc_udo_status (*profile)(xdlc_udo_operation operation, uint64_t *nanoseconds); /* of the last execution */
  xdlc_udo_status (*release_operation)(xdlc_udo_operation operation);
  xdlc_udo_status (*release_factory)(xdlc_udo_factory factory);
  xdlc_udo_status (*terminate)(void);
  const char *(*last_message)(void); /* why the last call of this thread failed; may be "" */
} xdlc_udo_implementation;

XDLC_UDO_EXPORT const xdlc_udo_implementation *xdlc_udo_get_implementation(void);

/* ------------------------------------------------------------------ kernels of plugins */

typedef struct {
  char kind; /* 'i', 'f', 's' or 'o': integer, real, string, tensor */
  int64_t integer;
  double real;
  const char *string;
  const xdlc_udo_tensor *tensor;
} xdlc_udo_argument;

/* A kernel that a plugin builds is one exported function of this type; the arguments are those that its
   description lists. */
typedef xdlc_udo_status (*xdlc_udo_kernel)(uint32_t num_inputs, const xdlc_udo_tensor *inputs,
                                           uint32_t num_outputs, const xdlc_udo_tensor *outputs,
                                           uint32_t num_arguments, const xdlc_udo_argument *arguments);

#ifdef __cplusplus
}
#endif

#endif
