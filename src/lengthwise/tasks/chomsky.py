"""What the fifteen tasks of the Chomsky-hierarchy suite have in common: source and protocol."""

SUITE = "Delétang et al. 2023, Neural networks and the Chomsky hierarchy, and its published code"

PROTOCOL = (
    "lengths are mixed within a batch (published: one length a batch, l uniform over 1…40, tested on 41…500 "
    "by the paper, 42…500 by its code); shorter training lengths by default"
)

NOT_REGULAR = (
    "Measured: the Transformers of the original study did not generalise on its tasks above the regular ones "
    "(Delétang et al. 2023)."
)
