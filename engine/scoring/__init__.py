"""Figures of merit, and the intervals around them: pure functions of arrays."""
