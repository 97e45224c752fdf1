"""Chains over time of recurrent networks: Start -> group -> h(1) -> h(2) -> ... -> label, unrolled or folded."""
