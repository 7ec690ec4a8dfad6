"""The local objective: a masked token's context finds its own quantized target among those of the same segment."""

from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from engine.objectives.gathering import IMPOSSIBLE, gathered
from engine.precision import at_least_float32

TEMPERATURE = 0.1
NEGATIVES = 100  # that the reference draws
# Candidates of another code that a token needs to count in the accuracy: below that, collapse looks like skill.
COUNTED = 10


class Logits(NamedTuple):
    positive: Tensor  # [segments, slots]
    negatives: Tensor  # [segments, slots, candidates]; IMPOSSIBLE where there is no candidate


class LocalMetrics(NamedTuple):
    accuracy: Tensor  # of the tokens that count, how many find their target
    counted: Tensor  # of all masked tokens, how many count
    chance: Tensor  # the loss of who cannot tell the candidates apart


def logits(contexts: Tensor, targets: Tensor, codes: Tensor, weights: Tensor) -> Logits:
    """Cosines over temperature, of each token to the targets of all other masked tokens of its segment.

    `contexts`, `targets` [segments, slots, dim]; `codes`, `weights` [segments, slots]. A target of the positive's own
    code is the positive itself and no candidate. No negative is ever gathered: they are all in one small matrix.
    """
    contexts = F.normalize(at_least_float32(contexts), dim=-1, eps=1e-8)
    targets = F.normalize(at_least_float32(targets), dim=-1, eps=1e-8)
    cosines = contexts @ targets.transpose(1, 2) / TEMPERATURE  # [segments, slots, slots]
    candidates = (weights.unsqueeze(1) > 0) & (codes.unsqueeze(1) != codes.unsqueeze(2))
    return Logits(cosines.diagonal(dim1=1, dim2=2), cosines.masked_fill(~candidates, IMPOSSIBLE))


def drawn(of: Logits, uniform: Tensor, weights: Tensor) -> Logits:
    """The reference's: negatives drawn with replacement from the other masked tokens, by `uniform` [..., negatives]."""
    others = weights.sum(1).long().view(-1, 1, 1) - 1
    index = (uniform * others).long()
    own = torch.arange(weights.shape[1], device=weights.device).view(1, -1, 1)
    # Masked tokens are in front; who comes behind a token's own place moves up by one. Unused slots may point anywhere.
    index = (index + (index >= own)).clamp_max(weights.shape[1] - 1)
    return Logits(of.positive, of.negatives.gather(2, index))


def info_nce(of: Logits) -> Tensor:
    """-> [segments, slots]: -log of the positive's share (the paper's L_t)."""
    everything = torch.cat([of.positive.unsqueeze(-1), of.negatives], -1)
    return everything.logsumexp(-1) - of.positive


def mean_of_segments(losses: Tensor, weights: Tensor) -> Tensor:
    """The paper: the mean over segments of the mean over a segment's masked tokens."""
    weights = weights.to(losses.dtype)
    return ((losses * weights).sum(1) / weights.sum(1)).mean()


def mean_of_tokens(losses: Tensor, weights: Tensor) -> Tensor:
    """The reference: the mean over all masked tokens."""
    weights = weights.to(losses.dtype)
    return (losses * weights).sum() / weights.sum()


def local_metrics(of: Logits, weights: Tensor) -> LocalMetrics:
    of = Logits(of.positive.detach(), of.negatives.detach())
    candidates = (of.negatives > IMPOSSIBLE).sum(-1)  # [segments, slots]
    counted = weights * (candidates >= COUNTED)
    found = counted * (of.positive > of.negatives.amax(-1))
    return LocalMetrics(
        accuracy=found.sum() / counted.sum().clamp_min(1),
        counted=counted.sum() / weights.sum(),
        chance=(candidates.float().log1p() * weights).sum() / weights.sum(),
    )


def probable_codes(logits: Tensor, weights: Tensor, ranks: dist.ProcessGroup | None = None) -> Tensor:
    """[segments, slots, groups, codes] -> [groups, codes]: the mean probability over masked tokens, of all `ranks`."""
    total = torch.einsum("sm,smgv->gv", weights.to(logits.dtype), logits.softmax(-1))
    return _shares(total, ranks)


def best_codes(logits: Tensor, weights: Tensor, ranks: dist.ProcessGroup | None = None) -> Tensor:
    """[segments, slots, groups, codes] -> [groups, codes]: how often each is the most probable one; no gradient."""
    best = logits.detach().argmax(-1).flatten(0, 1).T  # [groups, all slots]
    counts = logits.new_zeros(logits.shape[2:])
    return _shares(counts.scatter_add(1, best, weights.to(counts.dtype).flatten().expand_as(best)), ranks)


def _shares(total: Tensor, ranks: dist.ProcessGroup | None) -> Tensor:
    """Every masked token has put 1 into each row of `total` [groups, codes]."""
    if ranks is not None:
        total = gathered(total.unsqueeze(0), ranks).sum(0)
    return total / total.detach().sum(-1, keepdim=True)


def perplexity(shares: Tensor) -> Tensor:
    """exp(entropy) of each group's `shares` [groups, codes], added up: at most the number of all codes."""
    return torch.exp(-(shares * torch.log(shares + 1e-7)).sum(-1)).sum()


def diversity(probability_perplexity: Tensor, codes: int) -> Tensor:
    """0 where all `codes` of all groups are used alike, nearly 1 where one is."""
    return (codes - probability_perplexity) / codes


def feature_penalty(convolved: Tensor) -> Tensor:
    return at_least_float32(convolved).square().mean()
