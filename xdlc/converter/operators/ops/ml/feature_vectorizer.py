"""FeatureVectorizer."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import joined, part
from xdlc.converter.operators.ops.ml._features import floats
from xdlc.converter.operators.registry import ML, Node, importer
from xdlc.converter.values import Value


@importer("FeatureVectorizer", domain=ML)
def feature_vectorizer(node: Node, b: Builder) -> Value:
    """Join the first ``inputdimensions`` features of each input, as float32."""
    parts = []
    for index, count in enumerate(node.attr("inputdimensions") or []):
        x = floats(node, b, node.required(index))
        x = b.reshape(x, (1, *x.shape)) if x.rank == 1 else x
        if x.rank != 2 or x.shape[1] != count:
            raise node.problem(f"{count} features of {list(x.shape)}")
        parts.append(part(b, x, 1, 0, count))
    if len(parts) != len(node.inputs):
        raise node.invalid(f"{len(parts)} numbers of features for {len(node.inputs)} inputs")
    return joined(b, parts, 1)
