"""lower-operators: operators on integers and bool for which the target has no kernel, computed exactly by others."""
