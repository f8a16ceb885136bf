"""The quantizers to compare: functions from a task to a runner of the result.

A tool imports what it needs, then works inside ``with task.timed():``; what it returns takes the feeds of
one inference and gives outputs in the order of the float model's.
"""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Feeds = dict[str, Any]
Run = Callable[[Feeds], list[Any]]
WIDTHS = {"W8A8": (8, 8), "W4A8": (4, 8), "W8A16": (8, 16)}


def status(key: str) -> float:
    """Return an entry of this process's memory status in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    return 0.0


@dataclass
class Task:
    """One quantization.

    Attributes:
        model: The float ONNX file.
        setting: A key of ``WIDTHS``.
        calibration: Feeds of each calibration sample.
        outputs: Names of the float model's outputs.
        scratch: Folder for what the tool writes.
        seconds: Time of calibrating and quantizing, without imports.
        peak: Largest resident memory of the process until then, MB.
    """

    model: Path
    setting: str
    calibration: list[Feeds]
    outputs: list[str]
    scratch: Path
    seconds: float = 0.0
    peak: float = 0.0
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def weight_bits(self) -> int:
        return WIDTHS[self.setting][0]

    @property
    def act_bits(self) -> int:
        return WIDTHS[self.setting][1]

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds = time.perf_counter() - start
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        self.peak = max(status("VmHWM"), children)


def session(path: Path, *, optimized: bool) -> Any:
    """Return an onnxruntime session on the CPU."""
    import onnxruntime as ort

    levels = ort.GraphOptimizationLevel
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def runner(task: Task, path: Path) -> Run:
    """Return what runs a QDQ file as it is written."""
    opened = session(path, optimized=False)
    return lambda feeds: opened.run(task.outputs, feeds)


def plain(task: Task) -> Run:
    """The float model, for its time and memory."""
    import onnxruntime  # noqa: F401

    with task.timed():
        opened = session(task.model, optimized=True)
        for feeds in task.calibration:
            opened.run(None, feeds)
    return lambda feeds: opened.run(task.outputs, feeds)


def ours(**options: Any) -> Callable[[Task], Run]:
    """xdlc; what is run is the DLC as read back from disk."""

    def quantize(task: Task) -> Run:
        import xdlc
        from xdlc.runtime.cpu import CpuSession

        path = task.scratch / "quantized.dlc"
        model = xdlc.convert(task.model)
        options.update(weights_bitwidth=task.weight_bits, act_bitwidth=task.act_bits)
        with task.timed():
            xdlc.quantize(model, task.calibration, **options).save(path)
        opened = CpuSession(xdlc.load(path))
        return lambda feeds: [opened.run(feeds)[name] for name in task.outputs]

    return quantize


def onnxruntime_static(method: str) -> Callable[[Task], Run]:
    """onnxruntime's quantize_static: QDQ, weights symmetric per channel."""

    def quantize(task: Task) -> Run:
        from onnxruntime import quantization as ortq

        class Reader(ortq.CalibrationDataReader):  # type: ignore[misc]
            left = iter(task.calibration)

            def get_next(self) -> Feeds | None:
                return next(self.left, None)

        kinds = ortq.QuantType
        path = task.scratch / "quantized.onnx"
        with task.timed():
            ortq.quantize_static(
                str(task.model),
                str(path),
                Reader(),
                quant_format=ortq.QuantFormat.QDQ,
                per_channel=True,
                weight_type=kinds.QInt4 if task.weight_bits == 4 else kinds.QInt8,
                activation_type=kinds.QUInt16 if task.act_bits == 16 else kinds.QUInt8,
                calibrate_method=ortq.CalibrationMethod[method],
                extra_options={"ActivationSymmetric": False, "WeightSymmetric": True},
            )
        return runner(task, path)

    return quantize


def nncf(task: Task) -> Run:
    """NNCF's ONNX backend; activations forced per tensor, as all others have them."""
    import nncf as tool
    import onnx
    from nncf.quantization import advanced_parameters as advanced

    path = task.scratch / "quantized.onnx"
    per_tensor = advanced.QuantizationParameters(per_channel=False)
    parameters = advanced.AdvancedQuantizationParameters(activations_quantization_params=per_tensor)
    with task.timed():
        count = len(task.calibration)
        dataset = tool.Dataset(task.calibration)
        model = onnx.load(task.model)
        onnx.save(tool.quantize(model, dataset, subset_size=count, advanced_parameters=parameters), str(path))
    return runner(task, path)


def neural_compressor(task: Task) -> Run:
    """Intel's onnx-neural-compressor, per tensor: its per-channel files do not run."""
    from onnx_neural_compressor import data_reader
    from onnx_neural_compressor import quantization as incq
    from onnx_neural_compressor.quantization import config

    class Reader(data_reader.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rewind()

        def get_next(self) -> Feeds | None:
            return next(self.left, None)

        def rewind(self) -> None:
            self.left = iter(task.calibration)

    path = task.scratch / "quantized.onnx"
    with task.timed():
        options = config.StaticQuantConfig(
            calibration_data_reader=Reader(),
            calibrate_method=incq.CalibrationMethod.MinMax,
            per_channel=False,
            quant_format=incq.QuantFormat.QDQ,
        )
        incq.quantize(str(task.model), str(path), options)
    return runner(task, path)


def aimet(
    scheme: str, *, equalize: bool = False, seqmse: bool = False, adaround: int = 0
) -> Callable[[Task], Run]:
    """AIMET's ONNX package; ``adaround`` is its number of iterations a layer."""

    def quantize(task: Task) -> Run:
        import aimet_onnx
        import onnx
        from aimet_onnx.common.defs import QuantScheme
        from aimet_onnx.common.quantsim_config.utils import get_path_for_per_channel_config
        from aimet_onnx.cross_layer_equalization import equalize_model
        from aimet_onnx.quantsim import QuantizationSimModel

        schemes = {"mm": QuantScheme.min_max, "tfe": QuantScheme.post_training_tf_enhanced}
        with task.timed():
            model = onnx.load(task.model)
            if equalize:
                equalize_model(model)
            simulation = QuantizationSimModel(
                model,
                param_type=aimet_onnx.int4 if task.weight_bits == 4 else aimet_onnx.int8,
                activation_type=aimet_onnx.int16 if task.act_bits == 16 else aimet_onnx.int8,
                quant_scheme=schemes[scheme],
                config_file=get_path_for_per_channel_config(),
                providers=["CPUExecutionProvider"],
                dummy_input=task.calibration[0],
            )
            if seqmse:
                aimet_onnx.apply_seq_mse(simulation, task.calibration)
            if adaround:
                aimet_onnx.apply_adaround(simulation, task.calibration, num_iterations=adaround)
            with aimet_onnx.compute_encodings(simulation):
                for feeds in task.calibration:
                    simulation.session.run(None, feeds)
        return lambda feeds: simulation.session.run(None, feeds)

    return quantize


@dataclass(frozen=True)
class Tool:
    """A tool.

    Attributes:
        run: What quantizes.
        settings: The settings that it is asked for.
        python: Which interpreter it needs: "own", or the name of a peer's.
    """

    run: Callable[[Task], Run]
    settings: tuple[str, ...] = ("W8A8", "W4A8", "W8A16")
    python: str = "own"


ALL, EIGHT, FOUR = ("W8A8", "W4A8", "W8A16"), ("W8A8",), ("W4A8",)
METHODS = ("min-max", "percentile", "entropy", "mse", "sqnr")
TOOLS = {
    "float": Tool(plain, ("W8A8",)),
    "xdlc": Tool(ours()),
    **{f"xdlc-{name}": Tool(ours(act_quantizer_calibration=name), ("W8A8", "W8A16")) for name in METHODS},
    "xdlc-seqmse": Tool(ours(algorithms=("seqmse",)), FOUR),
    "xdlc-adaround": Tool(ours(algorithms=("adaround",)), FOUR),
    "ort-minmax": Tool(onnxruntime_static("MinMax"), ALL, "ort"),
    "ort-percentile": Tool(onnxruntime_static("Percentile"), ALL, "ort"),
    "ort-entropy": Tool(onnxruntime_static("Entropy"), EIGHT, "ort"),
    "nncf": Tool(nncf, EIGHT, "nncf"),
    "inc": Tool(neural_compressor, EIGHT, "inc"),
    "aimet-mm": Tool(aimet("mm"), ALL, "aimet"),
    "aimet-tfe": Tool(aimet("tfe"), ALL, "aimet"),
    "aimet-cle": Tool(aimet("tfe", equalize=True), ("W8A8", "W4A8"), "aimet"),
    "aimet-seqmse": Tool(aimet("mm", seqmse=True), FOUR, "aimet"),
    "aimet-adaround": Tool(aimet("mm", adaround=1000), FOUR, "aimet"),
    "aimet-seqmse-adaround": Tool(aimet("mm", seqmse=True, adaround=1000), FOUR, "aimet"),
}
