"""Tests of administration: XML in, XML out."""
