"""Importer of PyTorch: programs of torch.export and TorchScript, read without torch."""
