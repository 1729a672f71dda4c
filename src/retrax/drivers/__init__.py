"""Drivers: they take the steps of a run that the plan asks for, compiled or one by one."""
