#ifndef SHIM_QNN_HTP_COMMON_H
#define SHIM_QNN_HTP_COMMON_H
#define QNN_HTP_API_VERSION_INIT \
  { {2, 40, 0}, {5, 51, 0} }
#endif
