"""HTA sections on the host: integer-only plans, their form in a record, and what executes them.

The vendor's compiler for the Hexagon Tensor Accelerator is not public.  A section is compiled into a plan of
xdlc's own (see ``docs/adr/0013``): a list of instructions on integers, with fixed-point multipliers, tables
and packed weights, and one arena in which all values have their place.
"""
