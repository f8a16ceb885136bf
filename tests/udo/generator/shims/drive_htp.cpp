/* Asks an op package what it has, and prints it. */
#include <cstdio>
#include <cstring>

#include "HTP/core/op_register_ext.h"

Registered &registered() {
  static Registered all;
  return all;
}

extern "C" Qnn_ErrorHandle_t EdgeInterfaceProvider(QnnOpPackage_Interface_t *);

static const char *verdict(const QnnOpPackage_Interface_t &table, const char *package, const char *type, uint32_t inputs,
                           uint32_t outputs, std::initializer_list<const char *> names) {
  std::vector<Qnn_Param_t> params;
  for (const char *name : names) {
    Qnn_Param_t param = QNN_PARAM_INIT;
    param.name = name;
    params.push_back(param);
  }
  Qnn_OpConfig_t config = {};
  config.version = QNN_OPCONFIG_VERSION_1;
  config.v1 = {"op", package, type, static_cast<uint32_t>(params.size()), params.data(), inputs, nullptr, outputs, nullptr};
  const Qnn_ErrorHandle_t code = table.v1_4.validateOpConfig(config);
  return code == QNN_SUCCESS ? "taken" : code == 3110 ? "refused" : "another error";
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
  std::printf("two inputs %s\n", verdict(table, "Edge", "Scale", 2, 1, {"table", "factor"}));
  std::printf("three inputs %s\n", verdict(table, "Edge", "Scale", 3, 1, {"table"}));
  std::printf("one input %s\n", verdict(table, "Edge", "Scale", 1, 1, {"table"}));
  std::printf("no table %s\n", verdict(table, "Edge", "Scale", 2, 1, {"factor"}));
  std::printf("odd parameter %s\n", verdict(table, "Edge", "Scale", 2, 1, {"table", "axis"}));
  std::printf("two outputs %s\n", verdict(table, "Edge", "Scale", 2, 2, {"table"}));
  std::printf("other package %s\n", verdict(table, "Other", "Scale", 2, 1, {"table"}));
  std::printf("other op %s\n", verdict(table, "Edge", "Twice", 2, 1, {"table"}));
  if (table.v1_4.terminate() != QNN_SUCCESS || table.v1_4.terminate() == QNN_SUCCESS) return 4;
  return 0;
}
