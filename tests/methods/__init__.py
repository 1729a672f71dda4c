"""Tests of methods, schedules, sampling, plans, recording and `minimize`."""
