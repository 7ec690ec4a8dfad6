"""What the learner puts together: thinning, the objective of each system."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.learner import Draws, Learner
from engine.methods import SYSTEMS
from engine.model.masking import time_mask
from engine.model.sizes import NO_DROPOUT, SIZES, Dropout, Sizes
from engine.objectives import local
from tests.engine import draws

SMALL = Sizes(conv_dim=16, dim=32, layers=1, heads=2, feedforward=32, codes=12, contrast_dim=8, position_taps=16)
TEMPERATURE = torch.tensor(1.5, dtype=torch.float64)


def learner(name: str) -> Learner:
    torch.manual_seed(0)
    return Learner(SYSTEMS[name], SMALL, drop=NO_DROPOUT).double()


def vectors(of: Learner, pairs: int) -> Tensor:
    """Unit global representations [2 * pairs, dim]."""
    contexts = of.encoder(draws.batch(pairs).double().flatten(0, 1)).contexts
    return F.normalize(contexts.mean(1), dim=-1)


def test_3kg_takes_views_of_one_record_for_positives_and_out_of_the_denominator() -> None:
    """Each of a row's positives against it and all rows of other records; summed over rows, divided by 2N."""
    of, identity = learner("3kg"), torch.tensor([0, 1, 0])
    unit, owner = vectors(of, 3), identity.repeat_interleave(2)
    cosines = unit @ unit.T / 0.1
    total = 0.0
    for row in range(6):
        others = [float(cosines[row, k]) for k in range(6) if owner[k] != owner[row]]
        for positive in range(6):
            if positive != row and owner[positive] == owner[row]:
                own = float(cosines[row, positive])
                total -= own - math.log(math.exp(own) + sum(map(math.exp, others)))
    found = of(draws.batch(3).double(), identity, None, TEMPERATURE).total
    torch.testing.assert_close(found, torch.tensor(total / 6, dtype=torch.float64), rtol=1e-9, atol=0)


def test_simclr_takes_the_other_view_alone() -> None:
    of = learner("simclr_rlm")
    unit = vectors(of, 3)
    cosines = (unit @ unit.T / 0.1).fill_diagonal_(-torch.inf)
    expected = F.cross_entropy(cosines, torch.tensor([1, 0, 3, 2, 5, 4]))
    found = of(draws.batch(3).double(), torch.zeros(3, dtype=torch.long), None, TEMPERATURE).total
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)


def test_the_reference_thins_every_row_to_the_fewest() -> None:
    torch.manual_seed(0)
    of = Learner(SYSTEMS["w2v"], SMALL, "reference", NO_DROPOUT)
    starts, lots = draws.starts(8), torch.rand(8, 100)
    fewest = int(time_mask(starts, 156).weights.sum(1).min())
    mask = of._time_mask(starts, 2500, Draws(lots=lots))
    assert (mask.weights.sum(1) == fewest).all() and (mask.masked.sum(1) == fewest).all()
    paper = Learner(SYSTEMS["w2v"], SMALL, "paper", NO_DROPOUT)._time_mask(starts, 2500, Draws())
    assert len(set(paper.weights.sum(1).tolist())) > 1


def test_the_reference_draws_a_hundred_negatives() -> None:
    assert local.NEGATIVES == 100


def test_each_dropout_has_its_place() -> None:
    """Of the residual, attention, activation, input and target features: each alone changes the loss."""
    batch, starts = draws.batch(2), draws.starts(4)
    noise = Draws(gumbel=torch.zeros(4, 100, 2, 12))

    def loss(drop: Dropout) -> float:
        torch.manual_seed(0)
        of = Learner(SYSTEMS["w2v_cmsc"], SMALL, drop=drop)
        torch.manual_seed(1)
        return float(of(batch, torch.arange(2), starts, torch.tensor(1.5), noise).total.detach())

    still = loss(NO_DROPOUT)
    alone = [Dropout(*(0.5 if place == one else 0.0 for place in range(5))) for one in range(5)]
    assert len({still, *map(loss, alone)}) == 6


def test_weights_begin_as_in_bert_and_the_reference() -> None:
    torch.manual_seed(0)
    of = Learner(SYSTEMS["w2v"], SIZES["small"])
    layer = of.encoder.layers[0]
    for linear in (layer.attention.qkv, layer.attention.out, layer.expand, layer.contract):
        assert abs(float(linear.weight.detach().std()) - 0.02) < 5e-4 and not linear.bias.any()
    assert abs(float(of.quantizer.logits.weight.detach().std()) - 1) < 0.02 and not of.quantizer.logits.bias.any()
    assert float(of.quantizer.codebook.detach().min()) >= 0 and float(of.quantizer.codebook.detach().max()) <= 1
    assert abs(float(of.quantizer.codebook.detach().mean()) - 0.5) < 0.02
