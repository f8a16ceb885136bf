"""Keras networks with random weights as SavedModel and .tflite files.

    python keras_networks.py FOLDER

Runs where TensorFlow is, without xdlc.  Each network has a folder with ``saved_model``, ``float.tflite``,
``int8.tflite`` and ``results.npz``: ``x`` and the results of TensorFlow and of LiteRT.
"""

import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

SIZE = 64


def networks():
    """Yield names and networks for images of SIZE."""
    import keras
    from keras import layers

    shape = (SIZE, SIZE, 3)
    yield "mobilenet_v2", keras.applications.MobileNetV2(shape, 0.35, weights=None, classes=10)
    yield "mobilenet_v3", keras.applications.MobileNetV3Small(shape, weights=None, classes=10)
    x = start = keras.Input(shape)
    x = layers.Rescaling(1 / 127.5, -1)(x)
    x = layers.Conv2D(16, 3, 2, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.PReLU(shared_axes=[1, 2])(x)
    x = layers.Conv2D(16, 3, padding="same", dilation_rate=2)(x)
    side = layers.BatchNormalization()(x)
    x = layers.Activation("silu")(side)
    x = layers.LayerNormalization(epsilon=1e-6)(layers.Add()([x, side]))
    x = layers.Dense(32, activation="gelu")(x)
    x = layers.Dense(16)(x)
    x = layers.UnitNormalization()(x)
    x = layers.Reshape((-1, 16))(layers.MaxPooling2D(4)(x))
    x = layers.Conv1D(8, 3, padding="causal", activation="hard_sigmoid")(x)
    x = layers.GlobalAveragePooling1D()(x)
    yield "formulas", keras.Model(start, layers.Dense(10)(x))


def write(name, model, folder):
    """Write a network in all forms, with the results of each."""
    import numpy as np
    import tensorflow as tf
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    rng = np.random.default_rng(7)
    for weight in model.weights:
        low, high = (0.5, 1.5) if weight.path.endswith(("moving_variance", "gamma")) else (-0.2, 0.2)
        if len(weight.shape) == 1 or weight.path.endswith("alpha"):
            weight.assign(rng.uniform(low, high, weight.shape))
    x = rng.uniform(0, 255, (1, SIZE, SIZE, 3)).astype(np.float32)
    model.export(str(folder / "saved_model"), verbose=False)
    results = {"x": x, "saved_model": model(x, training=False).numpy()}
    signature = tf.TensorSpec(x.shape, tf.float32)
    frozen = convert_variables_to_constants_v2(
        tf.function(lambda value: model(value, training=False)).get_concrete_function(signature)
    )
    (folder / "frozen.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())
    for form in ("float", "int8"):
        converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
        if form == "int8":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: (
                [rng.uniform(0, 255, x.shape).astype(np.float32)] for _ in range(8)
            )
        content = converter.convert()
        (folder / f"{form}.tflite").write_bytes(content)
        kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        runner = Interpreter(model_content=content, experimental_op_resolver_type=kernels)
        runner.allocate_tensors()
        runner.set_tensor(runner.get_input_details()[0]["index"], x)
        runner.invoke()
        results[form] = runner.get_tensor(runner.get_output_details()[0]["index"])
    np.savez(folder / "results.npz", **results)


if __name__ == "__main__":
    for each, made in networks():
        (Path(sys.argv[1]) / each).mkdir()
        write(each, made, Path(sys.argv[1]) / each)
