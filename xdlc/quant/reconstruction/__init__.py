"""Reconstruction: weights fitted to the float results of each layer.

``sites`` finds the layers and makes matrix products of them.  ``network`` runs the float and the quantized
network side by side, fits one layer after the other, and keeps what helps on samples held out.  ``problem``
has the least squares problem of a layer, its damping, and the integers and scales that solve it.
"""
