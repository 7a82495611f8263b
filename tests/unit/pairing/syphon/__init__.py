"""Tests of the syphon's logic, over a backlog and a primary made of lists."""
