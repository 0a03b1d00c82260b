"""Prompts that describe concepts to a text encoder.

Source: Evaluating the Unseen: A Novel Framework for Assessing Unsupervised Concept Bottleneck Models, Table 3.
"""

from collections.abc import Mapping

_OPENINGS = {
    1: "Please enter your features (concepts) and their corresponding weights in the following format:",
    2: "The features (concepts) and weights in a table format:",
    3: "The image is influenced by the following features (concepts) and their associated weights:",
    4: "Paired Features: Each feature (concept) is paired with its weight to indicate its relevance to the image:",
    5: "The image's interpretation is shaped by the following features (concepts), "
    "ranked by their weight significance:",
}
_RANKED = "Rank the importance based on the weight's absolute value."


def prompt(variant: int, weights: Mapping[str, float], *, top: int = 5) -> str:
    """Prompt 1 to 5 of the paper, for `ConceptScore` and the text scores.

    weights: each concept's weight by its name, such as its contribution to the predicted class. The `top` concepts of
        largest absolute weight are named, in descending order.
    """
    if variant not in _OPENINGS:
        raise ValueError(f"variant: got {variant!r}, expected 1 to {len(_OPENINGS)}")
    if top < 1:
        raise ValueError(f"top: got {top}, expected at least 1")
    if not weights:
        raise ValueError("weights: got none, expected at least one concept")
    ranked = sorted(weights.items(), key=lambda pair: -abs(pair[1]))[:top]
    lines = [_OPENINGS[variant]]
    if variant == 2:
        lines += ["Concept Weight", *(f"{name} {weight:.4g}" for name, weight in ranked)]
    else:
        lines.append(", ".join(f"{name}: {weight:.4g}" for name, weight in ranked))
    if variant > 2:
        lines.append(_RANKED)
    return "\n".join(lines)
