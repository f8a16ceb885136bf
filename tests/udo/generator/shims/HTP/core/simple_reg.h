#include "HTP/core/op_register_ext.h"
