"""Pictures of a report, as inline SVG: each takes plain numbers and gives markup with a text alternative."""
