"""Forms for HTP of what its library computes wrongly or does not support, a file for each."""
