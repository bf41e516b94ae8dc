"""Numbers without graphs: element types, conversions, promotion, and exactness.

`types` has a row for each element type, `cast` converts arrays, `exactness` decides whether a chain of casts equals one
cast, `status` lists what the standard leaves undefined, `symbols` has numbers that are sums of products of symbols.
Nothing in this package depends on models.
"""
