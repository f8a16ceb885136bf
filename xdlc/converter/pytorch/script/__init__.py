"""TorchScript: archives, and the evaluation of their code to calls of operators."""
