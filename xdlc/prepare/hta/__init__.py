"""HTA sections: which ops go on the accelerator, and their compilation into xdlc's own plans."""
