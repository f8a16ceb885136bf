"""Fixed-point sums and products with the roundings of HTP."""
