"""castsmith.fit: the ways to make a model run on a target, what each costs, and the cheapest of them.

A way is a list of steps, each a call of `optimize` or `convert` that the user could make too: `ways` lists those that
may help a model, `cost` is what they are compared by, `blame` names the operators of the user's file that stand in the
way, and `run` tries, chooses and measures.
"""
