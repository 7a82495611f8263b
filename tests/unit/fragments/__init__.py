"""Tests of partitioned entities: keys, routes, placement."""
