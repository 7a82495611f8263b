"""What `twinbus log` does: reads operation logs, prints and exports them."""
