"""Extension of Google's Model Explorer that opens DLCs.

``model-explorer net.dlc --extensions=xdlc.model_explorer`` loads the module ``main``.
"""
