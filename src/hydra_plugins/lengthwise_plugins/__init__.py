"""Found by Hydra itself: whatever is installed under ``hydra_plugins`` is loaded."""
