"""Inputs on which two models are compared: given by the caller, or drawn so that they find differences.

sets        which sets of inputs are tried, on which sizes
given       inputs that the caller gives: arrays, an .npz, a folder
drawn       arrays of awkward values, in shapes on which the models run
values      the values of every class of a type, and those that occur in the models
reach       what inputs need so that a model runs on them and is covered
demands     elements that have to reach parts of two models that differ
witnesses   elements that tell two functions of one element apart
"""
