"""Drivers: they run a method's steps. `jax` compiles whole stretches of them, `eager` is a plain loop."""
