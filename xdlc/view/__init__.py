"""Page that shows the graph of a model, or of two models side by side."""
