"""Unit tests of the jobs that Spark runs."""
