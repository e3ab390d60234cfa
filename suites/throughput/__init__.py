"""How fast the target decodes, loads, trains, infers, saves and loads, in how much memory: raw samples, each with its work."""
