"""Equalization: factors per channel move from the op that writes an activation into its readers' weights.

The results stay what they are; the activation between gets channels of like range, so that one
scale serves them all, at the cost of weights whose inputs differ more.  Cross-layer equalization
(Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, 2019) and
SmoothQuant (Xiao et al., 2022) are this between convolutions and after norms.
"""
