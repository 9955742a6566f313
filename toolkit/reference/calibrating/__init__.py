"""Measures what the engine is made of, without a server: collectives, memory, single forwards.

It imports torch, the standard library and the reference engine; the engines' own all-reduces where they are
installed.
"""
