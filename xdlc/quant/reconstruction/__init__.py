"""Weights fitted so that each layer gives what it gives in float, fed with what quantized layers give.

``sites`` finds the layers, ``layout`` makes matrix products of them, ``walk`` runs the float and the
quantized network side by side, ``problem`` sums up what a layer has to fit, ``rounding`` and
``scales`` solve that, ``damping`` says how closely, ``network`` goes through all layers and keeps what holds on other samples.
"""
