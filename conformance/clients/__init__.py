"""Programs that use the bus as applications do, each with an unchanged client."""
