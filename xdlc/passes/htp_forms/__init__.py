"""Forms for HTP of what its library computes wrongly or does not support, by family of ops."""
