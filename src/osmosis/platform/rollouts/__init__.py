"""The rollouts that the catalogue found."""
