"""One system in pre-training: from a batch to the loss that is minimised and what is worth watching."""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from engine.methods import DIVERSITY, FEATURE_GRADIENT, FEATURE_PENALTY, System
from engine.model.dropout import dropout
from engine.model.encoder import Encoded, Encoder, mean_over_time
from engine.model.masking import TimeMask, thinned, time_mask
from engine.model.quantizer import Quantizer
from engine.model.sizes import PRETRAINING, Dropout, Recipe, Sizes
from engine.objectives import contrast, local


class Draws(NamedTuple):
    """What chance decides inside the forward; None: drawn there, from torch's own generator."""

    gumbel: Tensor | None = None  # [segments, slots, groups, codes], Gumbel noise
    lots: Tensor | None = None  # [segments, slots], uniform: who is thinned out (recipe `reference`)
    negatives: Tensor | None = None  # [segments, slots, negatives], uniform: who is drawn (recipe `reference`)


DRAWN_HERE = Draws()


class Losses(NamedTuple):
    total: Tensor
    metrics: dict[str, Tensor]  # scalars, on the device


class Learner(nn.Module):
    """Encoder, quantizer and objectives of one system and recipe.

    `ranks`: who shares the contrast pool, and the use of the codes (recipe `paper`); gradients are to be averaged over
    them. None: the batch is the pool.
    """

    def __init__(
        self,
        system: System,
        sizes: Sizes,
        recipe: Recipe = "paper",
        drop: Dropout = PRETRAINING,
        ranks: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        if not system.local and system.contrast == "none":
            raise ValueError("random_init is fine-tuned from fresh weights: there is nothing to pre-train")
        self.system, self.recipe, self.drop = system, recipe, drop
        self.ranks = ranks if recipe == "paper" else None  # the reference contrasts what one rank holds
        self.encoder = Encoder(sizes, recipe, drop)
        if system.local:
            self.quantizer = Quantizer(sizes)
            self.target_projection = nn.Linear(sizes.contrast_dim, sizes.contrast_dim)
            self.context_projection = nn.Linear(sizes.dim, sizes.contrast_dim)
        else:
            self.encoder.mask_embedding.requires_grad_(False)

    def forward(
        self,
        batch: Tensor,
        identity: Tensor,
        starts: Tensor | None,
        temperature: Tensor,
        draws: Draws = DRAWN_HERE,
    ) -> Losses:
        """`batch` [pairs, 2, samples, leads] in mV; `identity` [pairs]: of the record, or the patient where known.

        `starts` [segments, spans] of the time mask, None where the system has none; `temperature`: the quantizer's.
        """
        assert (starts is not None) == self.system.time_mask
        signal = batch.flatten(0, 1)  # [segments, samples, leads], a pair's two one after the other
        mask = None if starts is None else self._time_mask(starts, signal.shape[1], draws)
        masked = None if mask is None else mask.masked
        encoded = self.encoder(signal, masked, feature_gradient=FEATURE_GRADIENT)
        parts = []
        if self.system.local:
            assert mask is not None, "the local objective is over masked tokens"
            parts.append(self._local(encoded, mask, temperature, draws))
        if self.system.contrast != "none":
            parts.append(self._global(encoded.contexts, identity))
        total = torch.stack([part.total for part in parts]).sum()
        metrics = {name: value.detach() for part in parts for name, value in part.metrics.items()}
        return Losses(total, {"loss": total.detach(), **metrics})

    def _time_mask(self, starts: Tensor, samples: int, draws: Draws) -> TimeMask:
        mask = time_mask(starts, self.encoder.sizes.tokens(samples))
        if self.recipe == "paper":
            return mask
        return thinned(mask, torch.rand_like(mask.weights) if draws.lots is None else draws.lots)

    def _local(self, encoded: Encoded, mask: TimeMask, temperature: Tensor, draws: Draws) -> Losses:
        weights = mask.weights
        features = dropout(_at(mask.slots, encoded.features), self.drop.features, self.training)
        quantized = self.quantizer(features, temperature, draws.gumbel)
        contexts = self.context_projection(_at(mask.slots, encoded.contexts))  # [segments, slots, contrast_dim]
        targets = self.target_projection(quantized.vectors)
        logits = local.logits(contexts, targets, quantized.codes, weights)
        if self.recipe == "paper":
            loss = local.mean_of_segments(local.info_nce(logits), weights)
        else:
            shape = (*weights.shape, local.NEGATIVES)
            uniform = torch.rand(shape, device=weights.device) if draws.negatives is None else draws.negatives
            logits = local.drawn(logits, uniform, weights)
            loss = local.mean_of_tokens(local.info_nce(logits), weights)
        perplexity, uncertain = self._codes_in_use(quantized.logits, weights)
        diversity = local.diversity(uncertain, quantized.logits.shape[2:].numel())
        penalty = local.feature_penalty(encoded.convolved)
        watched = local.local_metrics(logits, weights)
        metrics = {
            "local": loss,
            "local_chance": watched.chance,
            "local_accuracy": watched.accuracy,
            "local_counted": watched.counted,
            "diversity": diversity,
            "feature_penalty": penalty,
            "probability_perplexity": uncertain,
            "code_perplexity": perplexity,
        }
        return Losses(loss + DIVERSITY * diversity + FEATURE_PENALTY * penalty, metrics)

    def _codes_in_use(self, logits: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """-> perplexity of the codes chosen, and of their probabilities, which has a gradient."""
        chosen = local.best_codes(logits, weights, self.ranks)
        probable = local.probable_codes(logits, weights, self.ranks)
        return local.perplexity(chosen), local.perplexity(probable)

    def _global(self, contexts: Tensor, identity: Tensor) -> Losses:
        result = self._contrast(mean_over_time(contexts), identity)
        metrics = {"global": result.loss, "global_chance": result.chance, "pair_retrieval": result.retrieval}
        return Losses(result.loss, metrics)

    def _contrast(self, vectors: Tensor, identity: Tensor) -> contrast.Contrast:
        if self.recipe == "reference" and self.system.contrast == "cmsc":
            return contrast.first_against_second(vectors.unflatten(0, (-1, 2)), identity)
        if self.system.contrast == "simclr":  # a segment's positive is its other view, and nothing else of its record
            first = 0 if self.ranks is None else dist.get_rank(self.ranks) * len(identity)
            identity = torch.arange(first, first + len(identity), device=identity.device)
        pool = contrast.pool(vectors, identity.repeat_interleave(2), self.ranks)
        return contrast.multi_positive(pool) if self.system.contrast == "3kg" else contrast.nt_xent(pool)


def _at(slots: Tensor, tokens: Tensor) -> Tensor:
    """[segments, slots] of [segments, tokens, dim] -> [segments, slots, dim]."""
    return tokens.gather(1, slots.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))
