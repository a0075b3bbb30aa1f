"""Heavy frameworks, in an environment of their own: ./run frameworks"""

HEAVY = ("crewai", "strands", "adk", "claude")
