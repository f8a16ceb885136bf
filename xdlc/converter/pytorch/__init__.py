"""Importer of PyTorch: torch.export and TorchScript, read without torch."""
