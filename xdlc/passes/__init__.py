"""Graph passes: each rewrites a graph and preserves its results."""

from xdlc.passes.base import STAGES, FailedPass, Pass, find, graph_pass, htp_query, names, run, stage

__all__ = ["STAGES", "FailedPass", "Pass", "find", "graph_pass", "htp_query", "names", "run", "stage"]
