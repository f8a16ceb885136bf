"""Wrong uses of the Python interface, with the code of mypy's error for each."""

from __future__ import annotations

import numpy as np

import xdlc

FEEDS = {"x": np.zeros(4, np.float32)}
model = xdlc.convert("net.onnx")
xdlc.convert("net.onnx", input_dim={"x": (1, 3)})  # call-arg
xdlc.convert("net.onnx", desired_input_layout="NHWC")  # arg-type
xdlc.quantize(model, [FEEDS], act_bw=8)  # call-arg
xdlc.quantize(model, [FEEDS], act_bitwidth="8")  # arg-type
xdlc.quantize(model, [FEEDS], loop_timeout="2 s")  # arg-type
xdlc.prepare(model, socs=["sm8650"], htp_soc="sm8650")  # call-arg
xdlc.prepare(model, ["sm8650"]).write("net.dlc")  # attr-defined
xdlc.run(model, FEEDS, "gpu")  # arg-type
xdlc.run(model, [FEEDS])  # arg-type
xdlc.run(model, FEEDS, sok="sm8650")  # call-arg
xdlc.sesion(model)  # attr-defined
with xdlc.Session(model, "htp", soc="sm8650", mode="strict") as session:
    print(session.run(FEEDS)["y"].shapes)  # attr-defined
    session.run(FEEDS, nativ=True)  # call-arg
    session.run_batch(FEEDS["x"], native="yes")  # arg-type
    session.submit(FEEDS, deadline="1")  # arg-type
    session.submit(FEEDS)["y"]  # index
    session.profile(FEEDS, runs=2.5)  # arg-type
    print(session.profile(FEEDS).op)  # attr-defined
    session.finish()  # attr-defined
xdlc.Session(model, mode="lax")  # arg-type
xdlc.Session(model, threads="2")  # arg-type
xdlc.to_onnx(model)  # call-arg
xdlc.save("net.dlc", model)  # arg-type
number: int = xdlc.verdicts("net.dlc", "sm8650")  # assignment
