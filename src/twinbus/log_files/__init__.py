"""Files of operation logs: their columns, and segments that are whole or not there."""
