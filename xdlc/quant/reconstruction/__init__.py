"""Reconstruction: weights fitted so that each layer computes its float results from quantized inputs.

``sites`` finds the layers, ``layout`` makes matrix products of them, ``walk`` runs the float and the
quantized network side by side, ``problem`` sums up what a layer has to fit and ``damping`` how
closely, ``rounding`` and ``scales`` solve that, ``network`` goes through all layers and keeps what
holds on samples held out.
"""
