"""Reading and writing many messages at a time, over HTTP: for Spark and its like."""
