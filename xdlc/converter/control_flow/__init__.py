"""Import of If, Loop and Scan as ``If`` and ``While`` with graphs of the model.

What a graph of the source reads of the graphs around it becomes inputs of the op; constants are copied
into the graph itself.  Conditions that are known leave only the chosen branch, small known numbers of
iterations are unrolled.
"""
