/* A registration library that takes any operation and knows no shapes. */
#include "xdlc_udo.h"

static xdlc_udo_status nothing(void) { return XDLC_UDO_OK; }

static xdlc_udo_status get_info(const xdlc_udo_registration_info **info) {
  static const xdlc_udo_registration_info none = {"Edge", "1.0", 0, NULL, 0, NULL};
  *info = &none;
  return XDLC_UDO_OK;
}

static xdlc_udo_status validate(const xdlc_udo_op *op, char *message, size_t size) {
  (void)op, (void)message, (void)size;
  return XDLC_UDO_OK;
}

static xdlc_udo_status infer(const xdlc_udo_op *op, xdlc_udo_shape *outputs, char *message, size_t size) {
  (void)op, (void)outputs, (void)message, (void)size;
  return XDLC_UDO_ERROR_UNSUPPORTED;
}

XDLC_UDO_EXPORT const xdlc_udo_registration *xdlc_udo_get_registration(void) {
  static const xdlc_udo_registration table = {
      XDLC_UDO_API_MAJOR, XDLC_UDO_API_MINOR, nothing, get_info, validate, infer, nothing,
  };
  return &table;
}
