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


def _each(options: str, fix: str) -> dict[str, str]:
    """Return one fix by each of some options, which are separated by blanks."""
    return dict.fromkeys(options.split(), fix)


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
    "-q": "write --quiet",
    **_each("--debug1 --debug2 --debug3 --log-mask --log_level --userlogs", _LOG),
    **_each("--log-file --log-dir --log-file-include-hostname", _LOG_FILE),
    "-v": "write --verbose for logs, --version for the version",
    "-V": "write --version",
    "--platform_options": _PLATFORM,
}

_CONVERTER = {
    **_each("--input --model --onnx --graph", "write --input_network"),
    **_each("--output --output_dlc --dlc", "write --output_path"),
    **_each("--input_shape --source_model_input_shape", _SHAPE),
    "--batch_size": "write --batch N",
    "--onnx_override_batch": "write --batch N",
    "--onnx_define_symbol": "write --define_symbol SYMBOL N",
    **_each("--out_tensor_node --output_layer --output_layers", _OUT),
    **_each("--in_node --in_dim --in_layer --in_layers --input_layers", _SHAPE),
    "--tf_saved_model_tag": "write --saved_model_tag TAG",
    "--tf_saved_model_signature_key": "write --saved_model_signature_key KEY",
    "--tf_show_unconsumed_nodes": "write --show_unconsumed_nodes",
    "--tf_override_batch": "write --batch N",
    **_each("--tf_summary --tf_validate_models", "write --dry_run debug, which lists nodes and ops"),
    "--allow_unconsumed_nodes": "omit it: nodes that no output needs are dropped",
    **_each("--tf_no_optimization --tf_disable_optimization", _NO_SIMPLIFIER),
    "--out_names": "write --out_name TENSOR",
    "--out_tensor_name": "write --out_name TENSOR",
    **_each(
        "-t --input_type --input_dtype --source_model_input_datatype -l --input_layout --in_type "
        "--opaque_input --source_model_input_layout --source_model_output_layout",
        _SOURCE_IO,
    ),
    **_each("--desired_input_layout --desired_output_layout --preserve_io --preserve_io_datatype", _KEPT_IO),
    **_each("-e --encoding --input_encoding --desired_input_color_encoding", _COLOUR),
    **_each(
        "--custom_io --dump_custom_io_config_template --dump_qairt_io_config_yaml "
        "--dump_config_template --config",
        _CUSTOM_IO,
    ),
    "--preserve_onnx_output_order": "omit it: outputs keep the model's order",
    **_each("-n --no_simplification -oss --onnx_skip_simplification", _NO_SIMPLIFIER),
    "--onnx_perform_sequence_construct_optimizer": "omit it: sequences of known length are dissolved",
    **_each("--quantization_overrides -q", f"{_QUANTIZER}: xdlc-quant --quantization_overrides FILE"),
    "--keep_quant_nodes": "omit it: QuantizeLinear and DequantizeLinear become encodings of tensors",
    "--export_format": "omit it; without encodings: xdlc-to-onnx --encodings none, converted again",
    **_each("--float_bitwidth --float_bw --float_bias_bw --float_bias_bitwidth", _FLOAT16),
    "--input_list": f"{_QUANTIZER}: xdlc-quant --input_list FILE",
    **_each(
        "--param_quantizer --act_quantizer --act_bw --act_bitwidth --weight_bw --weights_bitwidth "
        "--bias_bw --bias_bitwidth --algorithms --use_per_channel_quantization "
        "--use_per_row_quantization",
        _QUANTIZER,
    ),
    "--float_fallback": f"{_QUANTIZER}: xdlc-quant --enable_float_fallback",
    "--udo_package_path": "write --udo_config_paths FILE; xdlc-quant and xdlc-net-run take kernels",
    **_each("--validation_target --target_soc_model --soc --arch_checker", _SOC_CHECK),
    "--target_backend": "omit it: a DLC is for every backend; " + _SOC_CHECK + ", to check it for HTP",
    "--htp_socs": "convert without it, then xdlc-graph-prepare --htp_socs SOC",
    **_each("--strict --enable_strict_validation", _STRICT),
    "--onnx_validate_models": "write --dry_run, which lists every problem",
    "--onnx_summary": "write --dry_run debug, which lists nodes and ops",
    "--enable_framework_trace": _TRACE,
    **_each("--copyright_file --model_version --set_model_version", _VERSION_TEXT),
    "--keep_disconnected_nodes": "omit it, and name values to keep with --out_name",
    "--remove_unused_inputs": "omit it: an input that nothing reads stays, as callers feed it",
    "--expand_lstm_op_structure": "omit it: what HTP has no op for is written in ops that it has",
    "--apply_masked_softmax": "omit it: masks stay ops of their own",
    **_each("--caffe_txt --predict_net", "write --input_network FILE"),
    "--input_size": "write --input_dim NAME 1,3,HEIGHT,WIDTH",
    "--enable_preprocessing": "omit it, and subtract means and crop before the net",
    **_each("--udl --udl_path --udo", "write --udo_config_paths FILE, or --plugin FILE.py"),
    "--tflite_signature_name": "write --signature_name",
    "--dump_relay": "omit it: models are read without Relay",
}

_CAFFE = {
    "--predict_net": "write --caffe_txt FILE; networks of Caffe2: xconv-caffe2-to-dlc",
    **_each("--exec_net --init_net", "write --caffe_bin FILE; networks of Caffe2: xconv-caffe2-to-dlc"),
    **_each("-w --model_weights --caffemodel", "write --caffe_bin FILE"),
    "--prototxt": "write --caffe_txt FILE",
}
_CAFFE2 = {
    "--caffe_txt": "write --predict_net FILE; nets of Caffe: xconv-caffe-to-dlc",
    "--caffe_bin": "write --exec_net FILE; nets of Caffe: xconv-caffe-to-dlc",
    **_each("-w --model_weights", "write --exec_net FILE"),
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
    **_each("--config -c", _FLAGS),
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
    "--input": "write --input_dlc",
    **_each("-o --output --output_path", "write --output_dlc"),
    **_each("--soc --socs --target", "write --htp_socs"),
    "--set_unconsumed_as_output": "write --set_output_tensors T1,T2 with their names",
    "--set_outputs": "write --set_output_tensors T1,T2",
}

_RUN = {
    **_each("--input_dlc -i --dlc --dlc_path --model", "write --container"),
    "-o": "write --output_dir",
    "--output_path": "write --output_dir",
    "-l": "write --input_list",
    "--use_cpu": _CPU,
    **_each("--use_gpu --gpu_mode", _NO_GPU),
    **_each("--use_dsp --use_htp --target", _HTP),
    "--runtime_order": "write --runtime cpu or htp; with htp, --enable_cpu_fallback for what HTP refuses",
    "--backend": "write --runtime cpu or htp",
    **_each("--storage_dir --enable_init_cache", _CACHED),
    "--encoding_type": "omit it, and convert colours before: files hold what the input takes",
    **_each(
        "--tensor_mode --userbuffer_auto --userbuffer_float --userbuffer_floatN --userbuffer_tf8 "
        "--userbuffer_tfN --userbuffer_float_output --userbuffer_tf8_output "
        "--userbuffer_tfN_output --userbuffer_memorymapped --userbuffer_glbuffer --static_min_max "
        "--data_type_map",
        _BUFFERS,
    ),
    "--set_unconsumed_as_output": "write --set_output_tensors T1,T2 with their names",
    "--set_output_layers": "write a line `#op1 op2` as the first of the input list",
    **_each("--resizable_dim --input_name --input_dimensions --input_dim", _RESIZE),
    **_each("--perf_profile --perf_config_yaml --priority_hint", _DEVICE),
    "--profiling_level": "omit it: times of the host are not those of a device",
    **_each(
        "--duration --inferences_per_duration --num_inferences --iterations",
        "omit it: each line of the input list runs once",
    ),
    "--timeout": "write --loop_timeout for loops, --udo_timeout for UDOs",
    "--graph_init": "omit it: the main graph runs",
    "--graph_execute": "omit it: the main graph runs",
    "--synchronous": "omit it: inferences run one after the other",
}

_INFO = {
    "-s": "write --json, and redirect it: > FILE.json",
    "--save": "write --json, and redirect it: > FILE.json",
    **_each("-m --display_memory", _MEMORY),
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
    "xconv-caffe-to-dlc": _CAFFE,
    "xconv-caffe2-to-dlc": _CAFFE2,
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
    shared = _CONVERTER if tool.startswith("xconv-") else {}
    return OPTIONS.get(tool, shared).get(word) or shared.get(word) or EVERYWHERE.get(word)
