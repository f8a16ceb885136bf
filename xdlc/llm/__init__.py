"""Language models: from a checkpoint to the vendor's runtime of language models."""
