"""Handlers of losses and distances, against formulas in double precision."""

import math

import numpy as np
import pytest

from tests.converter.pytorch.cases import check, rows
from tests.converter.pytorch.programs import results
from xdlc.errors import ModelError

NONE, MEAN, SUM = range(3)
RNG = np.random.default_rng(5)
X, Y = (RNG.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
P, Q, W = (RNG.random(shape).astype(np.float32) for shape in ((3, 4), (3, 4), (4,)))
T = np.array([1, -100, 3])
SIGN = np.sign(Y)
LOGITS = X - np.log(np.exp(X).sum(1, keepdims=True))
PICKED = -np.take_along_axis(LOGITS, np.array([[1], [0], [3]]), 1)[:, 0] * [1, 0, 1]
EVEN = -LOGITS.mean(1) * [1, 0, 1]
GAP = abs(X - Y)


def apart(x, y, order=2):
    return np.linalg.norm(x - y, order, -1)


COSINE = (X * Y).sum(1) / apart(X, 0) / apart(Y, 0)
CASES = [
    ("l1_loss", (X, Y, SUM), GAP.sum()),
    ("mse_loss", (X, Y), (GAP**2).mean()),
    ("huber_loss", (X, Y, NONE, 0.7), np.where(GAP < 0.7, GAP**2 / 2, 0.7 * (GAP - 0.35))),
    ("smooth_l1_loss", (X, Y, NONE, 0.0), GAP),
    ("soft_margin_loss", (X, SIGN), np.log1p(np.exp(-X * SIGN)).mean()),
    ("kl_div", (X, np.where(Q > 0.5, Q, 0), NONE), np.where(Q > 0.5, Q * (np.log(Q) - X), 0)),
    ("kl_div", (X, Y, SUM, True), (np.exp(Y) * (Y - X)).sum()),
    ("binary_cross_entropy", (np.float32([0, 1]), np.float32([1, 1]), None, NONE), [100, 0]),
    ("binary_cross_entropy_with_logits", (X, Q, None, W, NONE),
     (1 - Q) * X + (1 + (W - 1) * Q) * (np.log1p(np.exp(-abs(X))) + np.maximum(-X, 0))),
    ("margin_ranking_loss", (X, Y, SIGN, 0.5, SUM), np.maximum(-SIGN * (X - Y) + 0.5, 0).sum()),
    ("hinge_embedding_loss", (X, SIGN, 0.5, NONE), np.where(SIGN == 1, X, np.maximum(0.5 - X, 0))),
    ("poisson_nll_loss", (X, np.float32([0, 1, 2, 3]), True, True, 1e-8, NONE),
     np.exp(X) - np.arange(4) * X + [0, 0, 2 * np.log(2) - 2 + np.log(4 * np.pi) / 2,
                                     3 * np.log(3) - 3 + np.log(6 * np.pi) / 2]),
    ("cosine_embedding_loss", (X, Y, np.array([1, -1, -1]), -0.5, NONE),
     np.where([1, 0, 0], 1 - COSINE, np.maximum(COSINE + 0.5, 0))),
    ("triplet_margin_loss", (X, Y, P, 1.0, 2.0, 0.0, True, NONE),
     np.maximum(apart(X, Y) - np.minimum(apart(X, P), apart(Y, P)) + 1, 0)),
    ("multi_margin_loss", (X[0], np.array(1), 2, 1.0, W),
     np.delete(W[1] * np.maximum(1 - X[0, 1] + X[0], 0) ** 2, 1).sum() / 4),
    ("cross_entropy_loss", (X, T), PICKED.sum() / 2),
    ("cross_entropy_loss", (X, T, None, NONE, -100, 0.2), 0.8 * PICKED + 0.2 * EVEN),
    ("cross_entropy_loss", (X, Q, W, SUM), -(LOGITS * W * Q).sum()),
    ("cross_entropy_loss", (X, Q, W, SUM, -100, -1.0), -(LOGITS * W * Q).sum()),
    ("cross_entropy_loss", (X, T, None, NONE, -100, -1.0), PICKED),
    ("nll_loss", (LOGITS, T, W), (PICKED * W[[1, 0, 3]]).sum() / W[[1, 3]].sum()),
    ("cosine_similarity", (X, Y, 1), COSINE),
    ("cosine_similarity", (X[:, :1], Y, 1), np.sign(X[:, 0]) * Y.sum(1) / apart(Y, 0) / 2),
    ("pairwise_distance", (X, Y), {"p": 1.0, "eps": 0.0, "keepdim": True}, apart(X, Y, 1)[:, None]),
    ("cdist", (X, Y), {"p": math.inf}, abs(X[:, None] - Y).max(-1)),
    ("pdist", (X,), apart(X[[0, 0, 1]], X[[1, 2, 2]])),
]  # fmt: skip


@rows(CASES)
def test_computes_losses(tmp_path, case):
    *call, expected = case
    check(tmp_path, (*call, np.asarray(expected, np.float32)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("soft_margin_loss", (X, SIGN, 3)),
        ("multi_margin_loss", (X[0], np.array(1), 1, 1.0, None, -1)),
        ("nll_loss", (LOGITS, T, None, 7)),
        ("cross_entropy_loss", (X, T, None, NONE, -100, 1.5)),
        ("gelu", (X, "erf")),
        ("scatter.value_reduce", (X, 0, T[:1, None], 2.0, "mean")),
        ("linalg_qr", (X, "full")),
    ],
)
def test_refuses_unknown_options(tmp_path, target, arguments):
    with pytest.raises(ModelError) as caught:
        results(tmp_path, target, *arguments, like=np.float32(0))
    assert caught.value.where
    assert caught.value.fix


def test_returns_the_weight_of_all_classes(tmp_path):
    want = [np.float32(PICKED @ W[[1, 0, 3]]), np.float32(W[[1, 3]].sum())]
    got = results(tmp_path, "nll_loss_forward", LOGITS, T, W, SUM, -100, like=want)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_multilabel_margin_ends_its_lists_at_the_first_minus_one(tmp_path):
    x, listed = np.float32([[0.1, 0.2, 0.4, 0.8]]), np.array([[3, 0, -1, 1]])
    want = np.float32(0.25 * sum(1 - (x[0, own] - x[0, other]) for own in (3, 0) for other in (1, 2)))
    np.testing.assert_allclose(
        results(tmp_path, "multilabel_margin_loss", x, listed, like=want), want, rtol=1e-5
    )
