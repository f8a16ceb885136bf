/*
 * What of the HTP's op packages generated code uses, under the names of its public documentation.  Here the
 * macros write down what is registered, so that tests can read it.
 */
#ifndef SHIM_OP_REGISTER_EXT_H
#define SHIM_OP_REGISTER_EXT_H

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "QnnOpPackage.h"

enum class GraphStatus { Success, ErrorFatal };
enum Cost { GLACIAL, SNAIL, FAST, FREE };
namespace Flags {
enum Flag { RESOURCE_HVX, RESOURCE_HMX };
}

struct Tensor {
  float operator()(int, int, int, int) const { return 0; }
  void set_dims(const Tensor &) {}
};
struct QuantUint8Tensor : Tensor {};
struct QuantInt8Tensor : Tensor {};
struct QuantUint16Tensor : Tensor {};
struct QuantInt16Tensor : Tensor {};
struct QuantInt32Tensor : Tensor {};
struct Int32Tensor : Tensor {};
struct PlainFloatTensor : Tensor {};
struct PlainFloat16Tensor : Tensor {};

struct Registered {
  std::vector<std::pair<std::string, std::string>> kernels; /* type of operation, and the function as it is written */
  std::vector<std::string> orders;
};
Registered &registered();

template <typename Function>
bool addKernel(Function *function, const char *type, const char *text, Cost, Flags::Flag) {
  if (function != nullptr) registered().kernels.emplace_back(type, text);
  return true;
}

struct OrderItem {
  const char *name;
  bool mandatory;
  const Qnn_Param_t *value;
};
template <typename... Rest>
void addOrder(std::string &) {}
template <typename... Rest>
void addOrder(std::string &text, const char *name, bool mandatory, const Qnn_Param_t *value, Rest... rest) {
  text += std::string(" ") + name + (mandatory ? "!" : "=");
  if (value != nullptr) {
    const bool real = value->scalarParam.dataType == QNN_DATATYPE_FLOAT_32;
    text += real ? std::to_string(value->scalarParam.floatValue) : std::to_string(value->scalarParam.uint32Value);
    if (std::string(name) != value->name) text += " (another name)";
  }
  addOrder(text, rest...);
}
template <typename... Rest>
bool addOrderOf(const char *type, Rest... rest) {
  std::string text = type;
  addOrder(text, rest...);
  registered().orders.push_back(text);
  return true;
}

#define SHIM_JOINED_(a, b) a##b
#define SHIM_JOINED(a, b) SHIM_JOINED_(a, b)
#define SHIM_TEXT_(a) #a
#define SHIM_TEXT(a) SHIM_TEXT_(a)
#define SHIM_UNIQUE __attribute__((unused)) static const bool SHIM_JOINED(shim_, __COUNTER__)

#define THIS_PKG_NAME_STR SHIM_TEXT(THIS_PKG_NAME)
#define BEGIN_PKG_OP_DEFINITION(NAME) void SHIM_JOINED(declared_, NAME)() {} namespace SHIM_JOINED(ops_of_, NAME) {
#define END_PKG_OP_DEFINITION(NAME) } static_assert(true, "")
#define DEF_PACKAGE_OP_AND_COST_AND_FLAGS(FUNCTION, TYPE, COST, ...) \
  SHIM_UNIQUE = addKernel(FUNCTION, TYPE, #FUNCTION, COST, __VA_ARGS__);
#define DEF_PACKAGE_PARAM_ORDER(TYPE, ...) SHIM_UNIQUE = addOrderOf(TYPE, __VA_ARGS__);

#ifndef SHIM_BEFORE_2_17
#define INIT_PKG_CORE_INIT_FUNC() void shim_core_init() {}
#endif
#define INIT_PACKAGE_OP_DEF()
#define INIT_PACKAGE_OPTIMIZATION_DEF()
#define INIT_PACKAGE_PARAM_ORDER_DEF()
#define INIT_PACKAGE_AXIS_PARAMS_DEF()
#define INIT_PACKAGE_PER_CHANNEL_QUANTIZED_OPS_DEF()
#define BEGIN_PKG_OPS_OPTS_LIST()
#define DECLARE_PKG_OPS_OPTS_LIST(NAME) void SHIM_JOINED(declared_, NAME)(); void (*SHIM_JOINED(list_, NAME))() = SHIM_JOINED(declared_, NAME);
#define END_PKG_OPS_OPTS_LIST()
#ifdef SHIM_BEFORE_2_17
#define REGISTER_PACKAGE_OPS()
#define REGISTER_PACKAGE_OPTIMIZATIONS()
#endif
#define REGISTER_PACKAGE_PARAM_ORDERS()
#define REGISTER_PACKAGE_AXIS_PARAMS()
#define REGISTER_PACKAGE_PER_CHANNEL_QUANTIZED_OPS()

#endif
