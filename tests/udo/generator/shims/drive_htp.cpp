/* Asks an op package what it has, and prints it. */
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "HTP/core/op_register_ext.h"

Registered &registered() {
  static Registered all;
  return all;
}

extern "C" Qnn_ErrorHandle_t EdgeInterfaceProvider(QnnOpPackage_Interface_t *);

static std::string reason; /* what the package last said */

static void listen(const char *format, QnnLog_Level_t, uint64_t, va_list values) {
  char text[200];
  std::vsnprintf(text, sizeof text, format, values);
  reason = text;
}

static void set(Qnn_Tensor_t &tensor, Qnn_DataType_t type, uint32_t rank) {
  tensor.v1.type = QNN_TENSOR_TYPE_NATIVE;
  tensor.v1.dataType = type;
  tensor.v1.rank = rank;
}

/* What is said of a model's operation, whose tensors are as in "bf b": quantized bytes, floats and null tensors. */
static std::string verdict(const QnnOpPackage_Interface_t &table, const char *type, const char *inputs, const char *outputs,
                           std::initializer_list<const char *> names) {
  std::vector<Qnn_Param_t> params;
  for (const char *name : names) {
    Qnn_Param_t param{};
    param.name = name;
    param.paramType = std::strcmp(name, "table") == 0 ? QNN_PARAMTYPE_TENSOR : QNN_PARAMTYPE_SCALAR;
    if (param.paramType == QNN_PARAMTYPE_TENSOR) set(param.tensorParam, QNN_DATATYPE_FLOAT_32, 2);
    else param.scalarParam.dataType = QNN_DATATYPE_FLOAT_32;
    params.push_back(param);
  }
  std::vector<Qnn_Tensor_t> tensors[2];
  const char *const sides[] = {inputs, outputs};
  for (int side = 0; side < 2; ++side) {
    for (const char *place = sides[side]; *place != 0; ++place) {
      Qnn_Tensor_t tensor = {};
      if (*place == 'b') set(tensor, QNN_DATATYPE_UFIXED_POINT_8, 4);
      else if (*place == 'f') set(tensor, QNN_DATATYPE_FLOAT_32, 1);
      else tensor.v1.type = QNN_TENSOR_TYPE_NULL;
      tensors[side].push_back(tensor);
    }
  }
  Qnn_OpConfig_t config = {};
  config.version = QNN_OPCONFIG_VERSION_1;
  config.v1 = {"op", "Edge", type, static_cast<uint32_t>(params.size()), params.data(),
               static_cast<uint32_t>(tensors[0].size()), tensors[0].data(),
               static_cast<uint32_t>(tensors[1].size()), tensors[1].data()};
  reason = "";
  const Qnn_ErrorHandle_t code = table.v1_4.validateOpConfig(config);
  return code == QNN_SUCCESS ? "taken" : code == 3110 ? reason : "another error";
}

int main() {
  QnnOpPackage_Interface_t table = {};
  const QnnOpPackage_Info_t *info = nullptr;
  if (EdgeInterfaceProvider(&table) != QNN_SUCCESS) return 1;
  if (table.v1_4.init(nullptr) != QNN_SUCCESS) return 2;
  if (table.v1_4.init(nullptr) == QNN_SUCCESS || table.v1_4.getInfo(&info) != QNN_SUCCESS) return 3;
  std::printf("version %u.%u\n", table.interfaceVersion.major, table.interfaceVersion.minor);
  for (uint32_t i = 0; i < info->numOperations; ++i) std::printf("op %s::%s\n", info->packageName, info->operationNames[i]);
  for (const auto &kernel : registered().kernels) std::printf("kernel %s %s\n", kernel.first.c_str(), kernel.second.c_str());
  for (const auto &order : registered().orders) std::printf("order %s\n", order.c_str());
  if (table.v1_4.logInitialize(listen, QNN_LOG_LEVEL_ERROR) != QNN_SUCCESS) return 5;
  const struct {
    const char *type, *inputs, *outputs;
    std::initializer_list<const char *> params;
  } models[] = {
      {"Scale", "bf", "b", {"table", "factor"}},
      {"Scale", "bff", "b", {"table"}},
      {"Pick", "b b", "b", {}},
      {"Pick", "b ", "b ", {}},
      {"Scale", "b", "b", {"table"}},
      {"Scale", "b f", "b", {"table"}},
      {"Pick", " bb", "b", {}},
      {"Scale", "bb", "b", {"table"}},
      {"Scale", "bf", "b", {"factor"}},
      {"Scale", "bf", "b", {"table", "axis"}},
      {"Scale", "bf", "bbb", {"table"}},
      {"Twice", "bf", "b", {"table"}},
  };
  for (const auto &model : models) {
    std::printf("%s\n", verdict(table, model.type, model.inputs, model.outputs, model.params).c_str());
  }
  if (table.v1_4.terminate() != QNN_SUCCESS || table.v1_4.terminate() == QNN_SUCCESS) return 4;
  return 0;
}
