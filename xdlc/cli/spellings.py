"""Fixes for options of the vendor's tools, and usual names, that these tools lack.

They are shown when an unknown option or command is refused, before names that are spelled alike.
"""

from __future__ import annotations

_LOG = "write --verbose for all logs, --debug for a traceback, --quiet for none"
_LOG_FILE = "omit it, and redirect standard error: 2> FILE"
_NO_SIMPLIFIER = "omit it: no simplifier runs; what is constant is folded in any case"
_KEPT_IO = "omit it: inputs and outputs keep the model's names, layout and datatypes"
_SOURCE_IO = "omit it: datatypes and layouts of inputs are read from the model"
_COLOUR = "omit it, and convert colours before the network, or in the source model"
_CUSTOM_IO = (
    "omit it: inputs and outputs keep the model's layout and datatypes; xdlc-graph-prepare changes "
    "datatypes with --buffer_data_type and --use_float_io"
)
_FLOAT16 = "omit it: xdlc-graph-prepare compiles float graphs in FP16 for SoCs that have it"
_QUANTIZER = "convert without it, and pass it to xdlc-quant"
_SHAPE = "write --input_dim NAME 1,3,224,224"
_OUT = "write --out_name TENSOR, the name of a value that the node produces"
_TRACE = "omit it: source nodes of each op are kept; xdlc-info --trace shows them"
_STRICT = "omit it: every problem is an error"
_SOC_CHECK = "write --dry_run --target SOC, like sm8650"
_VERSION_TEXT = "omit it: a DLC made here states its tools and their options, and no text of yours"
_CPU = "write --runtime cpu, which is the default"
_HTP = "write --runtime htp, with --soc NAME for the SoC"
_NO_GPU = "write --runtime cpu: there is no emulation of the GPU"
_BUFFERS = "omit it: files are float32; --use_native_input_files and --use_native_output_files change that"
_FLAGS = "write options as flags, like --algorithms; encodings of AIMET go to --quantization_overrides"
_MEMORY = "omit it: bytes of weights are in the totals, memory of caches is shown by --caches"
_DEVICE = "omit it: it sets a device, and this tool runs on the host"
_RESIZE = "omit it: a dimension that is open in the DLC follows from the input's file"
_CACHED = "make caches with xdlc-graph-prepare"
_PLATFORM = "omit it: it sets a device"

COMMANDS = {
    "diff": "compare what `xdlc info --json` prints of both files",
    "dlc-diff": "compare what `xdlc info --json` prints of both files",
    "viewer": "open the DLC with netron, or `xdlc to-onnx` it",
    "dlc-viewer": "open the DLC with netron, or `xdlc to-onnx` it",
    "to-json": "xdlc info --json",
    "dlc-to-json": "xdlc info --json",
    "dlc-info": "xdlc info",
    "dlc-quant": "xdlc quant",
    "quantizer": "xdlc quant",
    "dlc-quantize": "xdlc quantize",
    "dlc-graph-prepare": "xdlc graph-prepare",
    "prepare": "xdlc graph-prepare",
    "compile": "xdlc graph-prepare",
    "run": "xdlc net-run",
    "converter": "xdlc convert",
    "onnx-converter": "xdlc convert",
    "check": "xdlc convert --dry_run for a model, xdlc graph-prepare --check for caches",
    "platform-validator": "xdlc platform-check",
    "op-package-generator": "xdlc udo-package-generator",
    "show": "xdlc info",
    "export": "xdlc to-onnx",
}
"""Commands of the tool ``xdlc``."""

EVERYWHERE = {
    "--silent": "write --quiet",
    "--debug1": _LOG,
    "--debug2": _LOG,
    "--debug3": _LOG,
    "--log-mask": _LOG,
    "--log_level": _LOG,
    "--userlogs": _LOG,
    "--log-file": _LOG_FILE,
    "--log-dir": _LOG_FILE,
    "--log-file-include-hostname": _LOG_FILE,
    "-v": "write --verbose for logs, --version for the version",
    "-V": "write --version",
    "-q": "write --quiet",
    "--platform_options": _PLATFORM,
}

_CONVERTER = {
    "--input": "write --input_network",
    "--model": "write --input_network",
    "--onnx": "write --input_network",
    "--output": "write --output_path",
    "--output_dlc": "write --output_path",
    "--dlc": "write --output_path",
    "--input_shape": _SHAPE,
    "--source_model_input_shape": _SHAPE,
    "--batch_size": "write --batch N",
    "--onnx_override_batch": "write --batch N",
    "--onnx_define_symbol": "write --define_symbol SYMBOL N",
    "--out_node": _OUT,
    "--out_tensor_node": _OUT,
    "--out_names": "write --out_name TENSOR",
    "--out_tensor_name": "write --out_name TENSOR",
    "-t": _SOURCE_IO,
    "--input_type": _SOURCE_IO,
    "--input_dtype": _SOURCE_IO,
    "--source_model_input_datatype": _SOURCE_IO,
    "-l": _SOURCE_IO,
    "--input_layout": _SOURCE_IO,
    "--source_model_input_layout": _SOURCE_IO,
    "--source_model_output_layout": _SOURCE_IO,
    "--desired_input_layout": _KEPT_IO,
    "--desired_output_layout": _KEPT_IO,
    "-e": _COLOUR,
    "--input_encoding": _COLOUR,
    "--desired_input_color_encoding": _COLOUR,
    "--custom_io": _CUSTOM_IO,
    "--dump_custom_io_config_template": _CUSTOM_IO,
    "--dump_qairt_io_config_yaml": _CUSTOM_IO,
    "--dump_config_template": _CUSTOM_IO,
    "--config": _CUSTOM_IO,
    "--preserve_io": _KEPT_IO,
    "--preserve_io_datatype": _KEPT_IO,
    "--preserve_onnx_output_order": "omit it: outputs keep the model's order",
    "-n": _NO_SIMPLIFIER,
    "--no_simplification": _NO_SIMPLIFIER,
    "-oss": _NO_SIMPLIFIER,
    "--onnx_skip_simplification": _NO_SIMPLIFIER,
    "--onnx_perform_sequence_construct_optimizer": "omit it: sequences of known length are dissolved",
    "--quantization_overrides": f"{_QUANTIZER}: xdlc-quant --quantization_overrides FILE",
    "-q": f"{_QUANTIZER}: xdlc-quant --quantization_overrides FILE",
    "--keep_quant_nodes": "omit it: QuantizeLinear and DequantizeLinear become encodings of tensors",
    "--export_format": "omit it; without encodings: xdlc-to-onnx --encodings none, converted again",
    "--float_bitwidth": _FLOAT16,
    "--float_bw": _FLOAT16,
    "--float_bias_bw": _FLOAT16,
    "--float_bias_bitwidth": _FLOAT16,
    "--input_list": f"{_QUANTIZER}: xdlc-quant --input_list FILE",
    "--param_quantizer": _QUANTIZER,
    "--act_quantizer": _QUANTIZER,
    "--act_bw": _QUANTIZER,
    "--act_bitwidth": _QUANTIZER,
    "--weight_bw": _QUANTIZER,
    "--weights_bitwidth": _QUANTIZER,
    "--bias_bw": _QUANTIZER,
    "--bias_bitwidth": _QUANTIZER,
    "--algorithms": _QUANTIZER,
    "--use_per_channel_quantization": _QUANTIZER,
    "--use_per_row_quantization": _QUANTIZER,
    "--float_fallback": f"{_QUANTIZER}: xdlc-quant --enable_float_fallback",
    "--udo_package_path": "write --udo_config_paths FILE; xdlc-quant and xdlc-net-run take kernels",
    "--validation_target": _SOC_CHECK,
    "--target_soc_model": _SOC_CHECK,
    "--target_backend": "omit it: a DLC is for every backend; " + _SOC_CHECK + ", to check it for HTP",
    "--soc": _SOC_CHECK,
    "--htp_socs": "convert without it, then xdlc-graph-prepare --htp_socs SOC",
    "--arch_checker": _SOC_CHECK,
    "--strict": _STRICT,
    "--enable_strict_validation": _STRICT,
    "--onnx_validate_models": "write --dry_run, which lists every problem",
    "--onnx_summary": "write --dry_run debug, which lists nodes and ops",
    "--enable_framework_trace": _TRACE,
    "--copyright_file": _VERSION_TEXT,
    "--model_version": _VERSION_TEXT,
    "--set_model_version": _VERSION_TEXT,
    "--keep_disconnected_nodes": "omit it, and name values to keep with --out_name",
    "--remove_unused_inputs": "omit it: an input that nothing reads stays, as callers feed it",
    "--expand_lstm_op_structure": "omit it: what HTP has no op for is written in ops that it has",
    "--apply_masked_softmax": "omit it: masks stay ops of their own",
    "--caffe_txt": "export the model as ONNX: only ONNX is read",
    "--caffe_bin": "export the model as ONNX: only ONNX is read",
    "--saved_model_tag": "export the model with tf2onnx: only ONNX is read",
    "--saved_model_signature_key": "export the model with tf2onnx: only ONNX is read",
    "--signature_name": "export the model with tf2onnx: only ONNX is read",
    "-sn": "export the model with tf2onnx: only ONNX is read",
    "--tflite_signature_name": "export the model with tf2onnx: only ONNX is read",
    "--show_unconsumed_nodes": "export the model with tf2onnx: only ONNX is read",
    "--dump_relay": "omit it: ONNX is read, without Relay",
}

_QUANT = {
    "--input": "write --input_dlc",
    "--output": "write --output_dlc",
    "--output_path": "write --output_dlc",
    "--calibration_list": "write --input_list",
    "--weight_bw": "write --weights_bitwidth",
    "--weight_bitwidth": "write --weights_bitwidth",
    "--activation_bitwidth": "write --act_bitwidth",
    "--float_bw": "write --float_bitwidth",
    "--float_bias_bitwidth": "omit it: biases of float ops have --float_bitwidth",
    "--float_bias_bw": "omit it: biases of float ops have --float_bitwidth",
    "--use_native_output_files": "omit it: quantizing writes no outputs; xdlc-net-run has the flag",
    "--use_native_dtype": "write --use_native_input_files",
    "--keep_weights_quantized": "omit it: weights of ops that stay float stay float",
    "--use_aimet_quantizer": "write --algorithms adaround (or cle, seqmse...): they need no AIMET",
    "--config": _FLAGS,
    "-c": _FLAGS,
    "--preserve_io_datatype": "omit it, and give xdlc-graph-prepare --use_float_io",
    "-opl": "write --udo_package_path LIBRARY",
    "--op_package_lib": "write --udo_package_path LIBRARY",
    "--export_stripped_dlc": "omit it: a result has nothing that is not needed to run it",
    "--target_backend": "omit it, or write --target SOC for a SoC with HTP",
    "--ignore_encodings": "write --requantize",
    "--clip_alpha": "write --act_quantizer_calibration percentile, with --percentile_calibration_value",
    "--skip_quantization": "omit xdlc-quant: the float DLC can be prepared and run",
    "--soc": "write --target SOC",
    "--htp_socs": "write --target SOC; xdlc-graph-prepare compiles for SoCs",
    "--mixed_precision": "write --min_sqnr DB",
}

_PREPARE = {
    "-i": "write --input_dlc",
    "-o": "write --output_dlc",
    "--input": "write --input_dlc",
    "--output": "write --output_dlc",
    "--output_path": "write --output_dlc",
    "--soc": "write --htp_socs",
    "--socs": "write --htp_socs",
    "--target": "write --htp_socs",
    "--set_unconsumed_as_output": "write --set_output_tensors T1,T2 with their names",
    "--set_outputs": "write --set_output_tensors T1,T2",
}

_RUN = {
    "--input_dlc": "write --container",
    "-i": "write --container",
    "--dlc": "write --container",
    "--dlc_path": "write --container",
    "--model": "write --container",
    "-o": "write --output_dir",
    "--output_path": "write --output_dir",
    "-l": "write --input_list",
    "--use_cpu": _CPU,
    "--use_gpu": _NO_GPU,
    "--gpu_mode": _NO_GPU,
    "--use_dsp": _HTP,
    "--use_htp": _HTP,
    "--runtime_order": "write --runtime cpu or htp; with htp, --enable_cpu_fallback for what HTP refuses",
    "--backend": "write --runtime cpu or htp",
    "--target": _HTP,
    "--storage_dir": _CACHED,
    "--enable_init_cache": _CACHED,
    "--encoding_type": "omit it, and convert colours before: files hold what the input takes",
    "--tensor_mode": _BUFFERS,
    "--userbuffer_auto": _BUFFERS,
    "--userbuffer_float": _BUFFERS,
    "--userbuffer_floatN": _BUFFERS,
    "--userbuffer_tf8": _BUFFERS,
    "--userbuffer_tfN": _BUFFERS,
    "--userbuffer_float_output": _BUFFERS,
    "--userbuffer_tf8_output": _BUFFERS,
    "--userbuffer_tfN_output": _BUFFERS,
    "--userbuffer_memorymapped": _BUFFERS,
    "--userbuffer_glbuffer": _BUFFERS,
    "--static_min_max": _BUFFERS,
    "--data_type_map": _BUFFERS,
    "--set_unconsumed_as_output": "write --set_output_tensors T1,T2 with their names",
    "--set_output_layers": "write a line `#op1 op2` as the first of the input list",
    "--resizable_dim": _RESIZE,
    "--input_name": _RESIZE,
    "--input_dimensions": _RESIZE,
    "--input_dim": _RESIZE,
    "--perf_profile": _DEVICE,
    "--perf_config_yaml": _DEVICE,
    "--priority_hint": _DEVICE,
    "--profiling_level": "omit it: times of the host are not those of a device",
    "--duration": "omit it: each line of the input list runs once",
    "--inferences_per_duration": "omit it: each line of the input list runs once",
    "--num_inferences": "omit it: each line of the input list runs once",
    "--iterations": "omit it: each line of the input list runs once",
    "--timeout": "write --loop_timeout for loops, --udo_timeout for UDOs",
    "--graph_init": "omit it: the main graph runs",
    "--graph_execute": "omit it: the main graph runs",
    "--synchronous": "omit it: inferences run one after the other",
}

_INFO = {
    "-s": "write --json, and redirect it: > FILE.json",
    "--save": "write --json, and redirect it: > FILE.json",
    "-m": _MEMORY,
    "--display_memory": _MEMORY,
    "--display_all_encodings": "write --encodings",
    "--dump_framework_trace": "write --trace",
    "--dump_caches": "write --caches",
}

_ONNX = {
    "--input": "write --input_dlc",
    "--container": "write --input_dlc",
    "--output": "write --output_path",
    "--output_onnx": "write --output_path",
}

OPTIONS = {
    "xdlc-convert": _CONVERTER,
    "xdlc-quant": _QUANT,
    "xdlc-quantize": {name: fix for name, fix in _QUANT.items() if name != "--htp_socs"},
    "xdlc-graph-prepare": _PREPARE,
    "xdlc-net-run": _RUN,
    "xdlc-info": _INFO,
    "xdlc-to-onnx": _ONNX,
}
"""Fixes by tool and option; those of ``xdlc-convert`` are those of the tools for one framework too."""


def meant(tool: str, word: str) -> str | None:
    """Return the fix for an option that a tool lacks, if there is one."""
    own = OPTIONS.get("xdlc-convert" if tool.startswith("xconv-") else tool, {})
    return own.get(word) or EVERYWHERE.get(word)
