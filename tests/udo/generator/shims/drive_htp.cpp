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

/* What is said of a model's operation, whose tensors are as in "xx x": a space stands for a null tensor. */
static std::string verdict(const QnnOpPackage_Interface_t &table, const char *package, const char *type, const char *inputs,
                           const char *outputs, std::initializer_list<const char *> names) {
  std::vector<Qnn_Param_t> params;
  for (const char *name : names) {
    Qnn_Param_t param = QNN_PARAM_INIT;
    param.name = name;
    params.push_back(param);
  }
  std::vector<Qnn_Tensor_t> tensors[2];
  const char *const sides[] = {inputs, outputs};
  for (int side = 0; side < 2; ++side) {
    for (const char *place = sides[side]; *place != 0; ++place) {
      Qnn_Tensor_t tensor = {};
      tensor.v1.type = *place == ' ' ? QNN_TENSOR_TYPE_NULL : QNN_TENSOR_TYPE_NATIVE;
      tensors[side].push_back(tensor);
    }
  }
  Qnn_OpConfig_t config = {};
  config.version = QNN_OPCONFIG_VERSION_1;
  config.v1 = {"op", package, type, static_cast<uint32_t>(params.size()), params.data(),
               static_cast<uint32_t>(tensors[0].size()), tensors[0].data(),
               static_cast<uint32_t>(tensors[1].size()), tensors[1].data()};
  reason = "";
  const Qnn_ErrorHandle_t code = table.v1_4.validateOpConfig(config);
  return code == QNN_SUCCESS ? "taken" : code == 3110 ? reason : "another error";
}

int main() {
  QnnOpPackage_Interface_t table = {};
  const QnnOpPackage_Info_t *info = nullptr;
  if (EdgeInterfaceProvider(nullptr) == QNN_SUCCESS || EdgeInterfaceProvider(&table) != QNN_SUCCESS) return 1;
  if (table.v1_4.getInfo(&info) == QNN_SUCCESS || table.v1_4.init(nullptr) != QNN_SUCCESS) return 2;
  if (table.v1_4.init(nullptr) == QNN_SUCCESS || table.v1_4.getInfo(&info) != QNN_SUCCESS) return 3;
  std::printf("version %u.%u\n", table.interfaceVersion.major, table.interfaceVersion.minor);
  for (uint32_t i = 0; i < info->numOperations; ++i) std::printf("op %s::%s\n", info->packageName, info->operationNames[i]);
  for (const auto &kernel : registered().kernels) std::printf("kernel %s %s\n", kernel.first.c_str(), kernel.second.c_str());
  for (const auto &order : registered().orders) std::printf("order %s\n", order.c_str());
  if (table.v1_4.logInitialize(listen, QNN_LOG_LEVEL_ERROR) != QNN_SUCCESS) return 5;
  const struct {
    const char *package, *type, *inputs, *outputs;
    std::initializer_list<const char *> params;
  } models[] = {
      {"Edge", "Scale", "xx", "x", {"table", "factor"}},
      {"Edge", "Scale", "xxx", "x", {"table"}},
      {"Edge", "Pick", "x x", "x", {}},
      {"Edge", "Pick", "x ", "x ", {}},
      {"Edge", "Scale", "x", "x", {"table"}},
      {"Edge", "Scale", "x x", "x", {"table"}},
      {"Edge", "Pick", " xx", "x", {}},
      {"Edge", "Scale", "xx", "x", {"factor"}},
      {"Edge", "Scale", "xx", "x", {"table", "axis"}},
      {"Edge", "Scale", "xx", "xxx", {"table"}},
      {"Other", "Scale", "xx", "x", {"table"}},
      {"Edge", "Twice", "xx", "x", {"table"}},
  };
  for (const auto &model : models) {
    std::printf("%s\n", verdict(table, model.package, model.type, model.inputs, model.outputs, model.params).c_str());
  }
  if (table.v1_4.terminate() != QNN_SUCCESS || table.v1_4.terminate() == QNN_SUCCESS) return 4;
  return 0;
}
