"""Castsmith inside other tools: a module for each, which imports that tool, and which nothing else imports."""
