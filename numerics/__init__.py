"""Numbers without graphs: element types, conversions, promotion, and what is exact.

`types` has a row for each element type, `cast` converts arrays, `exactness` tells whether casts in a row are one cast,
`status` what the standard leaves undefined. Nothing here knows of models.
"""
