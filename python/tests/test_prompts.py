"""Prompts name the concepts of largest weight, in the paper's words."""

import pytest

from conceptwatch import prompt

WEIGHTS = {"red wing": 0.25, "long bill": -1.5, "white belly": 0.0, "crest": 0.123456}


def test_concepts_are_ranked_by_the_size_of_their_weights() -> None:
    text = prompt(1, WEIGHTS, top=3)
    assert text.splitlines()[1] == "long bill: -1.5, red wing: 0.25, crest: 0.1235"
    assert text.startswith("Please enter your features (concepts)")
    assert "white belly" not in text
    assert "white belly: 0" in prompt(1, WEIGHTS)


def test_every_variant_has_its_own_words() -> None:
    prompts = [prompt(variant, WEIGHTS, top=2) for variant in range(1, 6)]
    assert len(set(prompts)) == 5
    assert prompts[1].splitlines()[1:] == ["Concept Weight", "long bill -1.5", "red wing 0.25"]
    for text in prompts[2:]:
        assert text.splitlines()[1] == "long bill: -1.5, red wing: 0.25"
        assert text.endswith("Rank the importance based on the weight's absolute value.")


@pytest.mark.parametrize(
    ("variant", "weights", "top", "named"), [(6, WEIGHTS, 5, "variant"), (1, {}, 5, "weights"), (1, WEIGHTS, 0, "top")]
)
def test_what_makes_no_prompt_is_an_error(variant: int, weights: dict[str, float], top: int, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        prompt(variant, weights, top=top)
