"""Pictures of a report, as inline SVG: each takes plain numbers and returns markup with a text alternative."""
