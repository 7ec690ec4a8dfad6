"""The global objectives: segments of one heart are told from all others. Each row is contrasted with a pool."""

from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from engine.objectives.gathering import IMPOSSIBLE, gathered
from engine.precision import at_least_float32

TEMPERATURE = 0.1


class Pool(NamedTuple):
    vectors: Tensor  # [all rows, dim], float32
    identity: Tensor  # [all rows]: rows of one identity are each other's positives
    first: int  # the rows that this rank answers for begin here
    rows: int  # and are so many


class Contrast(NamedTuple):
    loss: Tensor  # its mean over ranks is the loss of the whole pool
    retrieval: Tensor  # share of the rows whose nearest other row is a positive
    chance: Tensor  # the loss of who cannot tell the candidates apart


def pool(vectors: Tensor, identity: Tensor, ranks: dist.ProcessGroup | None = None) -> Pool:
    """`vectors` [rows, dim], `identity` [rows], as many on every rank."""
    vectors, rows = at_least_float32(vectors), len(vectors)
    if ranks is None:
        return Pool(vectors, identity, 0, rows)
    return Pool(gathered(vectors, ranks), gathered(identity, ranks), dist.get_rank(ranks) * rows, rows)


def nt_xent(of: Pool) -> Contrast:
    """The paper's Eq. 3, the mean over all positive pairs: each against all other rows, other positives among them."""
    logits, positive, other = _compare(of)
    log_share = logits - logits.masked_fill(~other, IMPOSSIBLE).logsumexp(1, keepdim=True)
    losses = torch.where(positive, -log_share, 0)
    # The pairs of the whole pool, not this rank's: those would weigh a pair by where it happens to be.
    pairs = (of.identity.unsqueeze(0) == of.identity.unsqueeze(1)).sum() - len(of.identity)
    loss = losses.sum() / pairs * (len(of.identity) / of.rows)
    return Contrast(loss, _retrieval(logits, positive, other), other.sum(1).to(logits.dtype).log().mean())


def multi_positive(of: Pool) -> Contrast:
    """3KG's: one term for each positive, against it and what is not a positive; added up, over the number of rows."""
    logits, positive, other = _compare(of)
    negative = other & ~positive
    against = logits.masked_fill(~negative, IMPOSSIBLE).logsumexp(1, keepdim=True)
    losses = torch.where(positive, F.softplus(against - logits), 0)
    chance = negative.sum(1).to(logits.dtype).log1p() * positive.sum(1)
    return Contrast(losses.sum() / of.rows, _retrieval(logits, positive, other), chance.mean())


def _compare(of: Pool) -> tuple[Tensor, Tensor, Tensor]:
    """-> [rows, all rows] each: cosines over temperature, which are positives, which are other rows at all."""
    own = slice(of.first, of.first + of.rows)
    unit = F.normalize(of.vectors, dim=-1)
    logits = unit[own] @ unit.T / TEMPERATURE
    number = torch.arange(len(unit), device=unit.device)
    other = number[own].unsqueeze(1) != number
    return logits, other & (of.identity[own].unsqueeze(1) == of.identity), other


def _retrieval(logits: Tensor, positive: Tensor, other: Tensor) -> Tensor:
    nearest = logits.detach().masked_fill(~other, IMPOSSIBLE).argmax(1, keepdim=True)
    return positive.gather(1, nearest).float().mean()


def first_against_second(vectors: Tensor, identity: Tensor) -> Contrast:
    """The reference's: first segments against second ones, both ways; the norms are constants to the gradient.

    `vectors` [pairs, 2, dim], `identity` [pairs].
    """
    vectors = at_least_float32(vectors)
    unit = vectors / vectors.detach().norm(dim=-1, keepdim=True).clamp_min(1e-8)
    logits = unit[:, 0] @ unit[:, 1].T / TEMPERATURE  # [pairs, pairs]
    positive = (identity.unsqueeze(1) == identity).to(logits.dtype)
    ways = [(way * positive).sum() / positive.sum() for way in (logits.log_softmax(1), logits.log_softmax(0))]
    nearest = logits.detach().argmax(1, keepdim=True)
    chance = torch.full_like(logits[0, 0].detach(), len(logits)).log()
    return Contrast(-(ways[0] + ways[1]) / 2, positive.gather(1, nearest).mean(), chance)
