"""Tests of the syphon's logic, with a backlog and a primary made of lists."""
