"""The plugin of Caffe's Reduction with a kernel in Python that numba compiles.

pip install 'xdlc[numba]'
xconv-caffe-to-dlc -i net.prototxt -b net.caffemodel --plugin examples/plugins/reduction_numba.py
xdlc-net-run --container m.dlc --input_list list.txt --udo_package_path examples/plugins/reduction_numba.py
"""

import numba
import reduction


class NumbaReduction(reduction.Reduction):
    """The same layer: parameters, outputs and the kernel in numpy are those of the plugin beside it."""

    name = "NumbaReduction"
    imply_type = "TVM"

    def build_kernel(self, op):
        """Return a function for this operation and factor, which are constants in its code."""
        operation, coeff = op.params["operation"], op.params["coeff"]

        @numba.njit
        def reduce(data, result):
            rows = data.reshape((result.size, -1))
            for row in range(result.size):
                total = 0.0
                for value in rows[row]:
                    if operation == "ASUM":
                        total += abs(value)
                    else:
                        total += value * value if operation == "SUMSQ" else value
                result.reshape(-1)[row] = coeff * (total / rows.shape[1] if operation == "MEAN" else total)

        return reduce
