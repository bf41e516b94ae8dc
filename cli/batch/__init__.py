"""Many models in one run: processes on this machine or a Dask cluster, one model at a time each.

inputs       `means_many` tells whether arguments ask for many, `models_of` finds the models that they name
many         `run_many` runs a command that writes models, `run_pairs` one that compares them, `outcomes` others
pool         the processes of this machine; `useful_processes`, their number
worker       a process that does the work, a `Task` for each model
"""
