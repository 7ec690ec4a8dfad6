"""The report of a run as one page: what is read and computed apart from how it is drawn.

rows                                        which row of the paper's tables an evaluation belongs to
embeddings                                  what a model makes of segments: neighbours, principal components
curves, configuration, census, scores,
augmentations, neighbours, components       a section of the page each
markup, plots, sheets, page                 HTML and SVG
"""
