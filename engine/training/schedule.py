"""How the learning rate changes with the updates."""

_RISING, _STAYING = 0.1, 0.2  # shares of the updates; the rest falls
_ENDS = 0.01  # of the full rate, where it begins and where it ends


def tri_stage(update: int, updates: int) -> float:
    """The share of the full rate at `update`: rises in a line, stays, falls by the same factor each update."""
    rising, staying = _RISING * updates, _STAYING * updates
    if update < rising:
        return _ENDS + (1 - _ENDS) * update / rising
    if update < rising + staying:
        return 1.0
    fallen = (update - rising - staying) / (updates - rising - staying)
    return float(_ENDS ** min(fallen, 1.0))
