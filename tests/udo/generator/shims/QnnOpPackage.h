/* The part of QNN's op package interface that generated packages use, declared after its public documentation. */
#ifndef SHIM_QNN_OP_PACKAGE_H
#define SHIM_QNN_OP_PACKAGE_H

#include <cstdarg>
#include <cstddef>
#include <cstdint>

typedef uint64_t Qnn_ErrorHandle_t;
#define QNN_SUCCESS 0
#define QNN_SDK_BUILD_ID "shim"

enum {
  QNN_OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED = 3100,
  QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED,
  QNN_OP_PACKAGE_ERROR_INVALID_INFO,
  QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE,
  QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT,
  QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE = 3110,
  QNN_LOG_ERROR_INVALID_ARGUMENT = 8000
};

typedef enum {
  QNN_DATATYPE_INT_8 = 0x0008,
  QNN_DATATYPE_INT_32 = 0x0032,
  QNN_DATATYPE_INT_64 = 0x0064,
  QNN_DATATYPE_UINT_32 = 0x0132,
  QNN_DATATYPE_FLOAT_32 = 0x0232,
  QNN_DATATYPE_BOOL_8 = 0x0508
} Qnn_DataType_t;

typedef struct {
  Qnn_DataType_t dataType;
  union {
    float floatValue;
    double doubleValue;
    uint64_t uint64Value;
    int64_t int64Value;
    uint32_t uint32Value;
    int32_t int32Value;
    uint16_t uint16Value;
    int16_t int16Value;
    uint8_t uint8Value;
    int8_t int8Value;
    uint8_t bool8Value;
    const char *stringValue;
  };
} Qnn_Scalar_t;

typedef enum { QNN_PARAMTYPE_SCALAR = 0, QNN_PARAMTYPE_TENSOR = 1, QNN_PARAMTYPE_UNDEFINED = 0x7FFFFFFF } Qnn_ParamType_t;

typedef enum { QNN_TENSOR_TYPE_NATIVE = 3, QNN_TENSOR_TYPE_NULL = 5 } Qnn_TensorType_t;

typedef struct {
  uint32_t id;
  const char *name;
  Qnn_TensorType_t type;
} Qnn_TensorV1_t;

typedef struct {
  uint32_t version;
  union {
    Qnn_TensorV1_t v1;
  };
} Qnn_Tensor_t;

typedef struct {
  Qnn_ParamType_t paramType;
  const char *name;
  union {
    Qnn_Scalar_t scalarParam;
    Qnn_Tensor_t tensorParam;
  };
} Qnn_Param_t;

#define QNN_PARAM_INIT \
  { QNN_PARAMTYPE_UNDEFINED, nullptr, {} }

typedef enum { QNN_OPCONFIG_VERSION_1 = 1 } Qnn_OpConfigVersion_t;

typedef struct {
  const char *name;
  const char *packageName;
  const char *typeName;
  uint32_t numOfParams;
  Qnn_Param_t *params;
  uint32_t numOfInputs;
  Qnn_Tensor_t *inputTensors;
  uint32_t numOfOutputs;
  Qnn_Tensor_t *outputTensors;
} Qnn_OpConfigV1_t;

typedef struct {
  Qnn_OpConfigVersion_t version;
  union {
    Qnn_OpConfigV1_t v1;
  };
} Qnn_OpConfig_t;

typedef struct {
  uint32_t major, minor, patch;
} Qnn_Version_t;

typedef struct {
  Qnn_Version_t coreApiVersion, backendApiVersion;
} Qnn_ApiVersion_t;

typedef enum { QNN_LOG_LEVEL_ERROR = 1 } QnnLog_Level_t;
typedef void (*QnnLog_Callback_t)(const char *, QnnLog_Level_t, uint64_t, va_list);

typedef struct _QnnOpPackage_GlobalInfrastructure_t *QnnOpPackage_GlobalInfrastructure_t;
typedef struct _QnnOpPackage_GraphInfrastructure_t *QnnOpPackage_GraphInfrastructure_t;
typedef struct _QnnOpPackage_Node_t *QnnOpPackage_Node_t;
typedef struct _QnnOpPackage_OpImpl_t *QnnOpPackage_OpImpl_t;
typedef struct _QnnOpPackage_OperationInfo_t QnnOpPackage_OperationInfo_t;
typedef struct _QnnOpPackage_Optimization_t QnnOpPackage_Optimization_t;
typedef struct _QnnOpPackage_PackageInfo_t QnnOpPackage_PackageInfo_t;

typedef struct {
  const char *packageName;
  const char **operationNames;
  const QnnOpPackage_OperationInfo_t *operationInfo;
  uint32_t numOperations;
  const QnnOpPackage_Optimization_t *optimizations;
  uint32_t numOptimizations;
  const char *sdkBuildId;
  const Qnn_ApiVersion_t *sdkApiVersion;
  const QnnOpPackage_PackageInfo_t *packageInfo;
  const Qnn_Version_t *opsetVersion;
  size_t reserved[12];
} QnnOpPackage_Info_t;

#define QNN_OP_PACKAGE_INFO_INIT \
  { nullptr, nullptr, nullptr, 0u, nullptr, 0u, nullptr, nullptr, nullptr, nullptr, {0u} }

typedef struct {
  Qnn_ErrorHandle_t (*init)(QnnOpPackage_GlobalInfrastructure_t);
  Qnn_ErrorHandle_t (*terminate)();
  Qnn_ErrorHandle_t (*getInfo)(const QnnOpPackage_Info_t **);
  Qnn_ErrorHandle_t (*validateOpConfig)(Qnn_OpConfig_t);
  Qnn_ErrorHandle_t (*createOpImpl)(QnnOpPackage_GraphInfrastructure_t, QnnOpPackage_Node_t, QnnOpPackage_OpImpl_t *);
  Qnn_ErrorHandle_t (*freeOpImpl)(QnnOpPackage_OpImpl_t);
  Qnn_ErrorHandle_t (*logInitialize)(QnnLog_Callback_t, QnnLog_Level_t);
  Qnn_ErrorHandle_t (*logSetLevel)(QnnLog_Level_t);
  Qnn_ErrorHandle_t (*logTerminate)();
} QnnOpPackage_ImplementationV1_4_t;

typedef struct {
  Qnn_Version_t interfaceVersion;
  union {
    QnnOpPackage_ImplementationV1_4_t v1_4;
  };
} QnnOpPackage_Interface_t;

#endif
