"""Tests of runs that last: files, streams, checkpoints, interruption, several devices."""
