import pytest

from engine.model.sizes import SIZES, Sizes


def test_a_token_is_16_samples() -> None:
    assert SIZES["base"].patch == 16
    assert [SIZES["base"].tokens(samples) for samples in (16, 31, 32, 2500, 5000)] == [1, 1, 2, 156, 312]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 5}, "dim = 768 cannot be divided by heads = 5"),
        ({"position_groups": 7}, "dim = 768 cannot be divided by position_groups = 7"),
        ({"code_groups": 3}, "contrast_dim = 256 cannot be divided by code_groups = 3"),
        ({"position_taps": 127}, "position_taps = 127 is odd"),
    ],
)
def test_what_does_not_fit_is_named(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sizes(**settings)
